"""Defects of our own: each is logged with its traceback and counted, by one call that does both.

Such an error is no fact about the cluster: it is for whoever is on call, who has one metric to watch.
"""

import sys
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import structlog

log = structlog.get_logger(__name__)


class Defect(Enum):
    """What a defect interrupted. `place` is its label in `dra_operator_errors_total`, `text` what the log says."""

    PASS = "pass", "pass stopped by an error"
    DECISION = "decision", "claim stopped by an error"
    TIDYING = "tidying", "claim left untidy by a defect"
    REPORT = "report", "report stopped by an error"
    INTAKE = "intake", "change stopped by an error"
    EFFECT = "effect", "effect lost by a defect"
    WRITE = "write", "write stopped by a defect"
    OUTCOME = "outcome", "outcome refused"
    EVENT = "event", "event lost by a defect"
    REFLECTOR = "reflector", "reflector goes on after a defect"
    DELTA = "delta", "delta refused"
    TASK = "task", "background task ended"

    def __init__(self, place: str, text: str) -> None:
        self.place: Final = place
        self.text: Final = text


class DefectLogger:
    """Logs defects, and nothing else. `count` is told of each, in the thread that met it."""

    def __init__(self, count: Callable[[Defect], None] = lambda _: None) -> None:
        self._count = count

    def exception(self, defect: Defect, **facts: Any) -> None:
        """Log the exception that is being handled, after which the work goes on; `facts` are fields of the line."""
        self._count(defect)
        log.error(defect.text, exc_info=sys.exception(), **facts)

    def critical(self, defect: Defect, error: BaseException | None, **facts: Any) -> None:
        """Log what ends the process; `error` is None for a part that came to an end without one."""
        self._count(defect)
        log.critical(defect.text, exc_info=error, **facts)


UNCOUNTED: Final = DefectLogger()
"""For parts that run without metrics."""
