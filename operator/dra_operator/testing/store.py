"""The store: objects in the shape of one version, the history that watches read, and what other versions show.

What a client sends or gets in another shape is converted at the edge; Events are stored as core/v1.
Source: pkg/apis/core/v1 and pkg/apis/events/v1 conversion of Kubernetes.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from dra_operator.api import convert
from dra_operator.testing import schema
from dra_operator.testing.discovery import Resource

Body = Mapping[str, Any]

_EVENT_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
# v1beta2 has the shape of v1, and so has the v1alpha3 of DeviceTaintRule, the only kind served in it.
_OTHER_SHAPES = frozenset({"v1beta1"})
_CORE_EVENT_NAMES = {core: name for name, core in _EVENT_NAMES.items()}


def to_stored(body: Body, resource: Resource, version: str) -> dict[str, Any]:
    """Return a body of a served version in the shape of the store, without kind and apiVersion."""
    if resource.group == "events.k8s.io":
        named = {_EVENT_NAMES.get(name, name): value for name, value in body.items()}
        body = schema.decode(named, "core/v1.Event")[0]
    elif version in _OTHER_SHAPES:
        # Conversion leaves empty fields that Go hides.
        converted = convert.to_v1(body, kind=resource.kind, version=version)
        body = schema.decode(converted, resource.struct("v1"))[0]
    return {name: value for name, value in body.items() if name not in ("kind", "apiVersion")}


def _from_stored(body: Body, resource: Resource, version: str) -> Body:
    """Return a stored body in the shape of a served version; kind and apiVersion are left to the caller."""
    if resource.group == "events.k8s.io":
        body = {_CORE_EVENT_NAMES.get(name, name): value for name, value in body.items()}
    elif version in _OTHER_SHAPES:
        body = convert.from_v1(body, version, kind=resource.kind)
    else:
        return body
    return schema.decode(body, resource.struct(version))[0]


def front(resource: Resource, version: str) -> bytes:
    """Return how the JSON of an object of a kind begins."""
    return f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version(version)}",'.encode()


def encode(body: Body, resource: Resource, version: str) -> bytes:
    """Return the JSON of a stored body in a version, kind and apiVersion first."""
    shown = _from_stored(body, resource, version)
    return front(resource, version) + orjson.dumps(shown)[1:]


def wire_body(body: Body, resource: Resource, version: str) -> dict[str, Any]:
    """Return a fresh, changeable copy of a stored body in a version, with kind and apiVersion."""
    copy: dict[str, Any] = orjson.loads(encode(body, resource, version))
    return copy


class StoredObject:
    """One version of one object; `revision` is its resourceVersion as a number. Never changed once made."""

    __slots__ = ("_encoded", "body", "key", "revision")

    def __init__(self, key: str, body: Body, revision: int) -> None:
        self.key = key
        self.body = body
        self.revision = revision
        self._encoded: dict[tuple[str, str], bytes] = {}

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The object's namespace, empty for a cluster-scoped kind."""
        return str(self.body["metadata"].get("namespace", ""))

    def encoded(self, resource: Resource, version: str) -> bytes:
        """Return the object's JSON in a version of a kind, kind and apiVersion first."""
        view = (resource.group, version)
        found = self._encoded.get(view)
        if found is None:
            found = encode(self.body, resource, version)
            self._encoded[view] = found
        return found

    def list_item(self, resource: Resource, version: str) -> bytes:
        """Return the object's JSON as an item of a list, without kind and apiVersion."""
        return b"{" + self.encoded(resource, version)[len(front(resource, version)) :]


ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
"""What happened, in the wire's words."""


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the object after it (for a deletion: its last state, at the deletion's revision) and before."""

    type: str
    object: StoredObject
    previous: StoredObject | None

    @property
    def revision(self) -> int:
        """The resourceVersion of the write."""
        return self.object.revision


def key_of(namespace: str, name: str) -> str:
    """Return the key of an object; keys sort as the real store's do (by bytes, "/" between namespace and name)."""
    return f"{namespace}/{name}" if namespace else name


class Table:
    """The objects of one kind, in the order of their keys, and their last changes.

    Of these there are at least `capacity`, and at most twice as many.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.forgotten = 0
        """The newest revision that watches can no longer ask for what came after."""
        self.objects: dict[str, StoredObject] = {}
        self._keys: list[str] = []
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

    def put(self, stored: StoredObject) -> None:
        """Insert or replace."""
        if stored.key not in self.objects:
            if self._keys and stored.key > self._keys[-1]:
                self._keys.append(stored.key)
            else:
                insort(self._keys, stored.key)
        self.objects[stored.key] = stored

    def drop(self, key: str) -> None:
        """Remove an object that is there."""
        del self.objects[key]
        del self._keys[bisect_left(self._keys, key)]

    def in_order(self, namespace: str) -> Iterator[StoredObject]:
        """Yield the objects of a namespace (of all, if empty) by key."""
        if not namespace:
            yield from (self.objects[key] for key in self._keys)
            return
        start = bisect_left(self._keys, f"{namespace}/")
        end = bisect_left(self._keys, f"{namespace}0")  # "0" is the character after "/"
        yield from (self.objects[key] for key in self._keys[start:end])


class Store:
    """All tables and the revision that they share. `history` is how many changes a kind remembers at least."""

    def __init__(self, *, history: int = 16_384) -> None:
        self.revision = 1
        self._history = history
        self._tables: dict[str, Table] = {}

    def table(self, resource: Resource) -> Table:
        """Return the table of a kind."""
        table = self._tables.get(resource.storage_key)
        if table is None:
            table = self._tables[resource.storage_key] = Table(self._history)
        return table

    def wake(self) -> None:
        """Let open watches look again at what there is, and whether they are to end."""
        for table in self._tables.values():
            table.wake()

    def get(self, resource: Resource, namespace: str, name: str) -> StoredObject | None:
        """Return an object, or None."""
        return self.table(resource).objects.get(key_of(namespace, name))

    def put(self, resource: Resource, body: dict[str, Any]) -> StoredObject:
        """Insert or replace an object: give it the next resourceVersion, remember the change, tell the watches."""
        table = self.table(resource)
        metadata = body["metadata"]
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        stored = StoredObject(key, body, self.revision)
        previous = table.objects.get(key)
        table.put(stored)
        kind = MODIFIED if previous else ADDED
        table.append(Change(kind, stored, previous))
        return stored

    def remove(
        self, resource: Resource, stored: StoredObject, last: Mapping[str, Any] | None = None
    ) -> StoredObject:
        """Remove an object and return its last state, at the revision of the deletion.

        `last` is that state where the same request changed it (the removal of the last finalizer).
        """
        table = self.table(resource)
        table.drop(stored.key)
        self.revision += 1
        body = dict(last if last is not None else stored.body)
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.revision)}
        gone = StoredObject(stored.key, body, self.revision)
        table.append(Change(DELETED, gone, stored))
        return gone

    def forget_history(self) -> None:
        """Forget every change so far: a watch from any earlier resourceVersion gets 410."""
        for table in self._tables.values():
            table.forget(self.revision)
