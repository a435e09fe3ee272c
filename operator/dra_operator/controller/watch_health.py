"""Health of watches and of the delivery of Events: which kinds are not up to date, and which Events cannot be sent.

An outage meets each of seven watches in several ways. So reflectors keep their troubles to the level `debug`, and all
are checked every few seconds: one line for an outage, and one when it is over. Kinds with different troubles are logged
apart, since one of them may be for somebody to mend. That Events wait is logged here, since no Event can say so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dra_operator.cluster.events import EventRecorder
from dra_operator.cluster.reflector import Counters, Reflector
from dra_operator.cluster.session import ApiError, Trouble
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger

SETTLED_SECONDS = 10.0
"""How long a kind has to be heard of again before that is logged, while another one is not."""
ANOTHER_SECONDS = 60.0
"""How long a kind has to have another trouble than the one that was logged before that is logged as well.

In an outage a server can be away in several ways, one after the other; what it ends in may be for somebody to mend.
"""

log = get_logger()


class WatchState(Protocol):
    """What is asked of a reflector."""

    trouble: Trouble | None
    last_trouble: Trouble
    counters: Counters


@dataclass(slots=True)
class _Interruption:
    """`logged` is the trouble that was logged, `changed_at` when the last began, `over_at` when all was well again."""

    began_at: float
    trouble: Trouble
    changed_at: float
    logged: Trouble | None = None
    over_at: float | None = None


@dataclass(slots=True)
class WatchHealth:
    """Keeps track of what is not heard of. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    _failures: dict[str, int] = field(default_factory=dict)
    _interrupted: dict[str, _Interruption] = field(default_factory=dict)

    def check(self, reflectors: Mapping[str, WatchState]) -> None:
        """Log what has changed since the last check. `reflectors` are by kind."""
        now = self.clock()
        for kind in self._failures.keys() - reflectors.keys():
            del self._failures[kind]
            self._interrupted.pop(kind, None)
        for kind, reflector in reflectors.items():
            failures = reflector.counters.failures
            if failures > self._failures.get(kind, 0):
                self._observe(kind, reflector, now)
            self._failures[kind] = failures
            if (interruption := self._interrupted.get(kind)) is not None:
                well = reflector.trouble is None
                interruption.over_at = (interruption.over_at or now) if well else None
        self._log_begun(now)
        self._log_over(now)

    def _observe(self, kind: str, reflector: WatchState, now: float) -> None:
        trouble = reflector.last_trouble
        interruption = self._interrupted.setdefault(kind, _Interruption(now, trouble, now))
        if interruption.trouble != trouble:
            interruption.trouble, interruption.changed_at = trouble, now
        interruption.over_at = None

    def _log_begun(self, now: float) -> None:
        kinds = [
            kind
            for kind, found in self._interrupted.items()
            if found.logged is None
            or (
                found.trouble != found.logged
                and found.over_at is None
                and now >= found.changed_at + ANOTHER_SECONDS
            )
        ]
        sorts: dict[str, list[str]] = {}
        for kind in kinds:
            found = self._interrupted[kind]
            found.logged = found.trouble
            sorts.setdefault(found.trouble.sort, []).append(kind)
        for alike in sorts.values():
            why = self._interrupted[alike[0]].trouble.why
            log.warning(messages.WATCH_INTERRUPTED, kinds=", ".join(alike), why=why)

    def _log_over(self, now: float) -> None:
        over = {kind: found.over_at for kind, found in self._interrupted.items() if found.over_at is not None}
        if not over or (len(over) < len(self._interrupted) and now < min(over.values()) + SETTLED_SECONDS):
            return
        began = min(self._interrupted.pop(kind).began_at for kind in over)
        seconds = round(max(over.values()) - began)
        log.info(messages.WATCHING_AGAIN, kinds=", ".join(over), seconds=seconds)


def unready_kinds(reflectors: Mapping[str, Reflector], stale_seconds: float) -> list[str]:
    """Return a line for each reason why kinds are not up to date; kinds with the same one, as in an outage, share it.

    `reflectors` are by kind.
    """
    denied: list[str] = []
    alike: dict[str, tuple[str, list[str]]] = {}
    for name, reflector in reflectors.items():
        if (error := reflector.forbidden) is not None:
            denied.append(messages.forbidden(error))
        elif (found := find_trouble(reflector, stale_seconds)) is not None:
            alike.setdefault(found.sort, (found.why, []))[1].append(name)
    return denied + [f"{', '.join(names)}: {why}" for why, names in alike.values()]


def find_trouble(reflector: Reflector, stale_seconds: float) -> Trouble | None:
    """Return why a kind is not up to date, or None if it is."""
    if reflector.trouble is not None:
        return reflector.trouble
    if not reflector.synced.is_set() or reflector.halfway:
        return Trouble("unlisted", "not listed yet")
    silence = reflector.silence or 0.0
    if silence > stale_seconds:
        return Trouble("silent", f"nothing heard from the API server for {silence:.0f} s")
    return None


RETRY_SECONDS = 30.0
"""How often an Event is sent although Events were not permitted."""
REPEAT_SECONDS = 600.0
"""How often it is logged that Events wait, as long as that lasts."""
CALM_SECONDS = 120.0
"""For how long no Event had to wait when that is over. From one attempt to the next it takes up to half of that."""


@dataclass(slots=True)
class EventDelivery:
    """Keeps track of what `recorder` cannot send. `clock` is monotonic, in seconds."""

    recorder: EventRecorder
    clock: Callable[[], float]
    _denied: ApiError | None = None
    _denied_at: float = 0.0
    _troubles: int = 0
    _waits_since: float | None = None
    _waited_at: float = 0.0
    _logged_at: float = 0.0

    def check(self) -> None:
        """Log what has changed since the last check."""
        now = self.clock()
        self._check_permission(now)
        self._check_waiting(now)

    def _check_permission(self, now: float) -> None:
        error = self.recorder.forbidden
        if error is None:
            if (denied := self._denied) is not None:
                log.info(messages.PERMITTED, verb=denied.verb, resource=denied.resource)
            self._denied = None
        elif self._denied is None:
            self._denied, self._denied_at = error, now
            log.error(messages.FORBIDDEN, verb=error.verb, resource=error.resource, why=error.message)
        elif now - self._denied_at >= RETRY_SECONDS:
            self._denied_at = now
            self.recorder.try_again()

    def _check_waiting(self, now: float) -> None:
        recorder = self.recorder
        if recorder.troubles > self._troubles:
            self._troubles, self._waited_at = recorder.troubles, now
            if self._waits_since is None:
                self._waits_since = now
            elif now - self._logged_at < REPEAT_SECONDS:
                return
            self._logged_at = now
            log.warning(messages.EVENTS_WAIT, why=recorder.trouble, events=recorder.pending)
        elif self._waits_since is not None and now - self._waited_at >= CALM_SECONDS:
            log.info(messages.EVENTS_GO_ON, seconds=round(self._waited_at - self._waits_since))
            self._waits_since = None
