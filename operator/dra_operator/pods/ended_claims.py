"""Which claims would have to end: all sets of up to three in order, then a greedy set.

Sets are tried on a copy of the ledger: the fewest claims first, then those that no pod uses, then the fewest devices.
A node needs only claims whose devices it sees, so sets are made of the claims of one node view.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import Final

from dra_operator.allocator import Allocated, Allocator, Decision, Unsatisfied
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.plan import Alternative
from dra_operator.api.types import ResourceClaim
from dra_operator.inventory import NodeView, PoolView, bits
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.pods.change import Change, Kind
from dra_operator.pods.situation import LIMITS, ExhaustedError, Trials, scratch_allocator

LARGEST: Final = 3
"""All sets of so many claims are tried."""
_DECISIONS_OF_GREEDY: Final = 200
"""So many are left for a greedy set, if there are more sets to try than decisions."""
_MOST_VIEWS: Final = 8
"""Node views for which a greedy set is looked for."""
_MOST_NAMES: Final = 3

_Set = tuple[ClaimKey, ...]


@dataclass(frozen=True, slots=True)
class _Holder:
    """A claim that may end: whether something uses it, and how many devices it holds."""

    claim: ResourceClaim
    is_used: bool
    devices: int


def find_ended(trials: Trials) -> Change | None:
    """Return the claims whose end helps. Raises ExhaustedError if no more decisions may be made."""
    situation = trials.situation
    ledger = situation.allocator.ledger.copy()
    with scratch_allocator(situation.allocator, ledger) as allocator:
        allocator.refresh()
        return _Search(trials, ledger, allocator).find()


@dataclass(slots=True)
class _Search:
    trials: Trials
    ledger: Ledger
    allocator: Allocator
    holders: dict[ClaimKey, _Holder] = field(default_factory=dict)
    """The claims that have been asked for so far, without those that may not end."""
    _unknown: set[ClaimKey] = field(default_factory=set)

    def find(self) -> Change | None:
        groups = self._find_groups()
        if not groups or self._are_of_no_use(frozenset[ClaimKey]().union(*groups)):
            return None
        for size in range(1, LARGEST + 1):
            if size == 2 and len(groups) <= self._left():
                groups = [group for group in groups if not self._are_of_no_use(group)]
            if sum(comb(len(group), size) for group in groups) > self._left():
                self.trials.is_complete = False
                break
            sets = {tuple(sorted(each)) for group in groups for each in combinations(group, size)}
            for each in sorted(sets, key=self._order):
                if self._fits_without(each):
                    return self._change(each)
        else:
            if all(len(group) <= LARGEST for group in groups):
                return None
        return self._find_greedily(groups)

    def _left(self) -> int:
        return self.trials.left - _DECISIONS_OF_GREEDY

    def _are_of_no_use(self, keys: Iterable[ClaimKey]) -> bool:
        """Return whether the claims do not fit without these either; an error says nothing of fewer."""
        return isinstance(self._decide_without(keys), Unsatisfied)

    def _find_groups(self) -> list[_Set]:
        """Return, for each usable node view, the claims whose devices could be of use there; without repetitions."""
        alternatives = self._alternatives()
        views = self.allocator.availability.views
        groups: dict[_Set, None] = {}
        of_pool: dict[int, frozenset[ClaimKey]] = {}
        nodes: dict[int, NodeView] = {}
        suitable = self.trials.situation.nodes
        for name in views.order if suitable is None else suitable:
            if views.usable >> views.index[name] & 1:
                node = views.of_node(name)
                nodes.setdefault(id(node), node)
        for node in nodes.values():
            for view in node.pools:
                if view.serial not in of_pool:
                    of_pool[view.serial] = self._find_holders(view, alternatives)
            found = frozenset[ClaimKey]().union(*(of_pool[view.serial] for view in node.pools))
            if found:
                groups[tuple(sorted(found))] = None
        return [*groups]

    def _alternatives(self) -> list[Alternative]:
        situation = self.trials.situation
        try:
            plans = [self.allocator.plan(claim, situation.decider) for claim in situation.claims.values()]
        except FatalError:
            # Whoever ends, the claims cannot be decided.
            return []
        return [item for plan in plans for request in plan.requests for item in request.alternatives]

    def _find_holders(self, view: PoolView, alternatives: Sequence[Alternative]) -> frozenset[ClaimKey]:
        """Return the claims that may end and hold what could serve a request, or counters that it could draw on."""
        budget = Budget(LIMITS, self.allocator.clock)
        candidates = self.allocator.candidates
        names: set[str] = set()
        for slice_ in view.slices:
            try:
                selected = [candidates.select(item.key, slice_, budget) for item in alternatives]
            except AbortedError:
                self.trials.is_complete = False
                continue
            found = 0
            for each in selected:
                found |= each
            names.update(slice_.names[index] for index in bits.each(found))
        if names and view.counted:
            names.update(name for slice_ in view.slices for name in slice_.names)
        return frozenset(key for key in self.ledger.holders(view.key, sorted(names)) if self._may_end(key))

    def _may_end(self, key: ClaimKey) -> bool:
        if key in self.holders:
            return True
        situation = self.trials.situation
        if key in self._unknown or key in situation.kept or key in situation.ended:
            return False
        claim = situation.find_claim(key)
        if claim is None or (allocation := claim.status.allocation) is None:
            self._unknown.add(key)
            return False
        devices = sum(not result.admin_access for result in allocation.devices.results)
        self.holders[key] = _Holder(claim, bool(claim.status.reserved_for), devices)
        return True

    def _order(self, keys: _Set) -> tuple[object, ...]:
        holders = [self.holders[key] for key in keys]
        return sum(each.is_used for each in holders), sum(each.devices for each in holders), keys

    def _fits_without(self, keys: Iterable[ClaimKey]) -> bool:
        return isinstance(self._decide_without(keys), Allocated)

    def _decide_without(self, keys: Iterable[ClaimKey]) -> Decision:
        keys = [*keys]
        for key in keys:
            self.ledger.remove(*key)
        try:
            return self.trials.decide_by(self.allocator)
        finally:
            for key in keys:
                self.ledger.put(self.holders[key].claim)

    def _find_greedily(self, groups: Sequence[_Set]) -> Change | None:
        """Return claims of which each must end, beside the others, found by letting go on as many as possible."""
        nearest = sorted(groups, key=lambda each: (len(each), each))[:_MOST_VIEWS]
        found = [self._reduce(group) for group in nearest if self._fits_without(group)]
        if not found:
            return None
        best = min(found, key=lambda keys: (len(keys), *self._order(keys)))
        return self._change(best, is_fewest=False)

    def _reduce(self, group: _Set) -> _Set:
        left = group
        for key in sorted(group, key=lambda key: self._order((key,)), reverse=True):
            fewer = tuple(each for each in left if each != key)
            try:
                if fewer and self._fits_without(fewer):
                    left = fewer
            except ExhaustedError:
                # What is left is enough, if not little.
                break
        return left

    def _change(self, keys: _Set, *, is_fewest: bool = True) -> Change:
        used, devices, _ = self._order(keys)
        text = _name_claims(keys, self.trials.situation.namespace)
        text = f"{text} ended" if is_fewest else f"enough claims ended, such as {text}"
        assert isinstance(used, int)
        assert isinstance(devices, int)
        return Change(Kind.CLAIMS_ENDED, text, (len(keys), used, devices), ended=frozenset(keys))


def _name_claims(keys: Iterable[ClaimKey], namespace: str) -> str:
    """Return the claims of a namespace by name, and how many others there are."""
    names = sorted(name for space, name in keys if space == namespace)
    others = sum(space != namespace for space, _ in keys)
    if not names:
        return "a claim of another namespace" if others == 1 else f"{others} claims of other namespaces"
    texts = names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    if others:
        texts.append(f"{others} of {'another namespace' if others == 1 else 'other namespaces'}")
    *most, last = texts
    subject = f"{', '.join(most)} and {last}" if most else last
    return f"claim{'s' if len(texts) > 1 else ''} {subject}"
