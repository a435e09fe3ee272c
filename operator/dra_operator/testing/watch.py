"""Watches: the state if asked for, then every change, until the client, the clock or a fault ends it.

A watch with selectors sees an object that begins to match as ADDED and one that ceases to match as DELETED. Changes are
read and written in batches, so a burst costs a few writes to the socket, not thousands.
Source: k8s.io/apiserver/pkg/storage/cacher and pkg/endpoints/handlers/watch.go.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass

import orjson

from dra_operator.testing import errors, schema
from dra_operator.testing.interceptor import Interceptor
from dra_operator.testing.lists import check_resource_version_match, parse_revision
from dra_operator.testing.registry import Target
from dra_operator.testing.selectors import Test, everything
from dra_operator.testing.store import Change, ChangeType, Store, StoredObject, front

_BATCH = 1_000
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Show = Callable[[StoredObject], bytes]
"""How an object is shown in the events: itself, or as a Table."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch was asked for. `seconds` is how long it lasts, `bookmark_seconds` how far bookmarks are apart."""

    test: Test
    resource_version: str
    resource_version_match: str
    send_initial_events: bool | None
    allow_bookmarks: bool
    seconds: float
    bookmark_seconds: float


class WatchBrokenError(Exception):
    """The stream ends in the middle, without a proper end of the answer."""


def check(options: WatchOptions) -> None:
    """Refuse options that contradict each other; StatusError 422 or 500."""
    if options.send_initial_events is None:
        check_resource_version_match(options.resource_version, options.resource_version_match)
        if options.resource_version_match:
            raise errors.invalid_version_match(
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
    elif options.resource_version_match != "NotOlderThan":
        raise errors.invalid_version_match(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    try:
        parse_revision(options.resource_version)
    except errors.StatusError as error:
        raise errors.StatusError(500, "", error.message) from None


class Watch:
    """One watch of a store.

    `cut_after` is the number of events after which the stream breaks; `stopping` says that the server ends.
    """

    def __init__(
        self,
        store: Store,
        target: Target,
        options: WatchOptions,
        interceptor: Interceptor,
        show: Show,
        *,
        cut_after: int | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._table = store.table(target.resource)
        self._target = target
        self._options = options
        self._interceptor = interceptor
        self._show = show
        self._left = cut_after
        self._stopping = stopping
        self._cuts = interceptor.cuts
        self._revision = parse_revision(options.resource_version)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the watch, several events at a time. Raises WatchBrokenError to be cut."""
        history, options = self._table.history, self._options
        position = self._start()
        if position is None:
            yield self._expired()
            return
        if self._from_state:
            async for chunk in self._sent(self._state()):
                yield chunk
        loop = asyncio.get_running_loop()
        deadline, next_bookmark = loop.time() + options.seconds, loop.time() + options.bookmark_seconds
        while not self._stopping() and (now := loop.time()) < deadline:
            if self._interceptor.is_cut(self._target.resource.kind, self._cuts):
                raise WatchBrokenError
            stalled = self._interceptor.is_stalled(self._target.resource.kind)
            changes = [] if stalled else history.read(position, _BATCH)
            if changes is None:
                yield self._expired()
                return
            if changes:
                position += len(changes)
                self._revision = changes[-1].revision
                lines = (event_line(change, self._target, options.test, self._show) for change in changes)
                async for chunk in self._sent([line for line in lines if line]):
                    yield chunk
                continue
            if options.allow_bookmarks and not stalled and now >= next_bookmark:
                next_bookmark = now + options.bookmark_seconds
                yield bookmark(self._target, self._store.revision)
                continue
            wake_at = min(deadline, next_bookmark) if options.allow_bookmarks and not stalled else deadline
            await _rest(history.end if stalled else position, history.more, wake_at - now)

    @property
    def _from_state(self) -> bool:
        asked = self._options.send_initial_events
        return self._revision == 0 if asked is None else asked

    def _start(self) -> int | None:
        """Return where in the history the watch begins, or None if that is forgotten."""
        history = self._table.history
        if self._from_state or self._revision == 0:
            return history.end
        return history.position_after(self._revision)

    def _state(self) -> list[bytes]:
        options = self._options
        objects = self._table.in_order(self._target.namespace)
        lines = [
            _line(ChangeType.ADDED, self._show(stored)) for stored in objects if options.test(stored.body)
        ]
        if options.send_initial_events and options.allow_bookmarks:
            lines.append(bookmark(self._target, self._store.revision, {INITIAL_EVENTS_END: "true"}))
        return lines

    async def _sent(self, lines: list[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the lines as one chunk, or as many as are left before the cut."""
        if self._left is None:
            if lines:
                yield b"".join(lines)
            return
        kept, self._left = lines[: self._left], self._left - len(lines)
        if kept:
            yield b"".join(kept)
        if self._left <= 0:
            raise WatchBrokenError

    def _expired(self) -> bytes:
        return error_line(errors.expired_watch(self._revision, self._table.history.forgotten))


async def _rest(position: int, more: Callable[[int], Awaitable[None]], seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await more(position)
    except TimeoutError:
        return


def event_line(change: Change, target: Target, test: Test, show: Show) -> bytes:
    """Return the line of one change as a watch with this scope and selector sees it; empty if it does not."""
    if target.namespace and change.object.namespace != target.namespace:
        return b""
    if test is everything:
        return _line(change.type, show(change.object))
    before = change.previous is not None and test(change.previous.body)
    after = change.type is not ChangeType.DELETED and test(change.object.body)
    if before and after:
        return _line(ChangeType.MODIFIED, show(change.object))
    if after:
        return _line(ChangeType.ADDED, show(change.object))
    if before and change.previous is not None:
        return _line(ChangeType.DELETED, show(_at_revision(change.previous, change.revision)))
    return b""


def _at_revision(stored: StoredObject, revision: int) -> StoredObject:
    """Return an object's content as the client knew it, at the revision of the change that hid it."""
    metadata = {**stored.body["metadata"], "resourceVersion": str(revision)}
    return StoredObject(stored.key, {**stored.body, "metadata": metadata}, revision)


def _line(kind: ChangeType, shown: bytes) -> bytes:
    return b'{"type":"' + kind.value.encode() + b'","object":' + shown + b"}\n"


def error_line(error: errors.StatusError) -> bytes:
    """Return the line that ends a watch with a Status."""
    return b'{"type":"ERROR","object":' + orjson.dumps(error.status()) + b"}\n"


def bookmark(target: Target, revision: int, annotations: Mapping[str, str] | None = None) -> bytes:
    """Return the line of a bookmark: all changes up to this revision have been sent."""
    resource, version = target.resource, target.version
    empty = schema.zero(resource.struct(version))
    empty["metadata"] = {
        "resourceVersion": str(revision),
        **({"annotations": annotations} if annotations else {}),
    }
    return b'{"type":"BOOKMARK","object":' + front(resource, version) + orjson.dumps(empty)[1:] + b"}\n"
