"""Timers: when time alone makes a cycle necessary, as one heap of (due, task).

Whoever waits for a time sets the timer of its task, and looks by itself what is due when the cycle runs.
"""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.faults import Defect, DefectLogger

RETRY = (1.0, 30.0)
"""First and longest wait, in seconds, after an error."""
_FEW = 64


class Timers:
    """A binary heap with lazy deletion; each task has one timer at most. Times are of one monotonic clock."""

    def __init__(self) -> None:
        self._due: dict[Hashable, float] = {}
        self._heap: list[tuple[float, int, Hashable]] = []
        self._counter = itertools.count()
        """Breaks ties, as tasks have no order."""

    def set(self, task: Hashable, due: float | None) -> None:
        """Move the timer of a task to `due`, or stop it with None."""
        if due is None:
            self._due.pop(task, None)
        elif self._due.get(task) != due:
            self._due[task] = due
            heappush(self._heap, (due, next(self._counter), task))
            if len(self._heap) > _FEW + 2 * len(self._due):
                self._heap = [(due, next(self._counter), task) for task, due in self._due.items()]
                heapify(self._heap)

    def next_due(self) -> float | None:
        """Return when the first timer ends, or None if none runs."""
        while self._heap and self._due.get(self._heap[0][2]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None


@dataclass(slots=True)
class BestEffortTask:
    """What a cycle does beside deciding: a defect there is logged and must not stop decisions.

    It is tried again later each time. `name` is what the log calls it; `clock` is monotonic, in seconds.
    """

    name: str
    clock: Callable[[], float]
    timers: Timers
    defect_logger: DefectLogger
    _failures: int = 0
    _retry_at: float | None = None

    def run(self, work: Callable[[], float | None]) -> None:
        """Do the work, unless it has just met a defect; `work` returns when time alone makes it due again."""
        if self._retry_at is not None and self.clock() < self._retry_at:
            return
        try:
            due = work()
        except Exception:
            self.defect_logger.exception(Defect.REPORT, report=self.name)
            due = self._retry_at = self.clock() + doubled(*RETRY, self._failures)
            self._failures += 1
        else:
            self._failures, self._retry_at = 0, None
        self.timers.set(("task", self.name), due)


@dataclass(slots=True)
class TokenBucket:
    """A rate limit: `rate` a second, and as many at once. `clock` is monotonic, in seconds."""

    rate: float
    clock: Callable[[], float]
    _tokens: float = field(init=False)
    _filled_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._filled_at = self.rate, self.clock()

    def has_one(self) -> bool:
        """True if one may be taken now."""
        return self._level() >= 1

    def take_one(self) -> None:
        """Take one token, whether there is one or not."""
        self._tokens, self._filled_at = self._level() - 1, self.clock()

    def full_at(self) -> float:
        """Return now if a token is there, or else when the bucket is full again."""
        now, level = self.clock(), self._level()
        return now if level >= 1 else now + (self.rate - level) / self.rate

    def _level(self) -> float:
        return min(self.rate, self._tokens + (self.clock() - self._filled_at) * self.rate)
