"""Scales: what a claim asks for against what nodes have left.

A claim may bring amounts of its own. Then nothing is known of any node, and most have too little left: to ask each of
their devices takes much longer than to compare the amounts with the most that any device has left. So nodes that were
looked at stand on levels by what they have left (`ledger/leftovers`); those with too little are not visited at all,
and of the others most are told by a few numbers.

A node is left out only where nothing could end the attempt with an error. No selector may fail on any of its slices,
which is known from a visit and holds until something comes back or changes there; and amounts and policies have to be
ordinary, so that whatever a policy makes of an amount is at least as much, and no error.
Source: docs/engine section 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.asked import AskedAmount
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import CandidateKey, Candidates
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.problems import SearchProblem, SearchProblems
from dra_operator.allocator.reads import Reads
from dra_operator.allocator.shortcut import Shortcut
from dra_operator.inventory import NodeView, PoolView, Slice
from dra_operator.ledger import Availability

_MOST_DEVICES = 128
"""Of a pool with more, what is left is not looked at again after each share that is taken."""
_MOST_KINDS = 64
"""If slices differ that much in what selectors read, the next ones will differ as well."""

_Wish = tuple[int, CandidateKey, tuple[AskedAmount, ...]]
"""The number of a request, and the key and the amounts of one of its alternatives."""


@dataclass(slots=True)
class ScalesMaker:
    """Makes scales, which share what is known of selectors that may fail."""

    availability: Availability
    candidates: Candidates
    _doubts: SearchProblems = field(init=False)

    def __post_init__(self) -> None:
        self._doubts = SearchProblems(self.availability)

    def of(self, plans: Sequence[ClaimPlan]) -> "Scales | None":
        """Return the scales for some claims, or None if all is known of the amounts they bring, or one is odd."""
        if not _have_new_amounts(plans):
            return None
        return Scales(self.availability, self.candidates, self._doubts, plans)


def _have_new_amounts(plans: Sequence[ClaimPlan]) -> bool:
    """True if a request brings amounts that no node was asked about, and all amounts are ordinary."""
    new = False
    for plan in plans:
        for request in plan.requests:
            for item in request.alternatives:
                key = item.key
                if not key.known.are_ordinary:
                    return False
                new = new or not (key.answers or not key.requests)
    return new


@dataclass(slots=True)
class Scales(Shortcut):
    """Leaves out nodes with too little left for some claims.

    `doubts` has, by the selectors of class and request, the nodes on which they may fail. Whether one fails on a slice
    is found out once for each kind that `_reads` tells apart, and kept in `_failing`.
    """

    availability: Availability
    candidates: Candidates
    doubts: SearchProblems
    plans: Sequence[ClaimPlan]
    _number: int = 0
    _wishes: Sequence[_Wish] = ()
    _reads: Sequence[Reads] = ()
    _doubts: Sequence[SearchProblem] = ()
    _failing: dict[object, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wishes: list[_Wish] = []
        for plan in self.plans:
            for request in plan.requests:
                for item in request.alternatives:
                    # From here on the key knows the drivers that it refuses.
                    self.candidates.selection(item.key)
                    wishes.append((self._number, item.key, item.key.content.amounts))
                self._number += 1
        self._wishes = wishes
        # What is asked twice is looked up twice: that is soon done, and most claims ask for one thing each.
        self._doubts = [
            self.doubts.get((content.class_selectors, content.request_selectors))
            for content in [key.content for _, key, _ in wishes]
        ]

    def closed(self, nodes: int) -> int:
        """Return those of some nodes of which it is known that a request finds too little left on all devices."""
        nodes &= self.availability.leftovers.known
        for doubt in self._doubts:
            nodes &= ~doubt.maybe
        return nodes & ~self._with_room() if nodes else 0

    def finds_lack(self, view: NodeView, budget: Budget) -> bool | None:
        """True if a request finds too little left on all free devices, false if each finds one; None if it is open.

        Raises AbortedError.
        """
        missing = (1 << self._number) - 1
        for pool in view.pools:
            if pool.selector_errors or pool.size > _MOST_DEVICES:
                return None
            most = self.availability.most_left(pool) if pool.most is None else pool.most
            if not pool.free:
                continue
            for request, key, asked in self._wishes:
                if missing >> request & 1 and pool.driver not in key.refused and _has(most, asked):
                    # Now that it may be so, what is selected, and what policies make of the amounts, is worth while.
                    found = self._may_have(pool, key, budget)
                    if found is None:
                        return None
                    if found:
                        missing ^= 1 << request
            if not missing:
                return False
        return self._note_lack(view, budget)

    def _may_have(self, pool: PoolView, key: CandidateKey, budget: Budget) -> bool | None:
        """True if a free device of a pool may have enough left for a wish; None if that is open."""
        most = pool.most
        assert most is not None
        selection = self.candidates.selection(key)
        for offset, content in pool.placed:
            if not (free := pool.free >> offset & content.every):
                continue
            _, selected, failed = selection.answer(content, free, budget)
            if failed & free or not content.is_ordinary:
                return None
            selected &= free
            if selected:
                for devices, consumed in self.candidates.amounts(key, content).kinds:
                    if devices & selected and _has(most, consumed.amounts):
                        return True
        return False

    def _note_lack(self, view: NodeView, budget: Budget) -> bool | None:
        """Take note of nodes with too little, and return True; None if their devices might end the attempt."""
        is_single = not view.nodes & (view.nodes - 1)
        for pool in view.pools:
            is_single = is_single and pool.nodes == view.nodes
            for content in pool.slices if pool.free else ():
                if not content.is_ordinary or self._may_fail(content, budget):
                    return None
        for doubt in self._doubts:
            doubt.maybe &= ~view.nodes
        if is_single and not view.nodes & self.availability.leftovers.known:
            self.availability.leftovers.enter(view)
        return True

    def _may_fail(self, content: Slice, budget: Budget) -> bool:
        """True if a selector fails on a device of a slice, whoever uses it, or if that was not found out."""
        if not self._reads:
            every = [
                reads for _, key, _ in self._wishes for reads in self.candidates.selection(key).all_reads()
            ]
            self._reads = tuple(dict.fromkeys(every))
        kind = tuple([reads.key(content) for reads in self._reads])
        found = self._failing.get(kind)
        if found is None:
            if len(self._failing) >= _MOST_KINDS:
                return True
            answers = (
                self.candidates.selection(key).answer(content, content.every, budget)
                for _, key, _ in self._wishes
            )
            found = self._failing[kind] = any(failed for _, _, failed in answers)
        return found

    def _with_room(self) -> int:
        """Return those of the known nodes on which each request may find enough left on a device."""
        open_to = [0] * self._number
        for driver, left in self.availability.leftovers.by_driver.items():
            for request, key, asked in self._wishes:
                if driver not in key.refused:
                    open_to[request] |= left.with_room(asked)
        with_room = -1
        for those in open_to:
            with_room &= those
        return with_room


def _has(most: Mapping[str, int], amounts: Iterable[tuple[str, int, object]]) -> bool:
    for name, amount, _ in amounts:  # noqa: SIM110 - some thousand times for a claim, and half as fast with `all`
        if amount > most.get(name, -1):
            return False
    return True
