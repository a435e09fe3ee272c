"""Writer: changes into the store, one transaction a batch, with the gaps in which nobody watched.

In a gap only the state at its end is known: what has the uid and resourceVersion that it had at its beginning was there
all the while, anything else ends at the beginning and is found at the end. Source: docs/history.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Table, bindparam, delete, func, insert, select, update

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
class _OpenObject:
    id: int
    uid: str
    version: str = ""
    since: int = 0
    digest: bytes = b""
    """Of content and own fields; empty for what an earlier process wrote."""
    wait: tuple[int, str, str] | None = None
    """Since when it waits, the reason, and its last text."""
    has_waited: bool = False
    """Or had devices: then it does not wait from its creation."""


@dataclass(slots=True)
class _Batch:
    """What one transaction writes; `rows` are those of states and waits that begin, by object and beginning."""

    connection: Connection
    covered: int
    gap: tuple[int, int] | None
    contents: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[int, str] = field(default_factory=dict)
    rows: dict[Table, dict[tuple[int, int], dict[str, Any]]] = field(
        default_factory=lambda: {STATE: {}, WAIT: {}}
    )
    ended: dict[Table, list[dict[str, int]]] = field(default_factory=lambda: {STATE: [], WAIT: []})

    def begin(self, table: Table, number: int, since: int, **values: Any) -> None:
        """Begin a state, or a wait, of an object; one of the same beginning is replaced."""
        self.rows[table][number, since] = {"object": number, "since": since, "until": None, **values}

    def end(self, table: Table, number: int, since: int, at: int) -> None:
        """End a state, or a wait; one that ends as it begins was none."""
        if (row := self.rows[table].get((number, since))) is None:
            self.ended[table].append({"number": number, "start": since, "end": at})
        elif at <= since:
            del self.rows[table][number, since]
        else:
            row["until"] = at

    def end_wait(self, known: _OpenObject, at: int) -> None:
        """End the wait of an object, if it waits."""
        if known.wait is not None:
            self.end(WAIT, known.id, known.wait[0], at)
            known.wait = None

    def write(self) -> None:
        """Write it."""
        run = self.connection.execute
        for table, new in ((CONTENT, self.contents), (OBJECT, self.objects)):
            if new:
                run(insert(table), new)
        if self.versions:
            seen = update(OBJECT).where(OBJECT.c.id == bindparam("number")).values(version=bindparam("seen"))
            run(seen, [{"number": number, "seen": version} for number, version in self.versions.items()])
        for table, rows in self.rows.items():
            is_row = (table.c.object == bindparam("number")) & (table.c.since == bindparam("start"))
            if self.ended[table]:
                run(update(table).where(is_row).values(until=bindparam("end")), self.ended[table])
            if rows and table is WAIT:
                # Those of which reason or text are known by now.
                run(
                    delete(table).where(is_row),
                    [{"number": number, "start": since} for number, since in rows],
                )
            if rows:
                run(insert(table), [*rows.values()])


class Writer:
    """The one who writes to a store. `covered` is None before the first commit; `open` is what there is."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.covered: int | None = None
        self.open: dict[Key, _OpenObject] = {}
        self._contents: dict[bytes, int] = {}
        self.reload()

    def reload(self) -> None:
        """Read the last state that is stored, as after a commit that failed. Raises StoreError."""
        with transaction(self._engine) as connection:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        covered = connection.scalar(select(META.c.value).where(META.c.key == "covered"))
        self.covered = None if covered is None else int(covered)
        self._next = {
            table: (connection.scalar(select(func.max(table.c.id))) or 0) + 1 for table in (OBJECT, CONTENT)
        }
        self._contents.clear()
        self.open.clear()
        found = select(OBJECT, STATE.c.since, STATE.c.flags).join(STATE, STATE.c.object == OBJECT.c.id)
        by_id = {}
        for row in connection.execute(found.where(STATE.c.until.is_(None))):
            known = _OpenObject(row.id, row.uid, row.version, row.since, has_waited=bool(row.flags & HOLDS))
            by_id[row.id] = self.open[row.kind, row.namespace, row.name] = known
        for row in connection.execute(select(WAIT.c.object, WAIT.c.since, WAIT.c.until, WAIT.c.reason)):
            if (waiting := by_id.get(row.object)) is not None:
                waiting.has_waited = True
                if row.until is None:
                    waiting.wait = row.since, row.reason, ""

    def commit(
        self, changes: Iterable[Change | WaitChange], covered: int, gap: tuple[int, int] | None = None
    ) -> None:
        """Store changes in their order, and that the record is complete up to a time but for a gap, if there was one.

        Raises StoreError if they could not be stored; then nothing of them is, and `reload` must be called.
        """
        if len(self._contents) >= _MOST_CONTENTS:
            self._contents.clear()
        with transaction(self._engine) as connection:
            batch = _Batch(connection, covered, gap)
            for change in changes:
                if isinstance(change, Change):
                    self._apply(batch, change)
                else:
                    self._apply_wait(batch, change)
            batch.write()
            if gap is not None and gap[1] > gap[0]:
                connection.execute(insert(GAP).values(since=gap[0], until=gap[1]))
            if self.covered is None:
                both = [{"key": key, "value": str(covered)} for key in ("begin", "covered")]
                connection.execute(insert(META), both)
            else:
                is_ours = (META.c.key == "covered") & (META.c.value == str(self.covered))
                if connection.execute(update(META).where(is_ours).values(value=str(covered))).rowcount != 1:
                    raise OtherWriterError("another process writes to the store: end one of them")
        self.covered = covered

    def _apply(self, batch: _Batch, change: Change) -> None:
        known, at = self.open.get(change.key), self._time_of(batch, change)
        end = at if batch.gap is None else batch.gap[0]
        is_found = batch.gap is not None or self.covered is None
        is_same = known is not None and known.uid == change.uid
        if known is not None and (change.body is None or not is_same):
            batch.end(STATE, known.id, known.since, end)
            batch.end_wait(known, end)
            del self.open[change.key]
        if change.body is None:
            return
        if known is not None and is_same and change.version and known.version == change.version:
            return
        content, own = (pack(each) for each in split(change.body))
        digest, flags = digest_of(content + own), _flags_of(change.body)
        if known is None or not is_same:
            known = self.open[change.key] = _OpenObject(self._take_id(OBJECT), change.uid)
            names = dict(zip(("kind", "namespace", "name"), change.key, strict=True))
            batch.objects.append({"id": known.id, **names, "uid": change.uid, "version": change.version})
        else:
            known.version = batch.versions[known.id] = change.version
            if known.digest == digest and not is_found:
                return
            batch.end(STATE, known.id, known.since, end)
            if batch.gap is not None:
                batch.end_wait(known, end)
        known.version, known.since, known.digest = change.version, at, digest
        known.has_waited |= bool(flags & HOLDS)
        place = self._find_content(batch, content)
        batch.begin(STATE, known.id, at, content=place, own=own, flags=FOUND * is_found | flags)

    def _time_of(self, batch: _Batch, change: Change | WaitChange) -> int:
        """Return when a change counts: within what is covered now and was not before, and at the end of a gap."""
        if batch.gap is not None:
            return batch.gap[1]
        return max(min(change.at, batch.covered), (self.covered or -1) + 1)

    def _apply_wait(self, batch: _Batch, change: WaitChange) -> None:
        known, reason = self.open.get(change.key), change.reason
        if known is None or known.uid != change.uid:
            return
        at = self._time_of(batch, change)
        if known.wait is not None:
            since, before, message = known.wait
            if reason in ("", before) and change.message in ("", message):
                return
            if reason is not None and before in ("", reason):
                # The first reason that is found holds from the beginning, and the last text of one is kept.
                at = since
            else:
                batch.end_wait(known, at)
        elif not known.has_waited:
            at = min(change.created or at, at)
        if reason is None:
            return
        text = self._find_content(batch, pack(change.message))
        known.wait, known.has_waited = (at, reason, change.message), True
        batch.begin(WAIT, known.id, at, reason=reason, message=text)

    def _take_id(self, table: Table) -> int:
        self._next[table] += 1
        return self._next[table] - 1

    def _find_content(self, batch: _Batch, data: bytes) -> int:
        digest = digest_of(data)
        if (known := self._contents.get(digest)) is None:
            known = batch.connection.scalar(select(CONTENT.c.id).where(CONTENT.c.digest == digest))
            if known is None:
                known = self._take_id(CONTENT)
                batch.contents.append({"id": known, "digest": digest, "body": data})
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
