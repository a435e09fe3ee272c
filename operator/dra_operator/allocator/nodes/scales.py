"""Scales: what a claim asks for, compared with what nodes have left.

A claim with amounts of its own is a new question, which no node has answered yet, and most nodes may have too little
left. Asking each of their devices takes much longer than comparing the amounts with the most that any device has left.
So nodes that were looked at are kept on levels by what they have left (`ledger/leftovers`). Those with too little are
not visited, and for most of the others a few numbers tell.

A node is left out only if nothing could end the attempt with an error. No selector may fail on any of its slices, which
is found out at the first visit and holds until something comes back or changes there (`doubts`). Amounts and policies
must be ordinary: then what a policy makes of an amount is no error, and never less than the amount.
Source: docs/engine section 5.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra_operator.allocator.asked import AskedAmount
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import CandidateKey, Candidates
from dra_operator.allocator.nodes.doubts import Doubt, Doubts
from dra_operator.allocator.nodes.shortcut import Shortcut
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.api.sealed import sealed
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability

_MOST_DEVICES = 128
"""Of a pool with more, what is left is not looked at again after each share that is taken."""

_Wish = tuple[int, CandidateKey, tuple[AskedAmount, ...]]
"""The number of a request, and the key and the amounts of one of its alternatives."""


@dataclass(frozen=True, slots=True)
class ScalesMaker:
    """Makes scales. They share what is known about selectors that may fail."""

    availability: Availability
    candidates: Candidates
    doubts: Doubts

    def of_new(self, plans: Sequence[ClaimPlan]) -> "Scales | None":
        """Return the scales for some claims, or None if all of their amounts were asked for before."""
        for plan in plans:
            for request in plan.requests:
                for item in request.alternatives:
                    if item.key.requests and not item.key.answers:
                        return self.of(plans)
        return None

    def of(self, plans: Sequence[ClaimPlan]) -> "Scales | None":
        """Return the scales for some claims, or None if they have no amounts, or odd ones."""
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
                # A request that could be served without an amount is not weighed.
                if len(brought) == len(request.alternatives):
                    wishes += brought
                    number += 1
        if not wishes:
            return None
        for _, key, _ in wishes:
            # This fills in `key.refused`, the drivers that the key refuses.
            self.candidates.selection(key)
        return Scales(self.availability, self.doubts.of(keys), number, wishes)


@sealed
class Scales(Shortcut):
    """Leaves out nodes with too little left for one of the requests with amounts.

    `number` counts these requests. `doubt` is about the selectors of all requests.
    """

    availability: Availability
    doubt: Doubt
    number: int
    wishes: Sequence[_Wish]

    def closed(self, nodes: int) -> int:
        """Return which of the nodes are known to have too little left on each device for a request."""
        nodes = self.doubt.free_of(nodes & self.availability.leftovers.known)
        return nodes & ~self._with_room() if nodes else 0

    def finds_lack(self, view: NodeView, budget: Budget) -> bool:
        """True if a request finds too little on each free device; false if not, or if that is not known.

        Raises AbortedError.
        """
        missing = (1 << self.number) - 1
        for pool in view.pools:
            if pool.size > _MOST_DEVICES:
                return False
            if not pool.free:
                continue
            for request, key, asked in self.wishes:
                if missing >> request & 1 and pool.driver not in key.refused:
                    most = self.availability.find_most_left(pool) if pool.most is None else pool.most
                    if _has(most, asked):
                        # The selectors may refuse the device that has it; a search finds out as fast.
                        missing ^= 1 << request
            if not missing:
                return False
        return self._note_lack(view, budget)

    def _note_lack(self, view: NodeView, budget: Budget) -> bool:
        """Remember nodes with too little, and return true; false if one of their devices might be an error."""
        if not self.doubt.settle(view, budget):
            return False
        leftovers, nodes = self.availability.leftovers, view.nodes
        if not nodes & (leftovers.known | nodes - 1):
            for pool in view.pools:
                if pool.nodes != nodes:
                    return True
                if pool.most is None:
                    self.availability.find_most_left(pool)
            leftovers.enter(view)
        return True

    def _with_room(self) -> int:
        """Return which of the known nodes may have a device with enough left for each request."""
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
