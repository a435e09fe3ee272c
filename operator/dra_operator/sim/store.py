"""The objects, by kind and key, with one counter that numbers every write.

Only here do revisions grow and changes enter the history, so list, watch and conflict detection can never disagree.
Bodies handed in belong to the store from then on. Everything is synchronous: between two awaits of a caller nothing
else can write.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import Any

from dra_operator.sim.history import Change, ChangeType, History
from dra_operator.sim.objects import Stored
from dra_operator.sim.resources import Resource


def key_of(namespace: str, name: str) -> str:
    """Return the key of an object; keys sort as the real store's do (by bytes, "/" between namespace and name)."""
    return f"{namespace}/{name}" if namespace else name


class Table:
    """The objects of one kind, in the order of their keys, and their history."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.objects: dict[str, Stored] = {}
        self._keys: list[str] = []

    def put(self, stored: Stored) -> None:
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

    def in_order(self, namespace: str) -> Iterator[Stored]:
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
            table = self._tables[resource.storage_key] = Table(History(self._history))
        return table

    def tables(self) -> Mapping[str, Table]:
        """Return the tables that exist, by storage key."""
        return self._tables

    def get(self, resource: Resource, namespace: str, name: str) -> Stored | None:
        """Return an object, or None."""
        return self.table(resource).objects.get(key_of(namespace, name))

    def put(self, resource: Resource, body: dict[str, Any]) -> Stored:
        """Insert or replace an object: give it the next resourceVersion, remember the change, tell the watches."""
        table = self.table(resource)
        metadata = body["metadata"]
        key = key_of(metadata.get("namespace", ""), metadata["name"])
        self.revision += 1
        metadata["resourceVersion"] = str(self.revision)
        stored = Stored(key, body, self.revision)
        previous = table.objects.get(key)
        table.put(stored)
        kind = ChangeType.MODIFIED if previous else ChangeType.ADDED
        table.history.append(Change(kind, stored, previous))
        return stored

    def remove(self, resource: Resource, stored: Stored, last: Mapping[str, Any] | None = None) -> Stored:
        """Remove an object and return its last state, at the revision of the deletion.

        `last` is that state where the same request changed it (the removal of the last finalizer).
        """
        table = self.table(resource)
        table.drop(stored.key)
        self.revision += 1
        body = dict(last if last is not None else stored.body)
        body["metadata"] = {**body["metadata"], "resourceVersion": str(self.revision)}
        gone = Stored(stored.key, body, self.revision)
        table.history.append(Change(ChangeType.DELETED, gone, stored))
        return gone

    def forget_history(self) -> None:
        """Forget every change so far: a watch from any earlier resourceVersion gets 410."""
        for table in self._tables.values():
            table.history.forget(self.revision)
