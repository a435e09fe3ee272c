"""Writer: changes into the store, one transaction a batch, with the gaps in which nobody watched.

In a gap only the state at its end is known: what has the uid and resourceVersion that it had at its beginning was there
all the while, anything else ends at the beginning and is found at the end. Source: docs/history.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Table, and_, bindparam, delete, func, insert, select, update

from dra_operator.api.convert import Body
from dra_operator.api.names import ENDED_PHASES
from dra_operator.history.schema import (
    CONTENT,
    FOUND,
    GAP,
    HOLDS,
    META,
    OBJECT,
    RUNS,
    STATE,
    WAIT,
    OtherWriterError,
    digest_of,
    pack,
    split,
    transaction,
)

Key = tuple[str, str, str]
"""Kind, namespace and name."""
_MOST_CONTENTS: Final = 50_000
"""So many contents are known by their hash; of others the store is asked."""


class Change(NamedTuple):
    """An object as it is from a time on, as far as it is kept; None if it is gone."""

    at: int
    key: Key
    uid: str = ""
    version: str = ""
    body: Body | None = None


class WaitChange(NamedTuple):
    """A pod or claim waits since `created`, for a reason, or no more (None); an empty reason is not known yet."""

    at: int
    key: Key
    uid: str
    reason: str | None
    message: str = ""
    created: int = 0


@dataclass(slots=True)
class OpenObject:
    """The rows of an object, of what it is, and of why it waits, as they are stored or will be."""

    row: dict[str, Any]
    state: dict[str, Any] = field(default_factory=dict)
    wait: dict[str, Any] | None = None
    has_waited: bool = False
    """Or had devices: then it does not wait from its creation."""


class _Batch:
    """What one transaction writes: rows by their keys, those that are `new`, and stored ones that changed.

    It covers the time from `first` to `last`, in which nobody watched if it is a gap.
    """

    def __init__(self, connection: Connection, first: int, last: int, *, is_gap: bool) -> None:
        self.connection = connection
        self.first, self.last, self.is_gap = first, last, is_gap
        tables = CONTENT, OBJECT, STATE, WAIT
        self._new, self._changed = ({table: dict[Any, dict[str, Any]]() for table in tables} for _ in "ab")

    def begin(self, table: Table, **row: Any) -> dict[str, Any]:
        """Return a new row; one of the same key takes its place."""
        self._new[table][_key_of(table, row)] = row
        return row

    def change(self, table: Table, row: dict[str, Any]) -> None:
        """Write a row again, of which something has changed."""
        if (key := _key_of(table, row)) not in self._new[table]:
            self._changed[table][key] = row

    def end(self, table: Table, row: dict[str, Any], at: int) -> None:
        """End a state, or a wait; one that ends as it begins was none."""
        row["until"] = at
        if at > row["since"]:
            self.change(table, row)
        else:
            del self._new[table][_key_of(table, row)]

    def end_wait(self, known: OpenObject, at: int) -> None:
        """End the wait of an object, if it waits."""
        if known.wait is not None:
            self.end(WAIT, known.wait, at)
            known.wait = None

    def write(self) -> None:
        """Write it."""
        for table, rows in self._new.items():
            if rows:
                self.connection.execute(insert(table), [*rows.values()])
        for table, rows in self._changed.items():
            if rows:
                is_row = and_(*[column == bindparam(f"_{column.name}") for column in table.primary_key])
                keys = {column.name: f"_{column.name}" for column in table.primary_key}
                values = [{keys.get(name, name): row[name] for name in row} for row in rows.values()]
                self.connection.execute(update(table).where(is_row), values)
        if self.is_gap and self.last > self.first:
            self.connection.execute(insert(GAP).values(since=self.first, until=self.last))


def _key_of(table: Table, row: dict[str, Any]) -> Any:
    return (row["object"], row["since"]) if table in (STATE, WAIT) else row["id"]


class Writer:
    """The one who writes to a store. `covered` is None before the first commit; `open` is what there is."""

    def __init__(self, engine: Engine) -> None:
        self.url = str(engine.url)
        """Where to, without a password."""
        self._engine = engine
        self.covered: int | None = None
        self.open: dict[Key, OpenObject] = {}
        self._contents: dict[bytes, int] = {}
        with transaction(engine) as connection:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        """Read the last state that is stored."""
        covered = connection.scalar(select(META.c.value).where(META.c.key == "covered"))
        self.covered = None if covered is None else int(covered)
        self._next = {
            table: (connection.scalar(select(func.max(table.c.id))) or 0) + 1 for table in (OBJECT, CONTENT)
        }
        self._contents.clear()
        self.open.clear()
        is_open = STATE.c.until.is_(None)
        found = connection.execute(select(STATE).where(is_open)).mappings()
        states = {row["object"]: dict(row) for row in found}
        numbers, by_id = select(STATE.c.object).where(is_open), dict[int, OpenObject]()
        for row in connection.execute(select(OBJECT).where(OBJECT.c.id.in_(numbers))).mappings():
            state = states[row["id"]]
            known = OpenObject(dict(row), state, has_waited=bool(state["flags"] & HOLDS))
            by_id[row["id"]] = self.open[row["kind"], row["namespace"], row["name"]] = known
        for row in connection.execute(select(WAIT).where(WAIT.c.object.in_(numbers))).mappings():
            known = by_id[row["object"]]
            known.has_waited = True
            if row["until"] is None:
                known.wait = dict(row)
        self._is_stale = False

    def commit(self, changes: Iterable[Change | WaitChange], covered: int, *, is_gap: bool = False) -> int:
        """Store changes in their order, and up to when the record is complete; return for how long it is not.

        With `is_gap` nobody watched since what was covered before. Raises StoreError if nothing of it could be stored.
        """
        if len(self._contents) >= _MOST_CONTENTS:
            self._contents.clear()
        with transaction(self._engine) as connection:
            if self._is_stale:
                self._read(connection)
            # What is known is ahead of the store if this fails.
            self._is_stale = True
            before = self.covered
            first, is_gap = (0, False) if before is None else (before + 1, is_gap)
            batch = _Batch(connection, first, covered, is_gap=is_gap)
            for change in changes:
                at = covered if is_gap else max(min(change.at, covered), first)
                if isinstance(change, Change):
                    self._apply(batch, change, at)
                else:
                    self._apply_wait(batch, change, at)
            batch.write()
            if before is None:
                both = [{"key": key, "value": str(covered)} for key in ("begin", "covered")]
                connection.execute(insert(META), both)
            else:
                is_ours = (META.c.key == "covered") & (META.c.value == str(before))
                if connection.execute(update(META).where(is_ours).values(value=str(covered))).rowcount != 1:
                    raise OtherWriterError("another process writes to the store: end one of them")
        self.covered, self._is_stale = covered, False
        return covered - first if is_gap else 0

    def _apply(self, batch: _Batch, change: Change, at: int) -> None:
        known, end = self.open.get(change.key), batch.first if batch.is_gap else at
        if known is not None and (change.body is None or known.row["uid"] != change.uid):
            batch.end(STATE, known.state, end)
            batch.end_wait(known, end)
            del self.open[change.key]
            known = None
        if change.body is None or (known and change.version and known.row["version"] == change.version):
            return
        content, own = (pack(each) for each in split(change.body))
        place, is_found = self._find_content(batch, content), batch.is_gap or not batch.first
        if known is None:
            kind, namespace, name = change.key
            names = {"kind": kind, "namespace": namespace, "name": name, "uid": change.uid}
            row = batch.begin(OBJECT, id=self._take_id(OBJECT), **names, version=change.version)
            known = self.open[change.key] = OpenObject(row)
        else:
            known.row["version"] = change.version
            batch.change(OBJECT, known.row)
            if (known.state["content"], known.state["own"]) == (place, own) and not is_found:
                return
            batch.end(STATE, known.state, end)
            if batch.is_gap:
                batch.end_wait(known, end)
        flags = _flags_of(change.body)
        known.has_waited |= bool(flags & HOLDS)
        told = {"content": place, "own": own, "flags": FOUND * is_found | flags}
        known.state = batch.begin(STATE, object=known.row["id"], since=at, until=None, **told)

    def _apply_wait(self, batch: _Batch, change: WaitChange, at: int) -> None:
        known, reason = self.open.get(change.key), change.reason
        if known is None or known.row["uid"] != change.uid:
            return
        message = self._find_content(batch, pack(change.message))
        if (wait := known.wait) is not None:
            if reason in ("", wait["reason"]) and (not change.message or message == wait["message"]):
                return
            if reason is not None and wait["reason"] in ("", reason):
                # The first reason that is found holds from the beginning, and the last text of one is kept.
                wait |= {"reason": reason, "message": message}
                batch.change(WAIT, wait)
                return
            batch.end_wait(known, at)
        elif not known.has_waited:
            at = min(change.created or at, at)
        if reason is not None:
            told = {"reason": reason, "message": message}
            known.wait = batch.begin(WAIT, object=known.row["id"], since=at, until=None, **told)
            known.has_waited = True

    def _take_id(self, table: Table) -> int:
        self._next[table] += 1
        return self._next[table] - 1

    def _find_content(self, batch: _Batch, data: bytes) -> int:
        digest = digest_of(data)
        if (known := self._contents.get(digest)) is None:
            known = batch.connection.scalar(select(CONTENT.c.id).where(CONTENT.c.digest == digest))
            if known is None:
                known = self._take_id(CONTENT)
                batch.begin(CONTENT, id=known, digest=digest, body=data)
            self._contents[digest] = known
        return known

    def forget(self, before: int) -> None:
        """Take off the store what ended before a time, where the record begins from now on. Raises StoreError."""
        with transaction(self._engine) as connection:
            begin = connection.scalar(select(META.c.value).where(META.c.key == "begin"))
            if begin is None or int(begin) >= before:
                return
            for table in (STATE, WAIT, GAP):
                connection.execute(delete(table).where(table.c.until < before))
            # Each table is read once, on PostgreSQL too, which asks the other one for each row of `NOT IN`.
            for column, users in (
                (OBJECT.c.id, (STATE.c.object, WAIT.c.object)),
                (CONTENT.c.id, (STATE.c.content, WAIT.c.message)),
            ):
                unused = select(column).except_(*map(select, users))
                connection.execute(delete(column.table).where(column.in_(unused)))
            connection.execute(update(META).where(META.c.key == "begin").values(value=str(before)))
        self._contents.clear()


def _flags_of(body: Body) -> int:
    status = body.get("status") or {}
    if body["kind"] == "ResourceClaim":
        return HOLDS if status.get("allocation") else 0
    is_on_node = body["kind"] == "Pod" and (body.get("spec") or {}).get("nodeName")
    return RUNS if is_on_node and status.get("phase") not in ("", None, "Pending", *ENDED_PHASES) else 0
