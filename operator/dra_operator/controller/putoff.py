"""Putting off: claims that must not be tried again just yet.

A claim that used up its deadline, was refused by the API server or lost a race would, tried again at once, do
the same again and slow the others. So it waits, longer each time. What lost a race waits for the newer
version of the claim at most; the others wait for the time alone, since a new version says nothing about them
(our own annotation makes one).

A wait ends when a pass asks which are over, and not later in that pass: it would end unnoticed, and what is to be done
first at its end would not be done.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from dra_operator.cluster.backoff import doubled
from dra_operator.controller.claims import Key

_BETWEEN_ENDS = 30.0
"""A webhook that takes one write of a hundred is not sent all others again for each that it takes, only so often."""


@dataclass(slots=True)
class _Wait:
    uid: str
    attempts: int
    until: float
    version: str | None
    refusals: int
    over: bool = False


class PutOffs:
    """Claims that wait, by key. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waits: dict[Key, _Wait] = {}
        self._refused: set[Key] = set()
        self._end_next_at = float("-inf")

    def for_time(self, key: Key, uid: str, first: float, longest: float) -> float:
        """Put a claim off for `first` seconds, twice as long each time up to `longest`; return for how long."""
        return self._put(key, uid, first, longest, None)

    def for_version(self, key: Key, uid: str, version: str, first: float, longest: float) -> None:
        """Put a claim off as `for_time` does, or until its resourceVersion is no longer `version`."""
        self._put(key, uid, first, longest, version)

    def waits(self, key: Key, uid: str, version: str) -> bool:
        """True if the claim, of that uid and resourceVersion, must not be tried yet."""
        wait = self._waits.get(key)
        if wait is None or wait.uid != uid:
            return False
        if wait.version is not None and wait.version != version:
            return False
        return not wait.over

    def refused(self, key: Key) -> int:
        """Count that the API server did not take a write; return how often that was so since it took one.

        Whatever else the claim was put off for is not counted.
        """
        if (wait := self._waits.get(key)) is None:
            return 0
        wait.refusals += 1
        self._refused.add(key)
        return wait.refusals

    def end(self, keys: Iterable[Key]) -> None:
        """Let the waits of some claims be over now: what they waited for is there."""
        now = self._clock()
        for key in keys:
            if (wait := self._waits.get(key)) is not None:
                wait.until = min(wait.until, now)

    def accepted(self, key: Key) -> None:
        """Forget that the claim was ever put off: the API server took a write of it.

        If it had refused one before, such as a webhook that was wrong for all claims, the waits of all others that it
        refused are over as well, unless that was so in the last 30 s. A claim that it never refused shows nothing: a
        policy may be about others only.
        """
        wait = self._waits.pop(key, None)
        self._refused.discard(key)
        if wait is not None and wait.refusals and self._clock() >= self._end_next_at:
            self.end(self._refused)
            self._refused.clear()
            self._end_next_at = self._clock() + _BETWEEN_ENDS

    def forget(self, key: Key) -> None:
        """Forget that the claim was ever put off."""
        self._waits.pop(key, None)
        self._refused.discard(key)

    def __contains__(self, key: Key) -> bool:
        return key in self._waits

    def over(self) -> set[Key]:
        """End the waits whose time is over and return their claims; these stay known, so that the next is longer."""
        now = self._clock()
        ended = {key for key, wait in self._waits.items() if wait.until <= now and not wait.over}
        for key in ended:
            self._waits[key].over = True
        return ended

    def next_end(self) -> float | None:
        """Return when the next wait is over, by the clock, or None if none is going on."""
        return min((wait.until for wait in self._waits.values() if not wait.over), default=None)

    def _put(self, key: Key, uid: str, first: float, longest: float, version: str | None) -> float:
        before = self._waits.get(key)
        attempts = refusals = 0
        if before is not None and before.uid == uid:
            attempts, refusals = before.attempts, before.refusals
        seconds = doubled(first, longest, attempts)
        self._waits[key] = _Wait(uid, attempts + 1, self._clock() + seconds, version, refusals)
        return seconds
