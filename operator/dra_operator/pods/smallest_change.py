"""The smallest change with which claims would fit: one edit of each kind, applied alone and decided again.

At most three kinds are shown, in the order of `Kind`. If no edit helps, it is said what none can mend. Bounded by a
number of decisions for each kind, and by time. Source: docs/pods.md.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb
from types import MappingProxyType
from typing import Final

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, Allocated, Decision, Failed, FatalError, Unsatisfied
from dra_operator.allocator.matching.candidates import AskContent
from dra_operator.allocator.plan import Alternative
from dra_operator.allocator.reasons import Reason
from dra_operator.api.text import listed, printable
from dra_operator.api.types import AllocationResult, DeviceAllocationResult, ResourceClaim
from dra_operator.inventory import PoolView, bits
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.pods.edits import EDITS, Change, Kind, Series, find_parts, is_monotone
from dra_operator.pods.situation import LIMITS, ExhaustedError, Situation, Trials, copy_ledger

# --- Which claims would have to end: for each node all sets of up to three of its claims in order, then a greedy set.
# Sets are tried on a copy of the ledger: the fewest claims first, then those that no pod uses, then the fewest
# devices.


LARGEST: Final = 3
"""All sets of so many claims of a node are tried."""
_MOST_SETS: Final = 2000
"""Of one node and size: of more none is tried."""
_MOST_NODES: Final = 128
"""So many nodes with claims that could end are looked at."""
_MOST_NAMES: Final = 3

_Set = tuple[ClaimKey, ...]


def is_reserved(claim: ResourceClaim) -> bool:
    """Return whether a claim is in use, as far as that is known without the pods."""
    return bool(claim.status.reserved_for)


def find_ended(trials: Trials, is_used: Callable[[ResourceClaim], bool]) -> Change | None:
    """Return the claims whose end helps: of two sets the smaller one."""
    situation = trials.situation
    search = _Search(trials, is_used, situation, situation.allocator.ledger)
    try:
        groups = search.find_by_node()
    except ExhaustedError:
        return None
    if not groups:
        return None
    suitable = [*situation.allocator.inventory.nodes] if situation.nodes is None else [*situation.nodes]
    has_failed = isinstance(trials.decision, Failed)
    if has_failed and len(suitable) > _MOST_NODES:
        # The node where an attempt ends with an error ends it for nodes behind it as well.
        trials.is_complete = False
        return None
    names = suitable if has_failed else [name for each in groups.values() for name in each]
    inventory = situation.allocator.inventory.with_nodes(frozenset(names))
    search.ledger = copy_ledger(situation.allocator.ledger, inventory)
    allocator = situation.allocator.for_copy(inventory, search.ledger)
    search.situation = replace(situation, allocator=allocator)
    try:
        for group in sorted(groups, key=lambda keys: min(map(search.order_one, keys))):
            search.find(group, sorted(suitable) if has_failed else groups[group])
    except ExhaustedError:
        search.is_exact = False
    finally:
        allocator.release()
    return search.build_change()


@dataclass(slots=True)
class _Search:
    """The search on a copy of the ledger. `best` is the smallest set so far; `is_exact` if no smaller one is left.

    `known` are the claims that may end: whether something uses them, and how many devices they hold.
    """

    trials: Trials
    is_used: Callable[[ResourceClaim], bool]
    situation: Situation
    ledger: Ledger
    known: dict[ClaimKey, tuple[bool, int]] = field(default_factory=dict)
    best: _Set = ()
    is_exact: bool = True

    def find(self, group: _Set, nodes: Sequence[str]) -> None:
        """Find the smallest set of the claims of some nodes whose end helps there."""
        situation = replace(self.situation, nodes=nodes)
        if isinstance(self._decide_without(situation, group), Unsatisfied):
            return
        for size in range(1, min(LARGEST, len(group)) + 1):
            if self.best and size > len(self.best):
                return
            if comb(len(group), size) > _MOST_SETS:
                self.is_exact = False
                break
            for each in sorted(combinations(group, size), key=self.order):
                if self.best and self.order(each) >= self.order(self.best):
                    break
                if self._fits_without(situation, each):
                    self.best = each
                    return
        if len(group) > LARGEST and not (self.best and len(self.best) <= LARGEST):
            self._find_greedily(situation, group)

    def _find_greedily(self, situation: Situation, group: _Set) -> None:
        """Find claims of which each must end beside the others, by letting go on as many as possible."""
        if not self._fits_without(situation, group):
            return
        left = group
        try:
            for key in sorted(group, key=self.order_one, reverse=True):
                fewer = tuple(each for each in left if each != key)
                if fewer and self._fits_without(situation, fewer):
                    left = fewer
        finally:
            # What is left is enough, if not little.
            if not self.best or self.order(left) < self.order(self.best):
                self.best = left

    def _fits_without(self, situation: Situation, keys: Iterable[ClaimKey]) -> bool:
        return isinstance(self._decide_without(situation, keys), Allocated)

    def _decide_without(self, situation: Situation, keys: Iterable[ClaimKey]) -> Decision:
        keys = [*keys]
        for key in keys:
            self.ledger.withdraw(*key)
        try:
            return self.trials.decide(situation)
        finally:
            for key in keys:
                results = self.trials.situation.allocator.ledger.results(key)
                self.ledger.assume(*key, AllocationResult(DeviceAllocationResult(results)))

    def build_change(self) -> Change | None:
        """Return the change that the best set is."""
        if not self.best:
            return None
        text = name_claims(self.best, self.situation.namespace)
        is_fewest = self.is_exact and len(self.best) <= LARGEST
        text = f"{text} ended" if is_fewest else f"enough claims ended, such as {text}"
        return Change(Kind.CLAIMS_ENDED, text, self.size(self.best), {"ended": frozenset(self.best)})

    def size(self, keys: _Set) -> tuple[int, int, int]:
        """Return how many claims a set has, how many are in use, and how many devices they hold."""
        known = [self.known[key] for key in keys]
        return len(keys), sum(is_used for is_used, _ in known), sum(devices for _, devices in known)

    def order(self, keys: _Set) -> tuple[object, ...]:
        """Return what sets are ordered by."""
        return *self.size(keys), keys

    def order_one(self, key: ClaimKey) -> tuple[bool, int, ClaimKey]:
        """Return what single claims are ordered by."""
        return *self.known[key], key

    def find_by_node(self) -> dict[_Set, list[str]]:
        """Return the claims whose devices could be of use on usable nodes that suit, with the nodes.

        In a large cluster it does so for the first nodes by name. Raises ExhaustedError.
        """
        situation = self.trials.situation
        views, alternatives = situation.allocator.availability.views, self._alternatives()
        of_pool: dict[int, frozenset[ClaimKey]] = {}
        found: dict[_Set, list[str]] = {}
        count = 0
        for name in views.order if situation.nodes is None else situation.nodes:
            if not views.usable >> views.index[name] & 1:
                continue
            self.trials.check_time()
            pools = views.of_node(name).pools
            for view in pools:
                if view.serial not in of_pool:
                    of_pool[view.serial] = self._find(view, alternatives)
            if group := frozenset[ClaimKey]().union(*(of_pool[view.serial] for view in pools)):
                if (count := count + 1) > _MOST_NODES:
                    self.trials.is_complete = False
                    break
                found.setdefault(tuple(sorted(group)), []).append(name)
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
        situation = self.trials.situation
        if key in self.known:
            return True
        claim = None if key in situation.kept or key in situation.ended else situation.find_claim(key)
        if claim is None or claim.status.allocation is None:
            return False
        devices = sum(not result.admin_access for result in situation.allocator.ledger.results(key))
        self.known[key] = self.is_used(claim), devices
        return True


def name_claims(keys: Iterable[ClaimKey], namespace: str, *, are_all_named: bool = False) -> str:
    """Return the claims of a namespace by name, and how many others there are, or their names for who may know them."""
    names = sorted(name for space, name in keys if space == namespace)
    others = sum(space != namespace for space, _ in keys)
    if are_all_named:
        names, others = [*names, *sorted("/".join(key) for key in keys if key[0] != namespace)], 0
    if not names:
        return "a claim of another namespace" if others == 1 else f"{others} claims of other namespaces"
    texts = names if len(names) <= _MOST_NAMES else [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"]
    if others:
        texts.append(f"{others} of {'another namespace' if others == 1 else 'other namespaces'}")
    *most, last = texts
    subject = f"{', '.join(most)} and {last}" if most else last
    return f"claim{'s' if len(texts) > 1 else ''} {subject}"


# --- The search.


MOST_KINDS: Final = 3
_NOTHING_HELPS: Final[Mapping[Reason, str]] = MappingProxyType(
    {
        Reason.CLASS_NOT_FOUND: "a DeviceClass does not exist",
        Reason.POOL_INCOMPLETE: "a pool is incomplete",
        Reason.POOL_INVALID: "a pool is invalid",
        Reason.SELECTOR_INVALID: "a selector does not compile",
        Reason.SELECTOR_FAILED: "a selector fails on a device",
        Reason.DERIVED_ATTRIBUTE_FAILED: "a derived attribute fails on a device",
        Reason.NODE_SELECTOR_INVALID: "a node selector of a pool cannot be parsed",
        Reason.ADMIN_ACCESS_DENIED: "admin access is denied",
    }
)
"""What no single edit can mend, by the reason of the error with which the attempt ends."""


@dataclass(frozen=True, slots=True)
class Effort:
    """What finding changes may cost: decisions for each kind, and seconds for all.

    Of claims that may end those that are not used come first.
    """

    decisions: int = 1000
    seconds: float = 2.0
    is_used: Callable[[ResourceClaim], bool] = is_reserved


@dataclass(frozen=True, slots=True)
class SmallestChanges:
    """Changes that help, the smallest of each kind, and at most of three kinds.

    `is_complete`: all edits were decided, so without changes no single one helps; `unmendable` is then why, if known.
    `kinds` are those of which all edits were decided that had to be.
    """

    changes: tuple[Change, ...]
    is_complete: bool = True
    unmendable: str = ""
    kinds: int = len(Kind)

    @property
    def text(self) -> str:
        """With what a message ends; nothing if it is not known whether anything helps."""
        if self.changes:
            return printable(f"; it would fit {', or '.join(f'if {each.text}' for each in self.changes)}")
        if not self.is_complete:
            return ""
        return printable(f"; no single change helps{f': {self.unmendable}' if self.unmendable else ''}")


def find_smallest_changes(
    situation: Situation, effort: Effort = Effort(), *, most: int = MOST_KINDS
) -> SmallestChanges:
    """Return what would make the claims of a situation fit, in which they do not.

    `most` is of how many kinds. Of claims that fit after all nothing is said.
    """
    decision = situation.decide()
    if isinstance(decision, Allocated):
        return SmallestChanges((), is_complete=False)
    deadline = situation.allocator.clock() + effort.seconds
    found: list[Change] = []
    kinds = tried = 0
    for kind in Kind:
        trials = Trials(situation, decision, effort.decisions, deadline)
        change = (
            find_ended(trials, effort.is_used) if kind is Kind.CLAIMS_ENDED else _find_smallest(trials, kind)
        )
        tried, kinds = tried + 1, kinds + trials.is_complete
        if change is not None:
            found.append(change)
            if len(found) == most:
                break
    is_complete = kinds == tried
    unmendable = _find_unmendable(situation, decision) if is_complete and not found else ""
    return SmallestChanges(tuple(found), is_complete, unmendable, kinds)


def _find_smallest(trials: Trials, kind: Kind) -> Change | None:
    """Return the smallest edit of a kind that helps, of several as small the first."""
    best: Change | None = None
    monotone = is_monotone(trials.situation.claims)
    try:
        for series in EDITS[kind](trials.situation):
            found = (
                _bisect(trials, series) if series.is_chain and monotone else _try_all(trials, series, best)
            )
            if found is not None and (best is None or found.size < best.size):
                best = found
    except ExhaustedError:
        pass
    return best


def _try_all(trials: Trials, series: Series, best: Change | None) -> Change | None:
    """Return the first edit of a series that helps, if it is smaller than the best so far."""
    if series.bound is not None and series.length > 1:
        decision = trials.decide(series.bound.apply(trials.situation))
        # Nothing follows from an error: another edit may avoid it.
        if isinstance(decision, Unsatisfied) and is_monotone(trials.situation.claims):
            return None
    for number in range(series.length):
        change = series.edit(number)
        if best is not None and change.size >= best.size:
            return None
        if trials.fit(change.apply(trials.situation)):
            return change
    return None


def _bisect(trials: Trials, series: Series) -> Change | None:
    """Return the first edit of a chain that helps: each asks for less than the one before."""
    low, high = -1, series.length
    decision = trials.decide(series.edit(high - 1).apply(trials.situation))
    if not isinstance(decision, Allocated):
        return None
    high -= 1
    while high - low > 1:
        middle = (low + high) // 2
        if trials.fit(series.edit(middle).apply(trials.situation)):
            high = middle
        else:
            low = middle
    return series.edit(high)


# --- what no edit mends


def _find_unmendable(situation: Situation, decision: Decision) -> str:
    if isinstance(decision, Failed):
        return _NOTHING_HELPS.get(decision.reason, "")
    if not situation.allocator.inventory.nodes:
        return "there are no nodes"
    requests: dict[tuple[str, int], list[str]] = {}
    for part in find_parts(situation.claims):
        requests.setdefault((part.entry, part.request), []).append(part.asked.device_class_name)
    empty = [
        name
        for names in requests.values()
        if not any(_has_devices(situation, name) for name in names)
        for name in names
    ]
    return f"no device is in DeviceClass {listed(list(dict.fromkeys(empty)))}" if empty else ""


def _has_devices(situation: Situation, name: str) -> bool:
    """Return whether devices are in a class, as far as that can be told."""
    allocator = situation.allocator
    found = allocator.inventory.classes.get(name)
    if found is None:
        return True
    selectors = tuple(item.cel.expression for item in found.spec.selectors if item.cel is not None)
    key = allocator.candidates.key(AskContent(selectors, (), ()), ())
    budget = Budget(LIMITS, allocator.clock)
    try:
        return any(
            allocator.candidates.select(key, slice_, budget) for slice_ in allocator.inventory.slices()
        )
    except AbortedError:
        return True
