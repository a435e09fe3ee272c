"""What watches read: the recent changes of one kind, in order, and a bell that rings when there are more.

A watch is a position in the history, not a queue of its own: a thousand watches of ten thousand changes share one list,
and a slow reader costs nothing until it falls out of the window, which is when the real server, too, says 410.
"""

import asyncio
from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum

from dra_operator.sim.objects import Stored


class ChangeType(Enum):
    """What happened; the value is the wire's word."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the object after it (for a deletion: its last state, at the deletion's revision) and before."""

    type: ChangeType
    object: Stored
    previous: Stored | None

    @property
    def revision(self) -> int:
        """The resourceVersion of the write."""
        return self.object.revision


class History:
    """The last changes of one kind: at least `capacity` of them, at most twice as many."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.forgotten = 0
        """The newest revision that watches can no longer ask for what came after."""
        self._changes: list[Change] = []
        self._base = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._base + len(self._changes)

    def append(self, change: Change) -> None:
        """Add a change and wake every watch."""
        self._changes.append(change)
        if len(self._changes) > 2 * self.capacity:
            self._forget(self.capacity)
        if self._waiting:
            self.wake()

    def forget(self, revision: int) -> None:
        """Forget everything up to `revision`, so that a watch from before it gets 410."""
        self._forget(bisect_right(self._changes, revision, key=lambda change: change.revision))
        self.forgotten = max(self.forgotten, revision)
        self.wake()

    def _forget(self, count: int) -> None:
        if count:
            self.forgotten = max(self.forgotten, self._changes[count - 1].revision)
            del self._changes[:count]
            self._base += count

    def position_after(self, revision: int) -> int | None:
        """Return the position of the first change after `revision`, or None if changes since are forgotten."""
        if revision < self.forgotten:
            return None
        return self._base + bisect_right(self._changes, revision, key=lambda change: change.revision)

    def read(self, position: int, limit: int) -> list[Change] | None:
        """Return up to `limit` changes from `position`, or None if that position fell out of the window."""
        if position < self._base:
            return None
        start = position - self._base
        return self._changes[start : start + limit]

    async def more(self, position: int) -> None:
        """Return when there is a change at `position`, or when somebody called `wake`."""
        if position < self.end:
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if future in self._waiting:
                self._waiting.remove(future)

    def wake(self) -> None:
        """Wake every watch, whether there is a change or not."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
