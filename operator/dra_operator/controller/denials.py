"""Denials: what the operator itself may not do, told once for each right, and only if that lasts.

Without the right to list or watch a kind, or to the Lease, nothing can be decided. `/readyz` names the right at once.
Log and Event come later, as both stay: an API server that was just started permits nobody anything until it has read
its roles, and whoever reads `forbidden` in the morning looks for a role that was there all the time.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from dra_operator.cluster.session import ApiError
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.reports import Notice, Reports, Subject

LASTING_SECONDS = 5.0
"""How long a right has to be missing, in seconds, before that is told."""

log = get_logger()


class Denials:
    """Keeps track of rights that are missing.

    `subject` stands for the operator; `record` has an Event recorded, which is repeated every `refresh` seconds.
    `clock` is monotonic, in seconds.
    """

    def __init__(
        self, subject: Subject, record: Callable[[Notice], None], refresh: float, clock: Callable[[], float]
    ) -> None:
        self._subject = subject
        self._record = record
        self._reports = Reports(refresh)
        self._clock = clock
        self._since: dict[str, float] = {}
        self._told: dict[str, ApiError] = {}

    def look(self, denied: Mapping[str, ApiError | None], unanswered: AbstractSet[str] = frozenset()) -> None:
        """Tell what has been denied for long; `denied` has the refusal, or None, by what the right is needed for.

        What was told of those that are `unanswered` stands. All others are needed no more, and what was told of them is
        told no more.
        """
        now = self._clock()
        for name in self._since.keys() - denied.keys() - unanswered:
            self._forget(name)
        for name, error in denied.items():
            if error is None:
                if (told := self._forget(name)) is not None:
                    log.info(messages.PERMITTED, verb=told.verb, resource=told.resource)
            elif now >= self._since.setdefault(name, now) + LASTING_SECONDS:
                self._tell(name, error, now)
        for notice in self._reports.due(now):
            self._record(notice)

    def _forget(self, name: str) -> ApiError | None:
        """Keep nothing of a right; return the refusal that was told."""
        self._since.pop(name, None)
        self._reports.clear(name)
        return self._told.pop(name, None)

    def _tell(self, name: str, error: ApiError, now: float) -> None:
        sentence = messages.forbidden(error)
        notice = Notice(self._subject, "Warning", messages.EVENT_FORBIDDEN, sentence)
        news = self._reports.state(name, notice, (error.verb, error.resource), now)
        if news is not None:
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
            self._record(news)
            self._told[name] = error
