"""Health of watches: which kinds are not up to date.

An outage meets each of seven watches in several ways. So reflectors keep their troubles to the level `debug`, and all
are checked every few seconds: one line for those that are interrupted alike, and one when they are heard of again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from dra_operator.cluster.reflector import Counters, Reflector
from dra_operator.cluster.session import Trouble
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger

log = get_logger()


class WatchState(Protocol):
    """What is asked of a reflector."""

    trouble: Trouble | None
    last_trouble: Trouble
    counters: Counters


@dataclass(slots=True)
class WatchHealth:
    """Keeps track of what is not heard of. `clock` is monotonic, in seconds."""

    clock: Callable[[], float]
    _failures: dict[str, int] = field(default_factory=dict)
    _began: dict[str, float] = field(default_factory=dict)
    """When the interruption of each kind was logged that is not over."""

    def check(self, reflectors: Mapping[str, WatchState]) -> None:
        """Log what has changed since the last check. `reflectors` are by kind."""
        now = self.clock()
        alike, over = dict[str, tuple[str, list[str]]](), list[str]()
        for kind, reflector in reflectors.items():
            has_failed = reflector.counters.failures > self._failures.get(kind, 0)
            if has_failed and kind not in self._began:
                self._began[kind] = now
                trouble = reflector.last_trouble
                alike.setdefault(trouble.sort, (trouble.why, []))[1].append(kind)
            elif kind in self._began and not has_failed and reflector.trouble is None:
                over.append(kind)
        self._failures = {kind: reflector.counters.failures for kind, reflector in reflectors.items()}
        for why, kinds in alike.values():
            log.warning(messages.WATCH_INTERRUPTED, kinds=", ".join(kinds), why=why)
        if over:
            seconds = round(now - min(self._began[kind] for kind in over))
            log.info(messages.WATCHING_AGAIN, kinds=", ".join(over), seconds=seconds)
        self._began = {
            kind: at for kind, at in self._began.items() if kind in reflectors and kind not in over
        }


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
