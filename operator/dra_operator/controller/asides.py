"""Asides: what a pass does beside deciding, and must not stop deciding if it breaks.

That a pool is incomplete or a device is held twice is worth telling, and no claim depends on it being told. So a
defect there costs what would have been told, until it has been tried again, later each time.
"""

from collections.abc import Callable

from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.faults import Defect, DefectLogger

RETRY = (1.0, 30.0)
"""First and longest wait, in seconds, after an error."""


class SideTask:
    """One piece of such work; `name` is what the log calls it. `clock` is monotonic, in seconds."""

    def __init__(self, name: str, clock: Callable[[], float], defect_logger: DefectLogger) -> None:
        self._name = name
        self._clock = clock
        self._defect_logger = defect_logger
        self._failures = 0
        self._again_at: float | None = None

    def do(self, work: Callable[[], None]) -> None:
        """Do the work, unless it has just met a defect."""
        if self._again_at is not None and self._clock() < self._again_at:
            return
        try:
            work()
        except Exception:
            self._defect_logger.exception(Defect.REPORT, report=self._name)
            self._again_at = self._clock() + doubled(*RETRY, self._failures)
            self._failures += 1
        else:
            self._failures, self._again_at = 0, None

    def next_due(self, due: float | None = None) -> float | None:
        """Return when it is to be done, by the clock: at `due`, or later if it met a defect; None if it need not be."""
        return due if self._again_at is None else self._again_at
