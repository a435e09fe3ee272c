"""Relaxation: what a claim would fit without is what keeps it waiting, so smaller questions are asked of the allocator.

One request of several, fewer devices, fewer constraints; or no use and no taint. Each relaxed plan is a plan like any
other, so an explanation cannot disagree with a decision. Where an error or the end of the budget keeps a question from
an answer, nothing is told of it.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.plan import Alternative, ClaimPlan, RequestPlan, with_requests
from dra_operator.api.types import DeviceToleration
from dra_operator.inventory.ownership import FENCED_TOLERATION
from dra_operator.ledger import Ledger

_Item = TypeVar("_Item")
_EVERYTHING: Final = (DeviceToleration(operator="Exists"), FENCED_TOLERATION)
_SPARE_CHANGES: Final = 1024


@dataclass(slots=True)
class Kept:
    """Answers by what was asked: they hold for a version, and all go when they are too many."""

    maximum: int = 4096
    _answers: dict[object, object] = field(default_factory=dict)
    _version: object = None

    def find(self, version: object, key: object, make: Callable[[], _Item]) -> _Item:
        """Return the answer for a key, which is made if it is not kept."""
        if version != self._version or len(self._answers) >= self.maximum:
            self._version = version
            self._answers.clear()
        if key not in self._answers:
            self._answers[key] = make()
        return self._answers[key]  # type: ignore[return-value]


@dataclass(slots=True)
class Relaxer:
    """Asks an allocator about relaxed plans; `complete_only`: as if there were no pools but complete ones.

    `is_idle`: no device is in use there, and plans tolerate everything. Nobody has asked for this: it gets a tenth of
    each budget, and is not tried again in vain. Methods raise FatalError and AbortedError unless they say otherwise.
    """

    allocator: Allocator
    complete_only: bool = False
    is_idle: bool = False
    _idle: "Relaxer | None" = None
    _known: Kept = field(default_factory=Kept)

    def node(self, *plans: ClaimPlan, budget: Budget, allowed: int = -1) -> str | None:
        """Return the first of the allowed nodes by name on which some plans fit together, or None."""

        def find(budget: Budget) -> str | None:
            asked = [self.as_asked(plan) for plan in plans]
            return self.allocator.find_node(asked, budget, allowed=allowed, complete_only=self.complete_only)

        def try_idle() -> tuple[str | None, str]:
            try:
                return find(budget.tenth()), ""
            except AbortedError as error:
                return None, str(error)

        if not self.is_idle:
            return find(budget)

        # An error names the request, and is not kept: others have the same signature.
        key = (*[plan.signature for plan in plans], allowed)
        node, aborted = self._known.find(self.allocator.inventory.version, key, try_idle)
        if aborted:
            raise AbortedError(aborted)
        return node

    def fits(self, plan: ClaimPlan, budget: Budget) -> bool | None:
        """Return whether a plan fits on a node; None if that cannot be told. Raises nothing."""
        try:
            return self.node(plan, budget=budget) is not None
        except (FatalError, AbortedError):
            return None

    def most(
        self, plan: ClaimPlan, request: RequestPlan, item: Alternative, budget: Budget
    ) -> tuple[int | None, str]:
        """Return with how many devices for an alternative of a request a plan would fit, and where; all are too many.

        The number is None where it asks for all devices, or that cannot be told. Raises nothing.
        """
        if item.count is None:
            return None, ""
        fits, where, least = 0, "", item.count
        while least - fits > 1:
            middle = (fits + least) // 2
            try:
                node = self.node(with_alternative(plan, request, replace(item, count=middle)), budget=budget)
            except (FatalError, AbortedError):
                return None, ""
            if node is None:
                least = middle
            else:
                fits, where = middle, node
        return fits, where

    def idle(self) -> "Relaxer":
        """Return what asks as if no device were in use and none were tainted."""
        if self._idle is None:
            copy = self.allocator.for_copy(self.allocator.inventory, Ledger())
            self._idle = Relaxer(copy, self.complete_only, is_idle=True)
        self._idle.allocator.refresh()
        return self._idle

    def keep_up(self) -> None:
        """Forget it once there is more to catch up with than it takes to begin anew."""
        if self._idle is not None:
            views = self._idle.allocator.availability.views
            if views.behind > 2 * len(views.order) + _SPARE_CHANGES:
                self.release()

    def release(self) -> None:
        """Forget it; it begins anew if it is asked again."""
        if self._idle is not None:
            self._idle.allocator.release()
            self._idle = None

    def as_asked(self, plan: ClaimPlan) -> ClaimPlan:
        """Return a plan as the allocator is asked about it."""
        candidates = self.allocator.candidates

        def change(item: Alternative) -> Alternative:
            content = item.key.content
            content = content._replace(tolerations=content.tolerations + _EVERYTHING)
            return replace(item, key=candidates.key(content, item.key.amounts.asked))

        return _with_alternatives(plan, change) if self.is_idle else plan


# --- relaxed plans


def only(plan: ClaimPlan, requests: Sequence[RequestPlan]) -> ClaimPlan:
    """Return the plan with some of its requests only."""
    return with_requests(plan, tuple(requests), plan.constraints)


def with_alternative(plan: ClaimPlan, request: RequestPlan, item: Alternative) -> ClaimPlan:
    """Return the plan with one alternative of a request instead of all of them."""
    alone = replace(request, prioritized=False, alternatives=(item,))
    requests = tuple([alone if each.name == request.name else each for each in plan.requests])
    return with_requests(plan, requests, plan.constraints)


def bound_by(plan: ClaimPlan, constraints: Collection[int]) -> ClaimPlan:
    """Return the plan with all but some of its constraints applying to nothing."""

    def bound(item: Alternative) -> Alternative:
        return replace(item, constraints=tuple([each for each in item.constraints if each in constraints]))

    return _with_alternatives(plan, bound)


def unconstrained(plan: ClaimPlan) -> ClaimPlan:
    """Return the plan without its constraints."""
    return with_requests(plan, bound_by(plan, ()).requests, ())


def without(plan: ClaimPlan, number: int) -> ClaimPlan:
    """Return the plan with one of its constraints applying to nothing."""
    return bound_by(plan, [other for other in range(len(plan.constraints)) if other != number])


def _with_alternatives(plan: ClaimPlan, change: Callable[[Alternative], Alternative]) -> ClaimPlan:
    requests = tuple(
        replace(request, alternatives=tuple(map(change, request.alternatives))) for request in plan.requests
    )
    return with_requests(plan, requests, plan.constraints)


def minimal_conflict(
    items: Sequence[_Item], fit: Callable[[Sequence[_Item]], bool | None]
) -> tuple[_Item, ...]:
    """Return the first of some items that do not fit together, as few as leaving out one by one finds.

    To learn that something does not fit takes a look at every node, and that it does often one at the first. So the
    items are added one by one until they do not fit, and only of these some are left out again.
    """
    size = next((size for size in range(len(items)) if fit(items[:size]) is False), len(items))
    kept = tuple(items[:size])
    for item in kept[:-1]:
        fewer = tuple([other for other in kept if other is not item])
        if fit(fewer) is False:
            kept = fewer
    return kept
