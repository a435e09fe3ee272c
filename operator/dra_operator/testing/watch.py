"""Watches: the state if asked for, then every change, until the client, the clock or a fault ends it.

A watch with selectors sees an object that begins to match as ADDED and one that ceases to match as DELETED. Changes are
read and written in batches, so a burst costs a few writes to the socket, not thousands.
Source: k8s.io/apiserver/pkg/storage/cacher and pkg/endpoints/handlers/watch.go.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import orjson

from dra_operator.testing import errors, schema
from dra_operator.testing.errors import Interceptor
from dra_operator.testing.lists import Test, everything
from dra_operator.testing.registry import Target
from dra_operator.testing.store import ADDED, DELETED, MODIFIED, Change, Store, StoredObject, front

_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch was asked for. `revision` 0 begins with the state, and so does a list as a stream.

    `seconds` is how long it lasts, `bookmark_seconds` how far bookmarks are apart; `cut_after` is the number of events
    after which the stream breaks.
    """

    target: Target
    test: Test
    revision: int
    is_list: bool
    allow_bookmarks: bool
    seconds: float
    bookmark_seconds: float
    cut_after: int | None = None


class WatchBrokenError(Exception):
    """The stream ends in the middle, without a proper end of the answer."""


class Watch:
    """One watch of a store; `stopping` says that the server ends."""

    def __init__(
        self, store: Store, options: WatchOptions, interceptor: Interceptor, stopping: Callable[[], bool]
    ) -> None:
        self._store = store
        self._table = store.table(options.target.resource)
        self._options = options
        self._interceptor = interceptor
        self._left = options.cut_after
        self._stopping = stopping
        self._cuts = interceptor.cuts

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the watch, several events at a time. Raises WatchBrokenError to be cut."""
        history, options = self._table.history, self._options
        position: int | None = history.end
        if options.is_list or not options.revision:
            for chunk in self._kept(self._state()):
                yield chunk
        else:
            position = history.position_after(options.revision)
        loop = asyncio.get_running_loop()
        deadline, next_bookmark = loop.time() + options.seconds, loop.time() + options.bookmark_seconds
        while not self._stopping() and (now := loop.time()) < deadline:
            if self._interceptor.is_cut(options.target.resource.kind, self._cuts):
                raise WatchBrokenError
            stalled = self._interceptor.is_stalled(options.target.resource.kind)
            changes = [] if stalled else None if position is None else history.read(position, _BATCH)
            if changes is None or position is None:
                yield error_line(errors.expired(f"too old resource version: {options.revision}"))
                return
            if changes:
                position += len(changes)
                for chunk in self._kept([line for line in map(self._event, changes) if line]):
                    yield chunk
                continue
            has_bookmarks = options.allow_bookmarks and not stalled
            if has_bookmarks and now >= next_bookmark:
                next_bookmark = now + options.bookmark_seconds
                yield self._bookmark()
                continue
            wake_at = min(deadline, next_bookmark) if has_bookmarks else deadline
            await _rest(history.more(history.end if stalled else position), wake_at - now)

    def _state(self) -> list[bytes]:
        options = self._options
        lines = [
            self._line(ADDED, stored)
            for stored in self._table.in_order(options.target.namespace)
            if options.test(stored.body)
        ]
        if options.is_list and options.allow_bookmarks:
            lines.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
        return lines

    def _kept(self, lines: list[bytes]) -> Iterator[bytes]:
        """Yield the lines as one chunk, or as many as are left before the cut. Raises WatchBrokenError at it."""
        kept = lines if self._left is None else lines[: self._left]
        if kept:
            yield b"".join(kept)
        if self._left is not None:
            self._left -= len(kept)
            if not self._left:
                raise WatchBrokenError

    def _event(self, change: Change) -> bytes:
        """Return the line of one change as a watch with this scope and selector sees it; empty if it does not."""
        options, previous = self._options, change.previous
        namespace = options.target.namespace
        if namespace and change.object.namespace != namespace:
            return b""
        if options.test is everything:
            return self._line(change.type, change.object)
        before = previous is not None and options.test(previous.body)
        after = change.type != DELETED and options.test(change.object.body)
        if after:
            return self._line(MODIFIED if before else ADDED, change.object)
        if not before or previous is None:
            return b""
        # The content that the client knew, at the revision of the change that hid it.
        metadata = {**previous.body["metadata"], "resourceVersion": str(change.revision)}
        hidden = StoredObject(previous.key, {**previous.body, "metadata": metadata}, change.revision)
        return self._line(DELETED, hidden)

    def _line(self, kind: str, stored: StoredObject) -> bytes:
        target = self._options.target
        return _line(kind, stored.encoded(target.resource, target.version))

    def _bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        """Return the line of a bookmark: all changes up to now have been sent."""
        resource, version = self._options.target.resource, self._options.target.version
        metadata = {"resourceVersion": str(self._store.revision)}
        empty = schema.zero(resource.struct(version)) | {
            "metadata": {**metadata, "annotations": annotations} if annotations else metadata
        }
        return _line("BOOKMARK", front(resource, version) + orjson.dumps(empty)[1:])


async def _rest(more: Awaitable[None], seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(more, seconds)


def _line(kind: str, shown: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + shown + b"}\n"


def error_line(error: errors.StatusError) -> bytes:
    """Return the line that ends a watch with a Status."""
    return _line("ERROR", orjson.dumps(error.status()))
