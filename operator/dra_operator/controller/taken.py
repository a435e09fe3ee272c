"""Taken: which claims that wait are to be decided again since others have taken devices.

When somebody takes a device, no waiting claim gains one, with one exception: a claim whose attempt ended with an error.
Searches skip devices in use, so a selector that failed on this device fails no more, and the claim may get another.
Besides, the messages of waiting claims are out of date: how many devices are in use, and by whom.

To decide all of them again after each allocation would be too much. So they wait and are decided together: those that
failed after `FAILED_SECONDS`, `FAILED_AT_ONCE` of them at most, and all of them after `ALL_SECONDS`.
"""

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from itertools import islice

from dra_operator.allocator import Decision, Failed
from dra_operator.controller.claims import ClaimBook, Key
from dra_operator.ledger import Ledger

FAILED_SECONDS = 1.0
"""How long claims whose attempt ended with an error wait after something was taken."""
FAILED_AT_ONCE = 100
"""How many of them are decided then, so that thousands of claims of a missing class do not slow down the others."""
ALL_SECONDS = 30.0
"""How long all others do."""


class Taken:
    """Follows what is taken. `clock` is monotonic, in seconds."""

    def __init__(self, ledger: Ledger, book: ClaimBook, clock: Callable[[], float]) -> None:
        self._ledger = ledger
        self._book = book
        self._clock = clock
        self._failed: dict[Key, None] = {}
        """Those whose attempt ended with an error, the longest ago first. One that was aborted is put off anyway."""
        self._version = ledger.version
        self._failed_due: float | None = None
        self._all_due: float | None = None

    def decided(self, key: Key, decision: Decision) -> None:
        """Note what was decided about a claim."""
        self.forget(key)
        if isinstance(decision, Failed) and decision.kind == "fatal":
            self._failed[key] = None

    def forget(self, key: Key) -> None:
        """Note that a claim does not wait any more."""
        self._failed.pop(key, None)

    def asked_all(self) -> None:
        """Note that all claims that wait are decided again anyway, by what is in use now."""
        self._version = self._ledger.version
        self._failed_due = self._all_due = None

    def look(self) -> None:
        """Note whether what is in use has changed. What came back has had all claims decided again."""
        if self._ledger.version == self._version:
            return
        self._version, now = self._ledger.version, self._clock()
        if self._failed_due is None:
            self._failed_due = now + FAILED_SECONDS
        if self._all_due is None:
            self._all_due = now + ALL_SECONDS

    def due(self) -> AbstractSet[Key]:
        """Return, once, the claims that are to be decided again now."""
        now = self._clock()
        if self._all_due is not None and now >= self._all_due:
            self.asked_all()
            return self._book.waiting()
        if self._failed_due is not None and now >= self._failed_due:
            self._failed_due = None
            return frozenset(islice(self._failed, FAILED_AT_ONCE))
        return frozenset()

    def next_due(self) -> float | None:
        """Return when some claim is to be decided again, by the clock, or None."""
        if self._failed and self._failed_due is not None:
            return self._failed_due
        return self._all_due
