"""Lists: what the selectors of a list or watch select, in pages that all show one moment.

The pages of a list come from the objects that were there at the first: references to immutable objects, so it costs a
list of pointers. A continue token whose list is gone gets 410, as after a compaction.
Source: k8s.io/apimachinery/pkg/labels and pkg/fields; k8s.io/apiserver/pkg/storage/etcd3.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import orjson

from dra_operator.api.node_selector import labels_test
from dra_operator.testing import errors, schema
from dra_operator.testing.discovery import Resource
from dra_operator.testing.errors import Interceptor
from dra_operator.testing.registry import Target
from dra_operator.testing.store import ADDED, DELETED, MODIFIED, Change, Store, StoredObject, Table, front

Test = Callable[[Mapping[str, Any]], bool]
_KEPT: Final = 64
_KEPT_SECONDS: Final = 300.0


def everything(_body: Mapping[str, Any]) -> bool:
    """The test that every object passes."""
    return True


def parse_labels(text: str) -> Test:
    """Return the test for a label selector. Raises StatusError (400) if the text is none."""
    try:
        return labels_test(text) or everything
    except ValueError as error:
        raise errors.bad_request(f"unable to parse requirement: {error}") from None


def parse_fields(text: str, resource: Resource) -> Test:
    """Return the test for a field selector such as `spec.nodeName=node-1,status.phase!=Failed`.

    Raises StatusError (400) if the text is no selector or names a field that the kind does not offer.
    """
    terms = [_field_term(term, resource) for term in text.split(",") if term]
    if not terms:
        return everything
    return lambda body: all((_text_at(body, path) == value) == equal for path, equal, value in terms)


def _field_term(term: str, resource: Resource) -> tuple[tuple[str, ...], bool, str]:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        name, found, value = term.partition(operator)
        if found and name in resource.fields:
            return resource.fields[name], equal, value
        if found:
            raise errors.bad_request(f"field label not supported: {name}")
    raise errors.bad_request(f"invalid selector: can't understand '{term}'")


def _text_at(body: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = body
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        # A node that was never cordoned has unschedulable=false; other absent fields are empty text.
        return "false" if path == ("spec", "unschedulable") else ""
    return str(value)


def both(first: Test, second: Test) -> Test:
    """Return the test that an object passes if it passes both."""
    if everything in (first, second):
        return second if first is everything else first
    return lambda body: first(body) and second(body)


@dataclass(frozen=True, slots=True)
class Page:
    """A list or a part of one, at a revision; `remaining` is how many follow, where that is said."""

    items: tuple[StoredObject, ...]
    revision: int
    continue_token: str = ""
    remaining: int = 0

    def metadata(self) -> dict[str, Any]:
        """Return the ListMeta."""
        metadata: dict[str, Any] = {"resourceVersion": str(self.revision)}
        if self.continue_token:
            metadata["continue"] = self.continue_token
        if self.remaining:
            metadata["remainingItemCount"] = self.remaining
        return metadata


@dataclass(frozen=True, slots=True)
class _Listed:
    """All that a list selects, at a revision; `is_counted` unless a selector chose it."""

    items: tuple[StoredObject, ...]
    revision: int
    taken: float
    is_counted: bool


class Lists:
    """Answers lists of a store. `monotonic` returns seconds; lists older than five minutes are gone."""

    def __init__(self, store: Store, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._kept: OrderedDict[str, _Listed] = OrderedDict()
        self._made = 0

    def expire(self) -> None:
        """Forget all lists: every continue token given out so far gets 410."""
        self._kept.clear()

    def first(self, resource: Resource, namespace: str, test: Test = everything, limit: int = 0) -> Page:
        """Return the first page of a list, with all objects where `limit` is 0."""
        items = tuple(
            stored
            for stored in self._store.table(resource).in_order(namespace)
            if test is everything or test(stored.body)
        )
        listed = _Listed(items, self._store.revision, self._monotonic(), test is everything)
        self._made += 1
        return self._page(str(self._made), listed, 0, limit)

    def following(self, token: str, limit: int) -> Page:
        """Return the page at a continue token; StatusError 400 or 410 if there is none."""
        name, _, start = token.partition(".")
        if not name.isdecimal() or not start.isdecimal():
            raise errors.bad_request("invalid continue token: continue key is not valid")
        listed = self._kept.get(name)
        if listed is None or self._monotonic() - listed.taken > _KEPT_SECONDS:
            raise errors.expired("the continue parameter is too old: start a new list without it")
        return self._page(name, listed, int(start), limit)

    def _page(self, name: str, listed: _Listed, start: int, limit: int) -> Page:
        end = start + limit if limit else len(listed.items)
        left = max(len(listed.items) - end, 0)
        if left:
            self._kept[name] = listed
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return Page(
            listed.items[start:end],
            listed.revision,
            f"{name}.{end}" if left else "",
            left if listed.is_counted else 0,
        )


# --- Watches: the state if asked for, then every change, until the client, the clock or a fault ends it.
# A watch with selectors sees an object that begins to match as ADDED and one that ceases to match as DELETED. Changes
# are read and written in batches, so a burst costs a few writes to the socket, not thousands. Source:
# k8s.io/apiserver/pkg/storage/cacher and pkg/endpoints/handlers/watch.go.


_BATCH: Final = 1_000


class WatchBrokenError(Exception):
    """The stream ends in the middle, without a proper end of the answer."""


@dataclass(slots=True)
class Watch:
    """One watch of a store. `revision` 0 begins with the state, and so does a list as a stream.

    `seconds` is how long it lasts, `bookmark_seconds` how far bookmarks are apart; `left` is the number of events after
    which the stream breaks. `cuts` is how often watches were cut before; `stopping` says that the server ends.
    """

    store: Store
    target: Target
    test: Test
    revision: int
    is_list: bool
    allow_bookmarks: bool
    seconds: float
    bookmark_seconds: float
    left: int | None
    interceptor: Interceptor
    cuts: int
    stopping: Callable[[], bool]

    @property
    def table(self) -> Table:
        """The objects that are watched."""
        return self.store.table(self.target.resource)

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of the watch, several events at a time. Raises WatchBrokenError to be cut."""
        table, kind = self.table, self.target.resource.kind
        position: int | None = table.end
        if self.is_list or not self.revision:
            for chunk in self._kept(self._state()):
                yield chunk
        else:
            position = table.position_after(self.revision)
        loop = asyncio.get_running_loop()
        deadline, next_bookmark = loop.time() + self.seconds, loop.time() + self.bookmark_seconds
        while not self.stopping() and (now := loop.time()) < deadline:
            if self.interceptor.is_cut(kind, self.cuts):
                raise WatchBrokenError
            stalled = self.interceptor.is_stalled(kind)
            changes = [] if stalled else None if position is None else table.read(position, _BATCH)
            if changes is None or position is None:
                yield error_line(errors.expired(f"too old resource version: {self.revision}"))
                return
            if changes:
                position += len(changes)
                for chunk in self._kept([line for line in map(self._event, changes) if line]):
                    yield chunk
                continue
            has_bookmarks = self.allow_bookmarks and not stalled
            if has_bookmarks and now >= next_bookmark:
                next_bookmark = now + self.bookmark_seconds
                yield self._bookmark()
                continue
            wake_at = min(deadline, next_bookmark) if has_bookmarks else deadline
            await _rest(table.more(table.end if stalled else position), wake_at - now)

    def _state(self) -> list[bytes]:
        lines = [
            self._line(ADDED, stored)
            for stored in self.table.in_order(self.target.namespace)
            if self.test(stored.body)
        ]
        if self.is_list and self.allow_bookmarks:
            lines.append(self._bookmark({"k8s.io/initial-events-end": "true"}))
        return lines

    def _kept(self, lines: list[bytes]) -> Iterator[bytes]:
        """Yield the lines as one chunk, or as many as are left before the cut. Raises WatchBrokenError at it."""
        kept = lines if self.left is None else lines[: self.left]
        if kept:
            yield b"".join(kept)
        if self.left is not None:
            self.left -= len(kept)
            if not self.left:
                raise WatchBrokenError

    def _event(self, change: Change) -> bytes:
        """Return the line of one change as a watch with this scope and selector sees it; empty if it does not."""
        previous = change.previous
        namespace = self.target.namespace
        if namespace and change.object.namespace != namespace:
            return b""
        if self.test is everything:
            return self._line(change.type, change.object)
        before = previous is not None and self.test(previous.body)
        after = change.type != DELETED and self.test(change.object.body)
        if after:
            return self._line(MODIFIED if before else ADDED, change.object)
        if not before or previous is None:
            return b""
        # The content that the client knew, at the revision of the change that hid it.
        metadata = {**previous.body["metadata"], "resourceVersion": str(change.revision)}
        hidden = StoredObject(previous.key, {**previous.body, "metadata": metadata}, change.revision)
        return self._line(DELETED, hidden)

    def _line(self, kind: str, stored: StoredObject) -> bytes:
        target = self.target
        return _line(kind, stored.encoded(target.resource, target.version))

    def _bookmark(self, annotations: Mapping[str, str] | None = None) -> bytes:
        """Return the line of a bookmark: all changes up to now have been sent."""
        resource, version = self.target.resource, self.target.version
        metadata = {"resourceVersion": str(self.store.revision)}
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
