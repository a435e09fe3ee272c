"""The sieve: nodes that have too few devices for a request are passed over without a search.

Where a search found nothing on one node, the next ones often have too few devices to begin with, as where a claim asks
for one device by a value that no two have. To count them takes less than to search, and nothing is kept of a node but
that it said no. Where a claim brings amounts of its own, `scales` tell most of them without counting.

The plain search finds none there either, and comes to no device that ends the attempt with an error.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import CandidateKey, Candidates
from dra_operator.allocator.openings import FirstRequest
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.allocator.scales import Scales
from dra_operator.allocator.walk import SearchProblem
from dra_operator.inventory import NodeView, PoolView
from dra_operator.ledger import Availability


def can_sieve(plans: Sequence[ClaimPlan]) -> bool:
    """True if countable claims fit on no node with too few devices for a request, nor end there with an error."""
    return all(plan.needs_free and not plan.derives for plan in plans)


@dataclass(frozen=True, slots=True)
class Sieve:
    """Tells nodes that have too few devices for the first request of some claims, whichever alternative is chosen."""

    availability: Availability
    candidates: Candidates

    def pass_over(
        self,
        plans: Sequence[ClaimPlan],
        problem: SearchProblem,
        nodes: int,
        budget: Budget,
        *,
        first: FirstRequest,
        scales: Scales | None,
    ) -> int:
        """Return some nodes without the first ones that have too few free devices. Raises AbortedError.

        `scales` are those of this walk, if claims bring amounts of their own. What these nodes have is noted for the
        openings of the first request.
        """
        views = self.availability.views
        alternatives = plans[0].requests[0].alternatives
        before = nodes
        try:
            while nodes:
                view = views.of_node(views.order[(nodes & -nodes).bit_length() - 1])
                if view.error is not None or view.skips_operations:
                    break
                lack = None if scales is None else scales.find_lack(view, budget)
                # Where none is found, a search begins with counting.
                if lack is False or (lack is None and self._may_serve(alternatives, view, budget)):
                    break
                nodes &= ~view.nodes
                if first.parts:
                    first.note(view)
        finally:
            # Also when time is used up: the next attempt goes on from here.
            problem.maybe &= ~(before ^ nodes)
        return nodes

    def _may_serve(self, alternatives: Sequence[Alternative], view: NodeView, budget: Budget) -> bool:
        for item in alternatives:
            missing = item.count or 0
            for pool in view.pools:
                if not pool.free or pool.driver in item.key.refused:
                    continue
                number = self._count(item.key, pool, budget, alone=pool.nodes == view.nodes)
                if number is None:
                    return True
                missing -= number
                if missing <= 0:
                    return True
        return False

    def _count(self, key: CandidateKey, pool: PoolView, budget: Budget, *, alone: bool) -> int | None:
        """Return how many free devices of a pool can be had at most, or None if one of them may be an error.

        `alone` says that only the nodes in question see the pool.
        """
        free = pool.free
        answers = key.answers.get(pool.serial)
        if answers is None or free & answers.unknown:
            # What nobody looks for is not kept either: that the node says no to the problem is enough.
            selection = key.selection
            if alone and selection and selection.is_alone and selection.refuses(pool, free, budget):
                return 0
            # What other nodes see as well is asked about once, and kept.
            answers = self.candidates.find(key, pool, budget, free)
        if answers.errors & free:
            return None
        return (answers.mask & free).bit_count()
