"""Which claims would have to end: all sets of up to three in order, then a greedy set.

Sets are tried on a copy of the ledger: the fewest claims first, then those that no pod uses, then the fewest devices.
A node needs only claims whose devices it sees, so sets are made of the claims of one node view.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb
from typing import Final

from dra_operator.allocator import Allocated, Decision, Failed, Unsatisfied
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.plan import Alternative
from dra_operator.api.types import AllocationResult, DeviceAllocationResult
from dra_operator.inventory import PoolView, bits
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.pods.change import Change, Kind
from dra_operator.pods.situation import (
    LIMITS,
    Situation,
    copy_ledger,
)
from dra_operator.pods.trials import ExhaustedError, Trials

LARGEST: Final = 3
"""All sets of so many claims are tried."""
_MOST_SETS: Final = 20_000
"""Of one size: of more none is tried."""
_PART_OF_GREEDY: Final = 5
"""A fifth of the decisions is left for a greedy set, if there are more sets to try."""
_FEW_NODES: Final = 64
"""Of more nodes not all sets are tried."""
_NODES_OF_BATCH: Final = 16
"""Then so many nodes are tried first, and others only if nothing helps there; and so many claims alone."""
_MOST_ALONE: Final = 64
_MOST_NODES: Final = 128
"""So many nodes with claims that could end are looked at."""
_MOST_GREEDY: Final = 8
"""Nodes for which a greedy set is looked for."""
_MOST_NAMES: Final = 3

_Set = tuple[ClaimKey, ...]


@dataclass(frozen=True, slots=True)
class _Holder:
    """A claim that may end: whether something uses it, and how many devices it holds; what it has in the ledger."""

    is_used: bool
    devices: int
    allocation: AllocationResult


def find_ended(trials: Trials) -> Change | None:
    """Return the claims whose end helps. Raises ExhaustedError if no more decisions may be made."""
    situation = trials.situation
    holders = _Holders(trials)
    groups = holders.find_by_node()
    if not groups:
        return None
    names = frozenset(situation.allocator.inventory.nodes if situation.nodes is None else situation.nodes)
    is_exact = len(names) <= _FEW_NODES
    batches = [names] if is_exact else _batches(groups, holders)
    if not is_exact and isinstance(trials.decide(situation), Failed):
        # The node where an attempt ends with an error ends it for nodes behind it as well.
        trials.is_complete = False
        return None
    for batch in batches:
        inventory = situation.allocator.inventory.with_nodes(batch)
        ledger = copy_ledger(situation.allocator.ledger, inventory)
        allocator = situation.allocator.for_copy(inventory, ledger)
        try:
            edited = replace(situation, allocator=allocator, nodes=None)
            sets = list(dict.fromkeys(groups[name] for name in sorted(batch & groups.keys())))
            search = _Search(trials, edited, ledger, holders, is_exact=is_exact)
            if (found := search.find(sets)) is not None:
                return found
        finally:
            allocator.release()
    if len(groups) == _MOST_NODES:
        trials.is_complete = False
    return None


def _batches(groups: Mapping[str, _Set], holders: "_Holders") -> list[frozenset[str]]:
    """Return nodes in sets: those first where one claim would be missed least, and those that have few claims."""
    by_first = sorted(groups, key=lambda name: (min(map(holders.order_one, groups[name])), name))
    by_number = sorted(groups, key=lambda name: (len(groups[name]), name))
    names = list(dict.fromkeys(name for pair in zip(by_first, by_number, strict=True) for name in pair))
    return [
        frozenset(names[start : start + _NODES_OF_BATCH]) for start in range(0, len(names), _NODES_OF_BATCH)
    ]


@dataclass(slots=True)
class _Search:
    """The search on the nodes of one allocator, which `ledger` belongs to. `is_exact`: there are no other nodes."""

    trials: Trials
    situation: Situation
    ledger: Ledger
    holders: "_Holders"
    is_exact: bool

    def find(self, groups: Sequence[_Set]) -> Change | None:
        if self._are_of_no_use(frozenset[ClaimKey]().union(*groups)):
            return None
        reserve = self.trials.left // _PART_OF_GREEDY
        for size in range(1, LARGEST + 1 if self.is_exact else 2):
            if size == 2:
                groups = [group for group in groups if not self._are_of_no_use(group)]
            if sum(comb(len(group), size) for group in groups) > _MOST_SETS:
                self.is_exact = False
                break
            sets = {each for group in groups for each in combinations(group, size)}
            room = max(self.trials.left - reserve, 0) if self.is_exact else _MOST_ALONE
            for each in sorted(sets, key=self.holders.order)[:room]:
                if self._fits_without(each):
                    return self._change(each, is_fewest=True)
            if len(sets) > room:
                self.is_exact = False
                break
        if self.is_exact and all(len(group) <= LARGEST for group in groups):
            return None
        return self._find_greedily(groups)

    def _are_of_no_use(self, keys: Iterable[ClaimKey]) -> bool:
        """Return whether the claims do not fit without these either; an error says nothing of fewer."""
        return isinstance(self._decide_without(keys), Unsatisfied)

    def _fits_without(self, keys: Iterable[ClaimKey]) -> bool:
        return isinstance(self._decide_without(keys), Allocated)

    def _decide_without(self, keys: Iterable[ClaimKey]) -> Decision:
        keys = [*keys]
        for key in keys:
            self.ledger.withdraw(*key)
        try:
            return self.trials.decide(self.situation)
        finally:
            for key in keys:
                self.ledger.assume(*key, self.holders.known[key].allocation)

    def _find_greedily(self, groups: Sequence[_Set]) -> Change | None:
        """Return claims of which each must end, beside the others, found by letting go on as many as possible."""
        found: list[_Set] = []
        for group in sorted(groups, key=self.holders.order)[:_MOST_GREEDY]:
            try:
                if self._fits_without(group):
                    found.append(self._reduce(group))
            except ExhaustedError:
                if not found:
                    raise
                break
        if not found:
            self.trials.is_complete &= self.is_exact
            return None
        return self._change(min(found, key=self.holders.order), is_fewest=False)

    def _reduce(self, group: _Set) -> _Set:
        left = group
        for key in sorted(group, key=self.holders.order_one, reverse=True):
            fewer = tuple(each for each in left if each != key)
            try:
                if fewer and self._fits_without(fewer):
                    left = fewer
            except ExhaustedError:
                # What is left is enough, if not little.
                break
        return left

    def _change(self, keys: _Set, *, is_fewest: bool) -> Change:
        text = _name_claims(keys, self.situation.namespace)
        text = f"{text} ended" if is_fewest else f"enough claims ended, such as {text}"
        return Change(Kind.CLAIMS_ENDED, text, self.holders.size(keys), ended=frozenset(keys))


@dataclass(slots=True)
class _Holders:
    """The claims that may end, and what is known of them."""

    trials: Trials
    known: dict[ClaimKey, _Holder] = field(default_factory=dict)
    _unknown: set[ClaimKey] = field(default_factory=set)

    def size(self, keys: _Set) -> tuple[int, int, int]:
        """Return how many claims a set has, how many are in use, and how many devices they hold."""
        holders = [self.known[key] for key in keys]
        return len(keys), sum(each.is_used for each in holders), sum(each.devices for each in holders)

    def order(self, keys: _Set) -> tuple[object, ...]:
        """Return what sets are ordered by."""
        return *self.size(keys), keys

    def order_one(self, key: ClaimKey) -> tuple[bool, int, ClaimKey]:
        """Return what single claims are ordered by."""
        holder = self.known[key]
        return holder.is_used, holder.devices, key

    def find_by_node(self) -> dict[str, _Set]:
        """Return, for each usable node that suits, the claims whose devices could be of use there, if any.

        In a large cluster it does so for the first nodes by name.
        """
        situation = self.trials.situation
        views = situation.allocator.availability.views
        alternatives = self._alternatives()
        of_pool: dict[int, frozenset[ClaimKey]] = {}
        of_view: dict[int, _Set] = {}
        found: dict[str, _Set] = {}
        for name in views.order if situation.nodes is None else situation.nodes:
            if not views.usable >> views.index[name] & 1:
                continue
            node = views.of_node(name)
            if id(node) not in of_view:
                self.trials.check_time()
                for view in node.pools:
                    if view.serial not in of_pool:
                        of_pool[view.serial] = self._find(view, alternatives)
                keys = frozenset[ClaimKey]().union(*(of_pool[view.serial] for view in node.pools))
                of_view[id(node)] = tuple(sorted(keys))
            if group := of_view[id(node)]:
                found[name] = group
                if len(found) == _MOST_NODES:
                    break
        return found

    def _alternatives(self) -> list[Alternative]:
        situation = self.trials.situation
        try:
            plans = [
                situation.allocator.plan(claim, situation.decider) for claim in situation.claims.values()
            ]
        except FatalError:
            # Whoever ends, the claims cannot be decided.
            return []
        return [item for plan in plans for request in plan.requests for item in request.alternatives]

    def _find(self, view: PoolView, alternatives: Sequence[Alternative]) -> frozenset[ClaimKey]:
        """Return the claims that may end and hold what could serve a request, or counters that it could draw on."""
        allocator = self.trials.situation.allocator
        budget = Budget(LIMITS, allocator.clock)
        names: set[str] = set()
        for slice_ in view.slices:
            selected = 0
            try:
                for item in alternatives:
                    selected |= allocator.candidates.select(item.key, slice_, budget)
            except AbortedError:
                self.trials.is_complete = False
                continue
            names.update(slice_.names[index] for index in bits.each(selected))
        if names and view.counted:
            names.update(name for slice_ in view.slices for name in slice_.names)
        return frozenset(key for key in allocator.ledger.holders(view.key, names) if self._may_end(key))

    def _may_end(self, key: ClaimKey) -> bool:
        if key in self.known:
            return True
        situation = self.trials.situation
        if key in self._unknown or key in situation.kept or key in situation.ended:
            return False
        claim = situation.find_claim(key)
        if claim is None or claim.status.allocation is None:
            self._unknown.add(key)
            return False
        results = situation.allocator.ledger.results(key)
        devices = sum(not result.admin_access for result in results)
        allocation = AllocationResult(DeviceAllocationResult(results))
        self.known[key] = _Holder(bool(claim.status.reserved_for), devices, allocation)
        return True


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
