"""Watches: the state if asked for, then every change, until the client, the clock or a fault ends it.

A watch with selectors sees an object that begins to match as ADDED and one that ceases to match as DELETED. Changes are
read and written in batches, so a burst costs a few writes to the socket, not thousands.
Source: k8s.io/apiserver/pkg/storage/cacher and pkg/endpoints/handlers/watch.go.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import orjson

from dra_operator.sim import errors
from dra_operator.sim.faults import Faults
from dra_operator.sim.history import Change, ChangeType
from dra_operator.sim.lists import check_resource_version_match, parse_revision
from dra_operator.sim.objects import Stored
from dra_operator.sim.registry import Target
from dra_operator.sim.selectors import Test, everything
from dra_operator.sim.store import Store
from dra_operator.sim.views import front

_BATCH = 1_000
_LEAST_STATE_BOOKMARK_SECONDS = 0.05
INITIAL_EVENTS_END = "k8s.io/initial-events-end"

Show = Callable[[Stored], bytes]
"""How an object is shown in the events: itself, or as a Table."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What a watch was asked for. `seconds` is how long it lasts, `bookmark_seconds` how far bookmarks are apart."""

    test: Test = everything
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None
    allow_bookmarks: bool = False
    seconds: float = 1800.0
    bookmark_seconds: float = 60.0


class WatchBrokenError(Exception):
    """The stream ends in the middle, without a proper end of the answer."""


def check(options: WatchOptions) -> None:
    """Refuse options that contradict each other; StatusError 422 or 500."""
    if options.send_initial_events is None:
        check_resource_version_match(options.resource_version, options.resource_version_match)
        if options.resource_version_match:
            raise errors.invalid_list_options(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )
    elif options.resource_version_match != "NotOlderThan":
        raise errors.invalid_list_options(
            "resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        )
    try:
        parse_revision(options.resource_version)
    except errors.StatusError as error:
        raise errors.StatusError(500, "", error.message) from None


async def stream(
    store: Store,
    target: Target,
    options: WatchOptions,
    faults: Faults,
    show: Show,
    *,
    cut_after: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the bytes of a watch, several events at a time.

    `cut_after` is the number of events after which a fault breaks the stream. Raises WatchBrokenError to be cut.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + options.seconds
    history = store.table(target.resource).history
    kind, cuts = target.resource.kind, faults.cuts
    revision = parse_revision(options.resource_version)
    from_state = options.send_initial_events is True or (
        options.send_initial_events is None and revision == 0
    )
    position = history.end if from_state or (options.send_initial_events is False and not revision) else None
    if position is None:
        position = history.position_after(revision)
    if position is None:
        yield error_line(errors.expired_watch(revision, history.forgotten))
        return
    sent = 0
    at = store.revision
    if from_state:
        state = [s for s in store.table(target.resource).in_order(target.namespace) if options.test(s.body)]
        lines = [_line(ChangeType.ADDED, show(stored)) for stored in state]
        if options.send_initial_events and options.allow_bookmarks:
            lines.append(bookmark(target, at, initial_events_end=True))
        if cut_after is not None and len(lines) >= cut_after:
            yield b"".join(lines[:cut_after])
            raise WatchBrokenError
        sent = len(lines)
        if lines:
            yield b"".join(lines)
    next_bookmark = loop.time() + options.bookmark_seconds
    while True:
        now = loop.time()
        if faults.is_cut(kind, cuts):
            raise WatchBrokenError
        if now >= deadline:
            return
        stalled = faults.is_stalled(kind)
        changes = [] if stalled else history.read(position, _BATCH)
        if changes is None:
            yield error_line(errors.expired_watch(revision, history.forgotten))
            return
        if changes:
            position += len(changes)
            revision = changes[-1].revision
            lines = [line for change in changes if (line := event_line(change, target, options.test, show))]
            if cut_after is not None and sent + len(lines) >= cut_after:
                yield b"".join(lines[: cut_after - sent])
                raise WatchBrokenError
            sent += len(lines)
            if lines:
                yield b"".join(lines)
            continue
        if options.allow_bookmarks and not stalled and now >= next_bookmark:
            next_bookmark = now + options.bookmark_seconds
            yield bookmark(target, store.revision)
            continue
        wake_at = min(deadline, next_bookmark if options.allow_bookmarks else deadline)
        await _rest(history.end if stalled else position, history.more, max(wake_at - now, 0.0))


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
    if before:
        # What the client knew of it, at the revision of the change.
        return _line(ChangeType.DELETED, show(change.object))
    return b""


def _line(kind: ChangeType, shown: bytes) -> bytes:
    return b'{"type":"' + kind.value.encode() + b'","object":' + shown + b"}\n"


def error_line(error: errors.StatusError) -> bytes:
    """Return the line that ends a watch with a Status."""
    return b'{"type":"ERROR","object":' + orjson.dumps(error.status()) + b"}\n"


def bookmark(target: Target, revision: int, *, initial_events_end: bool = False) -> bytes:
    """Return the line of a bookmark: all changes up to this revision have been sent."""
    metadata: dict[str, object] = {"resourceVersion": str(revision)}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    shown = front(target.resource, target.version) + orjson.dumps({"metadata": metadata})[1:]
    return b'{"type":"BOOKMARK","object":' + shown + b"}\n"
