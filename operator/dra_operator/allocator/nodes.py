"""Nodes: which of them are asked, by name; the first on which the claims fit wins.

Most nodes are left out without a search: those without a free device, and those that have said no before, to the same
or to less (an equivalence cache). Taking devices never makes a node fit that did not fit before, so a no holds until
something comes back on that node, which is read from a log when the same is asked again.
Source: docs/engine sections 1, 4 and 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import le

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.matching.equivalence import drop_older_half
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.chain import SearchChain
from dra_operator.allocator.search.problem import Solution
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability, Log

_MOST_AMOUNTS = 32
"""So many problems that differ in amounts alone are compared with a claim."""


@dataclass(slots=True)
class Feasibility:
    """What is known of a search problem: `open_nodes` may serve it or end it with an error, the others have said no.

    `open_to_more` are those that may serve a larger one, or end it with an error, for all that this one tells.
    `position` is where the log was read last. `amounts` are compared, in nano-units; None if they cannot be.
    """

    position: int
    amounts: tuple[int, ...] | None = None
    open_nodes: int = -1
    open_to_more: int = -1

    def catch_up(self, log: Log) -> None:
        """Open nodes again on which something came back."""
        if self.position != log.end:
            self.open_nodes = log.joined(self.position, self.open_nodes)
            self.open_to_more = log.joined(self.position, self.open_to_more)
            self.position = log.end


@dataclass(slots=True)
class Memory:
    """Search problems by what is asked. If they are too many, those not asked for longest are forgotten."""

    log: Log
    maximum: int = 4096
    _known: dict[object, Feasibility] = field(default_factory=dict)
    _by_shape: dict[object, list[Feasibility]] = field(default_factory=dict)

    def recall(self, plans: Sequence[ClaimPlan]) -> Feasibility:
        """Return what is known of the problem of some claims together, caught up with the log."""
        known = self._known
        problem: tuple[object, ...] = ()
        for plan in plans:
            problem += (plan.signature,)
        found = known.pop(problem, None)
        shape = _shape(plans)
        if found is None:
            if len(known) >= self.maximum:
                drop_older_half(known)
            found = Feasibility(self.log.end, None if shape is None else shape[1])
        else:
            found.catch_up(self.log)
        known[problem] = found
        if shape is not None:
            self._learn_from_smaller(found, shape[0])
        return found

    def forget(self) -> None:
        """Forget all answers."""
        self._known.clear()
        self._by_shape.clear()

    def _learn_from_smaller(self, problem: Feasibility, shape: object) -> None:
        alike = self._by_shape.get(shape)
        if alike is None:
            if len(self._by_shape) >= self.maximum:
                drop_older_half(self._by_shape)
            alike = self._by_shape[shape] = []
        amounts, is_known = problem.amounts, False
        assert amounts is not None
        for other in alike:
            if other is problem:
                is_known = True
            elif other.amounts is not None and all(map(le, other.amounts, amounts)):
                other.catch_up(self.log)
                problem.open_nodes &= other.open_to_more
                problem.open_to_more &= other.open_to_more
        if not is_known:
            if len(alike) >= _MOST_AMOUNTS:
                del alike[: _MOST_AMOUNTS // 2]
            alike.append(problem)


def _shape(plans: Sequence[ClaimPlan]) -> tuple[object, tuple[int, ...]] | None:
    """Return what claims ask for but for their amounts, and these; None if they have none, or not comparable ones.

    A claim for all devices is not comparable: with larger amounts it is for fewer devices.
    """
    shape: tuple[object, ...] = ()
    amounts: tuple[int, ...] = ()
    for plan in plans:
        if not plan.needs_free:
            return None
        for request in plan.requests:
            for item in request.alternatives:
                key = item.key
                if not key.amounts.are_ordinary:
                    return None
                names: tuple[str, ...] = ()
                for name, amount, _ in key.amounts.asked:
                    names += (name,)
                    amounts += (amount,)
                shape += (
                    key.content,
                    names,
                    item.count,
                    tuple(sorted(item.derived.items())),
                    item.constraints,
                )
            shape += (request.prioritized,)
        shape += (plan.constraints,)
    return (shape, amounts) if amounts else None


@dataclass(slots=True)
class NodeIterator:
    """Iterates over nodes and remembers what they have answered. Views and ledger must be up to date."""

    availability: Availability
    candidates: Candidates
    _memory: Memory = field(init=False)

    def __post_init__(self) -> None:
        self._memory = Memory(self.availability.log)

    def first_that_fits(
        self, plans: Sequence[ClaimPlan], allowed: int, searches: SearchChain, budget: Budget
    ) -> tuple[Solution, str] | None:
        """Return what the claims get on the first of the allowed nodes that fits, and its name; None if none fits.

        Raises FatalError and AbortedError.
        """
        availability = self.availability
        views = availability.views
        known = self._memory.recall(plans)
        wanted = allowed & known.open_nodes
        if plans and all(plan.needs_free for plan in plans):
            wanted &= availability.nonempty
        searches = searches.that_can_serve(plans)
        closed = closed_to_more = 0
        try:
            while wanted:
                position = (wanted & -wanted).bit_length() - 1
                node = views.order[position]
                view = views.of_node(node)
                found = searches.search(plans, node, view, budget)
                if found is not None:
                    return found, node
                # All nodes of a view give the same answer, unless it depends on what their kubelets can do.
                those = wanted & (1 << position if view.skips_operations else view.nodes)
                wanted ^= those
                closed |= those
                if known.amounts is not None and _refuses_more(view):
                    closed_to_more |= those
        finally:
            # Even if the time is used up: the next attempt goes on from here.
            known.open_nodes &= ~closed
            known.open_to_more &= ~closed_to_more
        return None


def _refuses_more(view: NodeView) -> bool:
    """True if no larger amount is an error, or fits where a smaller one does not, on any device of a view."""
    return all(slice_.is_ordinary for pool in view.pools for slice_ in pool.slices)
