"""The budget of one attempt: steps and time, so that no claim can hold up the others.

The search is exponential in bad cases. Upstream relies on a timeout; here steps are counted as well, since they are the
same on every machine. The clock is passed in, and read only now and then.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from dra_operator.allocator.decision import AbortedError, PreemptedError

_Item = TypeVar("_Item")

_STEPS_PER_CHECK = 256
_EVALUATIONS_PER_CHECK = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt may cost: `steps` are devices tried, `seconds` are by the clock; None is no limit.

    `tries` is for each node: how many picks of the search that counts may lead to nothing. It turns back early, so few
    nodes need more, and trying on would hold up other claims.
    """

    steps: int | None = 1_000_000
    seconds: float | None = 10.0
    tries: int | None = 1000


def unlimited() -> "Budget":
    """Return a budget without an end."""
    return Budget(Limits(None, None), lambda: 0.0)


class Budget:
    """What is left of the limits of one attempt, and whether it is cut off in favour of others."""

    # No dataclass: one is made for each claim, and __init__ with __post_init__ would be two calls more.
    __slots__ = ("_deadline", "_evaluations", "_is_preempted", "_tenth", "clock", "limits", "steps")

    def __init__(
        self, limits: Limits, clock: Callable[[], float], is_preempted: Callable[[], bool] | None = None
    ) -> None:
        self.limits = limits
        self.clock = clock
        self.steps = 0
        self._evaluations = 0
        self._tenth: Budget | None = None
        self._is_preempted = is_preempted
        self._deadline = None if limits.seconds is None else clock() + limits.seconds

    def tenth(self) -> "Budget":
        """Return the budget for what is asked only to say more: a tenth of the steps and of the time, once."""
        if self._tenth is None:
            limits = self.limits
            steps, seconds = limits.steps and limits.steps // 10, limits.seconds and limits.seconds / 10
            aside = Budget(Limits(steps, seconds, limits.tries), self.clock, self._is_preempted)
            if aside._deadline is not None and self._deadline is not None:
                aside._deadline = min(aside._deadline, self._deadline)
            self._tenth = aside
        return self._tenth

    def step(self) -> None:
        """Count a step. Raises AbortedError if the steps or the time are used up."""
        self.steps += 1
        if self.limits.steps is not None and self.steps > self.limits.steps:
            raise AbortedError(f"the search was given up after {self.limits.steps} steps")
        if self.steps % _STEPS_PER_CHECK == 0:
            self.check_time()

    def count_evaluations(self, times: int) -> None:
        """Count evaluations of selectors. Raises AbortedError if the time is used up."""
        self._evaluations += times
        if self._evaluations >= _EVALUATIONS_PER_CHECK:
            self._evaluations = 0
            self.check_time()

    def check_tries(self, tries: int) -> None:
        """Raise AbortedError if this is more than one node may take."""
        if self.limits.tries is not None and tries > self.limits.tries:
            raise AbortedError(f"the search was given up after {self.limits.tries} tries on one node")

    def each(self, items: Iterable[_Item]) -> Iterator[_Item]:
        """Yield some items, each of which may take long. Raises AbortedError if the time is used up."""
        for item in items:
            self.check_time()
            yield item

    def check_time(self) -> None:
        """Look at the clock. Raises AbortedError if the time is used up, PreemptedError if others come first."""
        if self._deadline is not None and self.clock() > self._deadline:
            raise AbortedError(f"the search was given up after {self.limits.seconds:g} s")
        if self._is_preempted is not None and self._is_preempted():
            raise PreemptedError
