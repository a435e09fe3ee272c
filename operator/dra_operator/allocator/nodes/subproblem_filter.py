"""Subproblem filter: what a new claim asks for in common with others, of which nodes have answered already.

A claim with an amount or an expression of its own is a new search problem, but part of it often is not. A node that has
nothing for a part (a relaxation) has nothing for the claim. Requests before one of the part are reached by the search,
so it must be known that they meet no error on that node.
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.equivalence_cache import Feasibility
from dra_operator.allocator.nodes.error_check import ErrorFreeNodes
from dra_operator.allocator.nodes.filters import FilterContext, NodeFilter
from dra_operator.allocator.plan import ClaimPlan, RequestPlan, with_requests
from dra_operator.allocator.search.chain import FastSearches, FastSearchesFor
from dra_operator.allocator.search.result_types import UNDECIDED
from dra_operator.inventory import NodeView

_STEPS, _TRIES = 10_000, 100
"""What the questions about a part may take: steps in one walk, and tries on one node."""
_MOST_IN_VAIN = 2
"""If so many nodes in a row have what is asked for, the next ones probably have it as well."""


@dataclass(slots=True)
class SubproblemFilter(NodeFilter):
    """Leaves out nodes that have nothing for a part of some claims.

    `answers` has the nodes that may have something for the part, `error_free` is about the requests before it. No node
    is asked before another has failed, as in a cluster with room most claims fit on the first; nor after too many in a
    row had what was asked for.
    """

    part: Sequence[ClaimPlan]
    fast: FastSearches
    answers: Feasibility
    error_free: ErrorFreeNodes | None
    _patience: int = 0
    _begun: bool = False
    _few: Budget | None = None

    def exclude(self, nodes: int) -> int:
        """Return which of the nodes have said no."""
        nodes &= ~self.answers.open_nodes
        return nodes if self.error_free is None else self.error_free.among(nodes)

    def rejects(self, view: NodeView, budget: Budget) -> bool:
        """True if the nodes of a view have nothing for the part; false if they have, or if that is not known.

        Raises AbortedError.
        """
        if not self._patience:
            return False
        if self._can_be_left_out(view, budget):
            self._patience = _MOST_IN_VAIN
            return True
        self._patience -= 1
        return False

    def learn(self, view: NodeView, budget: Budget) -> None:
        """Begin to ask, with the nodes that have failed, so that later claims find the answer."""
        if not self._begun:
            self._begun, self._patience = True, _MOST_IN_VAIN
            self._can_be_left_out(view, budget)

    def _can_be_left_out(self, view: NodeView, budget: Budget) -> bool:
        return self._has_nothing(view, budget) and (
            self.error_free is None or self.error_free.verify(view, budget)
        )

    def _has_nothing(self, view: NodeView, budget: Budget) -> bool:
        if not self.answers.open_nodes & view.nodes:
            return True
        # If this takes long, the claim itself is searched for; the attempt must not end here.
        if self._few is None:
            self._few = budget.limited(steps=_STEPS, tries=_TRIES)
        try:
            for search in self.fast:
                answer = search(self.part, view, self._few)
                if answer is not UNDECIDED:
                    break
            else:
                return False
        except AbortedError:
            budget.check_time()
            return False
        if answer is None:
            self.answers.open_nodes &= ~view.nodes
        return answer is None


def build_subproblem_filter(
    context: FilterContext, plans: Sequence[ClaimPlan], fast_for: FastSearchesFor
) -> SubproblemFilter | None:
    """Return the filter for what some new claims have in common with earlier ones, or None if that is nothing.

    The requests of this part were asked about before and have no amounts, which are rarely the same in two claims.
    """
    if len(plans) == 1 and len(plans[0].requests) == 1:
        # It is common as a whole, or not at all.
        return None
    kept, left_out, before = _divided(plans, context.candidates)
    if not kept or not left_out:
        return None
    part = [with_requests(plan, common, plan.constraints) for plan, common in kept]
    keys = [item.key for request in left_out[:before] for item in request.alternatives]
    answers = context.subproblems.get(tuple([plan.signature for plan in part]))
    return SubproblemFilter(
        part, fast_for(part), answers, ErrorFreeNodes.build(context, keys) if keys else None
    )


def _divided(
    plans: Sequence[ClaimPlan], candidates: Candidates
) -> tuple[Sequence[tuple[ClaimPlan, tuple[RequestPlan, ...]]], Sequence[RequestPlan], int]:
    """Return the common part of some claims, the other requests, and how many of these are before its last one."""
    part: list[tuple[ClaimPlan, tuple[RequestPlan, ...]]] = []
    left_out: list[RequestPlan] = []
    before = 0
    for plan in plans:
        common: tuple[RequestPlan, ...] = ()
        ends = False
        for request in plan.requests:
            if _is_common(request):
                common += (request,)
                before = len(left_out)
                continue
            left_out.append(request)
            if ends := not _can_be_before(request, candidates):
                break
        if common:
            part.append((plan, common))
        if ends:
            break
    return part, left_out, before


def _is_common(request: RequestPlan) -> bool:
    """True if the request was asked about before, and has no amounts."""
    return all(item.key.answers and not item.key.requests for item in request.alternatives)


def _can_be_before(request: RequestPlan, candidates: Candidates) -> bool:
    """True if the error check can tell whether a request meets an error, and if asking pays.

    They cannot tell if it has odd amounts. It does not pay if no other request has its selectors, as these would have
    to be evaluated for each device, used or not.
    """
    return all(
        item.key.known.are_ordinary and candidates.selection(item.key).keeps for item in request.alternatives
    )
