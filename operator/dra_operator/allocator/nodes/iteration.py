"""Iteration over nodes by name: the first node on which the claims fit wins.

Most nodes are left out without a search: those that have said no before, to the same or to less, and those without a
free device. An error that is fatal upstream ends the iteration, even if a later node would fit.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.memory import Memory
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.chain import SearchChain
from dra_operator.allocator.search.result_types import Solution
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability


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
