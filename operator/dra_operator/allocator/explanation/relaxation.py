"""Relaxation: the smaller questions that tell why a claim does not fit.

What a claim fits without is what keeps it waiting. So explanations ask for less: one request of several, fewer devices,
fewer constraints. Each relaxed plan is a plan like any other. Where an error or the end of the budget keeps a question
from an answer, nothing is told of it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.plan import Alternative, ClaimPlan, RequestPlan, with_requests

_Item = TypeVar("_Item")
Fit = Callable[[ClaimPlan], str | None]
"""The first node by name on which a plan fits, or None. Raises FatalError and AbortedError."""


def only(plan: ClaimPlan, requests: Sequence[RequestPlan]) -> ClaimPlan:
    """Return the plan with some of its requests only."""
    return with_requests(plan, tuple(requests), plan.constraints)


def with_alternative(plan: ClaimPlan, request: RequestPlan, item: Alternative) -> ClaimPlan:
    """Return the plan with one alternative of one request only, as if it were asked for alone."""
    alone = replace(request, prioritized=False, alternatives=(item,))
    return with_requests(plan, (alone,), plan.constraints)


def unconstrained(plan: ClaimPlan) -> ClaimPlan:
    """Return the plan without its constraints."""
    return with_requests(plan, _bound_by(plan, ()).requests, ())


def without(plan: ClaimPlan, number: int) -> ClaimPlan:
    """Return the plan with one of its constraints applying to nothing."""
    return _bound_by(plan, [other for other in range(len(plan.constraints)) if other != number])


def with_constraint(plan: ClaimPlan, number: int) -> ClaimPlan:
    """Return the plan with all of its constraints but one applying to nothing."""
    return _bound_by(plan, (number,))


def conflicting_constraints(plan: ClaimPlan, number: int, fit: Fit) -> tuple[int, ...]:
    """Return other constraints beside which one is in the way: none of them can be left out.

    There are none where that one alone is in the way.
    """
    others = [other for other in range(len(plan.constraints)) if other != number]
    return _minimal_conflict(others, lambda some: _answer(fit, _bound_by(plan, [number, *some])))


def conflicting_requests(plan: ClaimPlan, fit: Fit) -> tuple[RequestPlan, ...]:
    """Return requests of a plan, each of which fits alone, that do not fit together: none of them can be left out."""
    return _minimal_conflict(plan.requests, lambda some: not some or _answer(fit, only(plan, some)))


def _minimal_conflict(
    items: Sequence[_Item], answer: Callable[[Sequence[_Item]], bool | None]
) -> tuple[_Item, ...]:
    """Return the first of some items that do not fit together, as few as leaving out one by one finds.

    To learn that something does not fit takes a look at every node, and that it does often one at the first. So the
    items are added one by one until they do not fit, and only of these some are left out again.
    """
    size = next((size for size in range(len(items)) if answer(items[:size]) is False), len(items))
    kept = tuple(items[:size])
    for item in kept[:-1]:
        fewer = tuple([other for other in kept if other is not item])
        if answer(fewer) is False:
            kept = fewer
    return kept


def most_that_fit(plan: ClaimPlan, fit: Fit) -> tuple[int | None, str]:
    """Return how many devices a plan of one alternative could have, and where; what it asks for is too many.

    The number is None where it asks for all devices, or that cannot be told.
    """
    (request,) = plan.requests
    wanted = request.alternatives[0].count
    if wanted is None:
        return None, ""
    fits, node, least = 0, "", wanted
    while least - fits > 1:
        middle = (fits + least) // 2
        try:
            found = fit(_with_count(plan, request, middle))
        except (FatalError, AbortedError):
            return None, ""
        if found is None:
            least = middle
        else:
            fits, node = middle, found
    return fits, node


def _answer(fit: Fit, plan: ClaimPlan) -> bool | None:
    try:
        return fit(plan) is not None
    except (FatalError, AbortedError):
        return None


def _with_count(plan: ClaimPlan, request: RequestPlan, count: int) -> ClaimPlan:
    alternative = replace(request.alternatives[0], count=count)
    return with_requests(plan, (replace(request, alternatives=(alternative,)),), plan.constraints)


def _bound_by(plan: ClaimPlan, constraints: Collection[int]) -> ClaimPlan:
    """Return the plan with all but some of its constraints applying to nothing."""

    def bound(item: Alternative) -> Alternative:
        return replace(item, constraints=tuple([each for each in item.constraints if each in constraints]))

    requests = tuple(
        replace(request, alternatives=tuple(map(bound, request.alternatives))) for request in plan.requests
    )
    return with_requests(plan, requests, plan.constraints)
