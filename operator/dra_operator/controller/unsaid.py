"""Unsaid: what the log tells of Events that cannot be sent, since no Event can.

That Events are not permitted is logged at once, and they are tried from time to time, to find out when they are. That
they wait for the API server is logged when it begins, again while it lasts, and when it is over: an API server that
fails now and then would give a line for each Event.
"""

from collections.abc import Callable

from dra_operator.cluster.events import EventRecorder
from dra_operator.cluster.session import ApiError
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger

RETRY_SECONDS = 30.0
"""How often an Event is sent although Events were not permitted."""
TOLD_SECONDS = 600.0
"""How often it is logged that Events wait, as long as that lasts."""
CALM_SECONDS = 120.0
"""For how long no Event had to wait when that is over. From one attempt to the next it takes up to half of that."""

log = get_logger()


class Unsaid:
    """Keeps track of what `recorder` cannot send. `clock` is monotonic, in seconds."""

    def __init__(self, recorder: EventRecorder, clock: Callable[[], float]) -> None:
        self._recorder = recorder
        self._clock = clock
        self._denied: ApiError | None = None
        self._denied_at = 0.0
        self._troubles = 0
        self._waits_since: float | None = None
        self._waited_at = self._told_at = 0.0

    def look(self) -> None:
        """Log what has changed since the last look."""
        now = self._clock()
        self._look_at_right(now)
        self._look_at_waiting(now)

    def _look_at_right(self, now: float) -> None:
        error = self._recorder.forbidden
        if error is None:
            if (told := self._denied) is not None:
                log.info(messages.PERMITTED, verb=told.verb, resource=told.resource)
            self._denied = None
        elif self._denied is None:
            self._denied, self._denied_at = error, now
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
        elif now - self._denied_at >= RETRY_SECONDS:
            self._denied_at = now
            self._recorder.try_again()

    def _look_at_waiting(self, now: float) -> None:
        recorder = self._recorder
        if recorder.troubles > self._troubles:
            self._troubles, self._waited_at = recorder.troubles, now
            if self._waits_since is None:
                self._waits_since = now
            elif now - self._told_at < TOLD_SECONDS:
                return
            self._told_at = now
            log.warning(messages.EVENTS_WAIT, why=recorder.trouble, events=recorder.pending)
        elif self._waits_since is not None and now - self._waited_at >= CALM_SECONDS:
            log.info(messages.EVENTS_GO_ON, seconds=round(self._waited_at - self._waits_since))
            self._waits_since = None
