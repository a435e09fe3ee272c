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
from dataclasses import dataclass

from dra_operator.allocator.asked import AskedAmount
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import CandidateKey, Candidates
from dra_operator.allocator.doubts import Doubt, Doubts
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.shortcut import Shortcut
from dra_operator.api.sealed import sealed
from dra_operator.inventory import NodeView, PoolView
from dra_operator.ledger import Availability

_MOST_DEVICES = 128
"""Of a pool with more, what is left is not looked at again after each share that is taken."""

_Wish = tuple[int, CandidateKey, tuple[AskedAmount, ...]]
"""The number of a request, and the key and the amounts of one of its alternatives."""


@dataclass(frozen=True, slots=True)
class ScalesMaker:
    """Makes scales, which share what is known of selectors that may fail."""

    availability: Availability
    candidates: Candidates
    doubts: Doubts

    def of_new(self, plans: Sequence[ClaimPlan]) -> "Scales | None":
        """Return the scales for some claims, or None if others have asked for all the amounts that they bring."""
        for plan in plans:
            for request in plan.requests:
                for item in request.alternatives:
                    if item.key.requests and not item.key.answers:
                        return self.of(plans)
        return None

    def of(self, plans: Sequence[ClaimPlan]) -> "Scales | None":
        """Return the scales for some claims, or None if they bring no amounts, or odd ones."""
        wishes: list[_Wish] = []
        keys: list[CandidateKey] = []
        number = 0
        for plan in plans:
            for request in plan.requests:
                brought: list[_Wish] = []
                for item in request.alternatives:
                    key = item.key
                    if not key.known.are_ordinary:
                        return None
                    keys.append(key)
                    if key.requests:
                        brought.append((number, key, key.content.amounts))
                # Where it may have a device of which it asks for no amount, nobody weighs.
                if len(brought) == len(request.alternatives):
                    wishes += brought
                    number += 1
        if not wishes:
            return None
        for _, key, _ in wishes:
            # From here on the key knows the drivers that it refuses.
            self.candidates.selection(key)
        return Scales(self.availability, self.candidates, self.doubts.of(keys), number, wishes)


@sealed
class Scales(Shortcut):
    """Leaves out nodes with too little left for some claims: for one of the `number` requests that bring amounts.

    `doubt` is about the selectors of all requests.
    """

    availability: Availability
    candidates: Candidates
    doubt: Doubt
    number: int
    wishes: Sequence[_Wish]

    def closed(self, nodes: int) -> int:
        """Return those of some nodes of which it is known that a request finds too little left on all devices."""
        nodes = self.doubt.free_of(nodes & self.availability.leftovers.known)
        return nodes & ~self._with_room() if nodes else 0

    def finds_lack(self, view: NodeView, budget: Budget) -> bool | None:
        """True if a request finds too little left on all free devices, false if each finds one; None if it is open.

        Raises AbortedError.
        """
        missing = (1 << self.number) - 1
        for pool in view.pools:
            if pool.size > _MOST_DEVICES:
                return None
            if not pool.free:
                continue
            for request, key, asked in self.wishes:
                if missing >> request & 1 and pool.driver not in key.refused:
                    most = self.availability.most_left(pool) if pool.most is None else pool.most
                    if not _has(most, asked):
                        continue
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
        if not self.doubt.settle(view, budget):
            return None
        leftovers, nodes = self.availability.leftovers, view.nodes
        if not nodes & (leftovers.known | nodes - 1):
            for pool in view.pools:
                if pool.nodes != nodes:
                    return True
                if pool.most is None:
                    self.availability.most_left(pool)
            leftovers.enter(view)
        return True

    def _with_room(self) -> int:
        """Return those of the known nodes on which each request may find enough left on a device."""
        open_to = [0] * self.number
        for driver, left in self.availability.leftovers.by_driver.items():
            for request, key, asked in self.wishes:
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
