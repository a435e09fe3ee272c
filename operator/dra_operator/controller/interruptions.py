"""Interruptions: which kinds are not heard of, told once for all of them, and once more when that is over.

When the API server goes away each of seven watches notices by itself, and each of them meets a cut connection, then
nobody, then a server that permits nothing yet, then a version that is too old: thirty lines about one outage, in which
the one about something else is not seen. So a reflector keeps these to the level `debug`. What is told is found by a
look at all of them every few seconds, and nothing that came and went between two looks is left out. Kinds that have
troubles of different sorts at one look are told apart: one of them may be for somebody to mend, and the outage hide it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from dra_operator.cluster.reflector import Counters
from dra_operator.cluster.session import Trouble
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger

SETTLED_SECONDS = 10.0
"""How long a kind has to be heard of again before that is told, while another one is not."""
ANOTHER_SECONDS = 60.0
"""How long a kind has to have another trouble than the one that was told before that is told as well.

In an outage a server can be away in several ways, one after the other; what it ends in may be for somebody to mend.
"""

log = get_logger()


class Watching(Protocol):
    """What is asked of a reflector."""

    trouble: Trouble | None
    last_trouble: Trouble
    counters: Counters


@dataclass(slots=True)
class _Interruption:
    """`told` is the trouble that was told, `changed_at` when the last one began, `over_at` when all was well again."""

    began_at: float
    trouble: Trouble
    changed_at: float
    told: Trouble | None = None
    over_at: float | None = None


class Interruptions:
    """Keeps track of what is not heard of. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: dict[str, int] = {}
        self._interrupted: dict[str, _Interruption] = {}

    def look(self, reflectors: Mapping[str, Watching]) -> None:
        """Log what has changed since the last look. `reflectors` are by kind."""
        now = self._clock()
        for kind in self._failures.keys() - reflectors.keys():
            del self._failures[kind]
            self._interrupted.pop(kind, None)
        for kind, reflector in reflectors.items():
            failures = reflector.counters.failures
            if failures > self._failures.get(kind, 0):
                self._note(kind, reflector, now)
            self._failures[kind] = failures
            if (interruption := self._interrupted.get(kind)) is not None:
                well = reflector.trouble is None
                interruption.over_at = (interruption.over_at or now) if well else None
        self._tell_begun(now)
        self._tell_over(now)

    def _note(self, kind: str, reflector: Watching, now: float) -> None:
        trouble = reflector.last_trouble
        interruption = self._interrupted.setdefault(kind, _Interruption(now, trouble, now))
        if interruption.trouble != trouble:
            interruption.trouble, interruption.changed_at = trouble, now
        interruption.over_at = None

    def _tell_begun(self, now: float) -> None:
        kinds = [
            kind
            for kind, found in self._interrupted.items()
            if found.told is None
            or (
                found.trouble != found.told
                and found.over_at is None
                and now >= found.changed_at + ANOTHER_SECONDS
            )
        ]
        sorts: dict[str, list[str]] = {}
        for kind in kinds:
            found = self._interrupted[kind]
            found.told = found.trouble
            sorts.setdefault(found.trouble.sort, []).append(kind)
        for alike in sorts.values():
            why = self._interrupted[alike[0]].trouble.why
            log.warning(messages.WATCH_INTERRUPTED, kinds=", ".join(alike), why=why)

    def _tell_over(self, now: float) -> None:
        over = {kind: found.over_at for kind, found in self._interrupted.items() if found.over_at is not None}
        if not over or (len(over) < len(self._interrupted) and now < min(over.values()) + SETTLED_SECONDS):
            return
        began = min(self._interrupted.pop(kind).began_at for kind in over)
        seconds = round(max(over.values()) - began)
        log.info(messages.WATCHING_AGAIN, kinds=", ".join(over), seconds=seconds)
