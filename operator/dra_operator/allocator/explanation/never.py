"""Never: what keeps a claim waiting even if no device were in use and none were tainted.

Whoever reads that devices are in use waits until they are free. If the claim does not fit then either, that is said as
well: how many devices a node has of what is asked for, which constraint cannot be met, or that requests compete.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError, FatalError
from dra_operator.allocator.explanation.idle import Idle
from dra_operator.allocator.explanation.obstacles import PASSING
from dra_operator.allocator.explanation.phrases import constraint_name
from dra_operator.allocator.explanation.reduced import only, unconstrained, without
from dra_operator.allocator.explanation.tally import Tally
from dra_operator.allocator.plan import ClaimPlan, RequestPlan
from dra_operator.allocator.reasons import Reason


class Most(NamedTuple):
    """How many devices a request could have that never gets all it asks for; None if that is not known.

    `when` says what would have to be otherwise.
    """

    number: int | None
    when: str

    def clauses(self, tally: Tally, now: int) -> tuple[str, str]:
        """Return what is said of those that are left now, and behind the number that is requested, or nothing."""
        if self.number is None:
            return "", f", which no node has even {self.when}"
        if self.number <= now:
            return f" even {self.when}", ""
        if self.number < tally.most_if_idle:
            return "", f", only {self.number} of them together {self.when}"
        return "", f", at most {self.number} on one node {self.when}"


@dataclass(frozen=True, slots=True)
class Never:
    """Tells what never fits, by what an idle cluster answers; nothing where that cannot be found out."""

    idle: Idle

    def most(self, plan: ClaimPlan, tally: Tally, budget: Budget) -> Most | None:
        """Return how many devices a plan of one alternative could have, if it never fits; None if it may.

        No constraint binds it. If no device draws on counters, their number tells: a request gets none of them twice.
        """
        count = plan.requests[0].alternatives[0].count
        if PASSING.isdisjoint(tally.obstacles) or (not tally.drawing and tally.most_if_idle >= (count or 0)):
            return None
        if not tally.drawing:
            return Most(tally.most_if_idle, when((tally,))) if tally.most_if_idle else None
        if self.idle.fits(plan, budget) is not False:
            return None
        number = self.idle.most(plan, budget)
        # Where no node has any, something else is said of the devices.
        return None if number == 0 else Most(number, when((tally,)))

    def most_bound(self, plan: ClaimPlan, tally: Tally, budget: Budget) -> Most | None:
        """Return how many devices a plan of one alternative could have that constraints keep from all it asks for."""
        if plan.requests[0].alternatives[0].admin_access or self.idle.fits(plan, budget) is not False:
            return None
        return Most(self.idle.most(plan, budget), when((tally,)))

    def constraint(
        self, plan: ClaimPlan, request: RequestPlan, tallies: Sequence[Tally], budget: Budget
    ) -> str:
        """Return a clause on the constraint that a request can never meet. `tallies` are those of its alternatives."""
        if not plan.constraints or not any(tally.kept for tally in tallies):
            return ""
        alone = only(plan, (request,))
        try:
            if self.idle.node(alone, budget) is not None or not self.idle.fits(unconstrained(alone), budget):
                return ""
        except FatalError as error:
            return _tell_conflict(error, request, tallies)
        except AbortedError:
            return ""
        text = f"; {self._name(alone, budget)} cannot be met"
        item = request.alternatives[0]
        if request.prioritized or item.count is None or not (most := self.idle.most(alone, budget)):
            return f"{text} even {when(tallies)}"
        return f"{text}: at most {most} together even {when(tallies)}, {item.count} requested"

    def together(self, plan: ClaimPlan, tallies: Sequence[Tally], told: str, budget: Budget) -> str:
        """Return a clause on requests of which each may fit, but never all; a cause that is told is not repeated."""
        if len(plan.requests) == 1 or not any(tally.kept for tally in tallies):
            return ""
        alone = [only(plan, (request,)) for request in plan.requests]
        nodes = {}
        try:
            for each in alone:
                if (node := self.idle.node(each, budget)) is None:
                    return ""
                nodes[each.requests[0].name] = node
            if self.idle.node(plan, budget) is not None:
                return ""
        except (FatalError, AbortedError):
            return ""
        text = f"; even {when(tallies)}, the requests do not fit together"
        free = unconstrained(plan)
        if plan.constraints and self.idle.fits(free, budget) is not False:
            name = self._name(plan, budget)
            return f"{text} with {name.partition(' (')[0] if name in told else name}"
        free = self.idle.tolerating(free)
        cause = self.idle.contention().tell(free, free, nodes, budget.tenth())
        return f"{text}: {cause}" if cause and cause not in told else text

    def _name(self, plan: ClaimPlan, budget: Budget) -> str:
        """Return the first constraint without which a plan would fit, or all of them."""
        numbers = range(len(plan.constraints))
        alone = (number for number in numbers if self.idle.fits(without(plan, number), budget))
        return constraint_name(plan, next(alone, None))


def when(tallies: Iterable[Tally]) -> str:
    """Return what would have to be otherwise, for devices that are in use or tainted."""
    tainted = any(Reason.DEVICE_TAINTED in tally.obstacles for tally in tallies)
    return f"if none were in use{' or tainted' if tainted else ''}"


def _tell_conflict(error: FatalError, request: RequestPlan, tallies: Iterable[Tally]) -> str:
    if error.reason is not Reason.CONSTRAINT_CONFLICT:
        return ""
    return f"; {when(tallies)}, it {error.message.removeprefix(f'request {request.name}: ')}"
