"""Common parts: what a new claim asks for in common with others.

A claim with an amount or an expression of its own is a new question, which no node has answered yet. The rest of it is
often not new: it may ask for GPUs of a model, of which most nodes have none left, and then for some processors. A node
that has nothing for a part of a claim has nothing for the claim. So nodes are asked about the part, and the answer is
remembered for all claims that have the part.

Requests are served in order. If a node has nothing for a request, the search never gets to the ones after it, nor to
their errors. Requests before one of the part are reached, so it must be known that they meet no error on that node
(`doubts`).
Source: docs/engine section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes.doubts import Doubt, Doubts
from dra_operator.allocator.nodes.memory import Memory, SearchProblem
from dra_operator.allocator.nodes.shortcut import Shortcut
from dra_operator.allocator.plan import ClaimPlan, RequestPlan, with_requests
from dra_operator.allocator.search.found import UNSURE
from dra_operator.allocator.search.searches import FastSearches, FastSearchesFor
from dra_operator.inventory import NodeView

_STEPS, _TRIES = 10_000, 100
"""What the questions about a part may take: steps in one walk, and tries on one node."""
_MOST_IN_VAIN = 2
"""If so many nodes in a row have what is asked for, the next ones probably have it as well."""


@dataclass(slots=True)
class Common(Shortcut):
    """Leaves out nodes that have nothing for a part of some claims.

    `problem` has the nodes that may have something for the part, `doubt` is about the requests before it. No node is
    asked before another has failed, as in a cluster with room most claims fit on the first; nor after too many in a row
    had what was asked for.
    """

    part: Sequence[ClaimPlan]
    fast: FastSearches
    problem: SearchProblem
    doubt: Doubt | None
    _patience: int = 0
    _begun: bool = False
    _few: Budget | None = None

    def closed(self, nodes: int) -> int:
        """Return which of the nodes have said no."""
        nodes &= ~self.problem.maybe
        return nodes if self.doubt is None else self.doubt.free_of(nodes)

    def finds_lack(self, view: NodeView, budget: Budget) -> bool:
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

    def note(self, view: NodeView, budget: Budget) -> None:
        """Begin to ask, with the nodes that have failed, so that later claims find the answer."""
        if not self._begun:
            self._begun, self._patience = True, _MOST_IN_VAIN
            self._can_be_left_out(view, budget)

    def _can_be_left_out(self, view: NodeView, budget: Budget) -> bool:
        return self._has_nothing(view, budget) and (self.doubt is None or self.doubt.settle(view, budget))

    def _has_nothing(self, view: NodeView, budget: Budget) -> bool:
        if not self.problem.maybe & view.nodes:
            return True
        # If this takes long, the claim itself is searched for; the attempt must not end here.
        if self._few is None:
            self._few = budget.limited(steps=_STEPS, tries=_TRIES)
        try:
            for search in self.fast:
                answer = search(self.part, view, self._few)
                if answer is not UNSURE:
                    break
            else:
                return False
        except AbortedError:
            budget.check_time()
            return False
        if answer is None:
            self.problem.maybe &= ~view.nodes
        return answer is None


@dataclass(frozen=True, slots=True)
class Commons:
    """What nodes have answered about parts of claims."""

    candidates: Candidates
    doubts: Doubts
    memory: Memory

    def of(self, plans: Sequence[ClaimPlan], fast_for: FastSearchesFor) -> Common | None:
        """Return the common part of some new claims, or None if there is none.

        Its requests were asked about before and have no amounts, which are rarely the same in two claims.
        """
        if len(plans) == 1 and len(plans[0].requests) == 1:
            # It is common as a whole, or not at all.
            return None
        kept, left_out, before = _divided(plans, self.candidates)
        if not kept or not left_out:
            return None
        part = [with_requests(plan, common, plan.constraints) for plan, common in kept]
        keys = [item.key for request in left_out[:before] for item in request.alternatives]
        doubt = self.doubts.of(keys) if keys else None
        return self._common(part, fast_for, doubt)

    def _common(self, part: Sequence[ClaimPlan], fast_for: FastSearchesFor, doubt: Doubt | None) -> Common:
        signatures: tuple[object, ...] = ()
        for plan in part:
            signatures += (plan.signature,)
        return Common(part, fast_for(part), self.memory.get(signatures), doubt)


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
    """True if `doubts` can tell whether a request meets an error, and if asking pays.

    They cannot tell if it has odd amounts. It does not pay if no other request has its selectors, as these would have
    to be evaluated for each device, used or not.
    """
    return all(
        item.key.known.are_ordinary and candidates.selection(item.key).keeps for item in request.alternatives
    )
