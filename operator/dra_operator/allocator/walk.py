"""The walk over nodes: which nodes are asked, and which need not be.

Taking a device away never makes a node fit that did not. So a node that has said no to a search problem stays out until
something comes back there, and a claim that fits nowhere costs next to nothing when it is tried again. What came back
is read from a log; nothing is kept up to date for problems that nobody asks about.

And where a search found nothing on one node, the next ones often have too few devices of the kind to begin with, as
where a claim asks for one device by a value that no two have. Those are passed over without a search.
Source: docs/engine sections 1, 4 and 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import Candidates
from dra_operator.allocator.openings import FirstRequest
from dra_operator.allocator.plan import Alternative, ClaimPlan
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability


@dataclass(slots=True)
class SearchProblem:
    """A search problem and the nodes that may serve it, or end it with an error; the rest has said no."""

    era: int
    position: int
    maybe: int


@dataclass(slots=True)
class SearchProblems:
    """The problems that were asked about, by signature. The oldest half goes when there are too many."""

    availability: Availability
    maximum: int = 4096
    _known: dict[object, SearchProblem] = field(default_factory=dict)

    def get(self, signature: object) -> SearchProblem:
        """Return the problem with this signature, caught up with what came back since it was last asked about."""
        log = self.availability.log
        end = log.end
        problem = self._known.get(signature)
        if problem is None:
            if len(self._known) >= self.maximum:
                for old in list(self._known)[: self.maximum // 2]:
                    del self._known[old]
            problem = self._known[signature] = SearchProblem(log.era, end, -1)
        elif problem.position != end or problem.era != log.era:
            came_back = log.since(problem.position) if problem.era == log.era else None
            problem.maybe = -1 if came_back is None else problem.maybe | came_back
            problem.era, problem.position = log.era, end
        return problem

    def clear(self) -> None:
        """Forget all problems: what they are made of has changed."""
        self._known.clear()


def can_sieve(plans: Sequence[ClaimPlan]) -> bool:
    """True if countable claims fit on no node with too few devices for the first request, nor end with an error."""
    return all(plan.needs_free and not plan.derives for plan in plans)


@dataclass(frozen=True, slots=True)
class Sieve:
    """Tells nodes that have too few devices for a request, whichever of its alternatives is chosen.

    The plain search finds none there either, and comes to no device that ends the attempt with an error.
    """

    availability: Availability
    candidates: Candidates

    def pass_over(
        self,
        alternatives: Sequence[Alternative],
        problem: SearchProblem,
        nodes: int,
        first: FirstRequest,
        budget: Budget,
    ) -> int:
        """Return some nodes without the first ones that have too few free devices. Raises AbortedError.

        What these have is noted for the openings of the first request.
        """
        views = self.availability.views
        before = nodes
        try:
            while nodes:
                view = views.of_node(views.order[(nodes & -nodes).bit_length() - 1])
                if view.error is not None or view.skips_operations:
                    break
                if self._may_serve(alternatives, view, budget):
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
            key, missing = item.key, item.count or 0
            # What nobody looks for is not kept either: that the node says no to the problem is enough.
            alone = key.selection if key.selection and key.selection.is_alone else None
            for pool in view.pools:
                free = pool.free
                if not free:
                    continue
                answers = key.answers.get(pool.serial)
                if answers is None or free & answers.unknown:
                    # What other nodes see as well is asked about once, and kept.
                    if alone and pool.nodes == view.nodes and alone.refuses(pool, free, budget):
                        continue
                    answers = self.candidates.find(key, pool, budget, free)
                if answers.errors & free:
                    return True
                missing -= (answers.mask & free).bit_count()
                if missing <= 0:
                    return True
        return False
