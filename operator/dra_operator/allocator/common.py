"""Common parts: what claims that are new ask for in common with others.

A claim that brings an amount or an expression of its own is new, and nothing is known of any node. The rest of what it
asks for often is not: GPUs of a model, of which most nodes have none left, and then some processors. Where a node has
nothing for a part of a claim it has nothing for the claim. So that is found out for the part, and remembered for all
claims that have it.

Requests are served in order. If a node has nothing for those that a claim begins with, nobody comes to the others:
neither to a device nor to an error. Of those before a request of the part it has to be known that nothing about them
can be an error on that node.
Source: docs/engine section 5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.candidates import Candidates
from dra_operator.allocator.doubts import Doubt, Doubts
from dra_operator.allocator.found import UNSURE
from dra_operator.allocator.plan import ClaimPlan, RequestPlan, with_requests
from dra_operator.allocator.problems import SearchProblem, SearchProblems
from dra_operator.allocator.searches import Way
from dra_operator.allocator.shortcut import Shortcut
from dra_operator.api.sealed import sealed
from dra_operator.inventory import NodeView
from dra_operator.ledger import Availability


@sealed
class Common(Shortcut):
    """Leaves out nodes that have nothing for a part of some claims.

    `problem` has the nodes that may have something for it, `doubt` is about requests before it.
    """

    part: Sequence[ClaimPlan]
    ways: Sequence[Way]
    problem: SearchProblem
    doubt: Doubt | None

    def closed(self, nodes: int) -> int:
        """Return those of some nodes that have said no."""
        nodes &= ~self.problem.maybe
        return nodes if self.doubt is None else self.doubt.free_of(nodes)

    def finds_lack(self, view: NodeView, budget: Budget) -> bool | None:
        """True if the nodes of a view have nothing for the part; None if they have, or if that is open.

        Raises AbortedError.
        """
        if self.problem.maybe & view.nodes and not self._says_no(view, budget):
            return None
        return True if self.doubt is None or self.doubt.settle(view, budget) else None

    def _says_no(self, view: NodeView, budget: Budget) -> bool:
        for way in self.ways:
            answer = way(self.part, view, budget)
            if answer is None:
                self.problem.maybe &= ~view.nodes
                return True
            if answer is not UNSURE:
                break
        return False


@dataclass(slots=True)
class Commons:
    """What nodes have said to parts of claims."""

    availability: Availability
    candidates: Candidates
    doubts: Doubts
    _problems: SearchProblems = field(init=False)

    def __post_init__(self) -> None:
        self._problems = SearchProblems(self.availability)

    def of(
        self, plans: Sequence[ClaimPlan], ways: Callable[[Sequence[ClaimPlan]], Sequence[Way]]
    ) -> Common | None:
        """Return the common part of some claims that nobody has asked about before, or None if there is none.

        Each request of it was asked about before, and brings no amount: those are rarely the same in two claims.
        """
        if len(plans) == 1 and len(plans[0].requests) == 1:
            return None
        part, left_out, before = _divided(plans)
        if not part or not left_out:
            return None
        signatures: tuple[object, ...] = ()
        for plan in part:
            signatures += (plan.signature,)
        keys = [item.key for request in left_out[:before] for item in request.alternatives]
        doubt = self.doubts.of(keys) if keys else None
        return Common(part, ways(part), self._problems.get(signatures), doubt)

    def forget(self) -> None:
        """Forget which nodes have said no: what was asked there has changed."""
        self._problems.clear()


def _divided(plans: Sequence[ClaimPlan]) -> tuple[Sequence[ClaimPlan], Sequence[RequestPlan], int]:
    """Return the common part of some claims, the requests that are left out, and how many of these are before it.

    What follows odd amounts, which may be an error, belongs to neither.
    """
    part: list[ClaimPlan] = []
    left_out: list[RequestPlan] = []
    before = 0
    for plan in plans:
        common: tuple[RequestPlan, ...] = ()
        odd = False
        for request in plan.requests:
            if _is_common(request):
                common += (request,)
                before = len(left_out)
                continue
            left_out.append(request)
            if odd := not _is_ordinary(request):
                break
        if common:
            part.append(with_requests(plan, common, plan.constraints))
        if odd:
            break
    return part, left_out, before


def _is_common(request: RequestPlan) -> bool:
    """True if others have asked for the same, and it brings no amount."""
    return all(item.key.answers and not item.key.requests for item in request.alternatives)


def _is_ordinary(request: RequestPlan) -> bool:
    return all(item.key.known.are_ordinary for item in request.alternatives)
