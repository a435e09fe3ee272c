"""Writer: changes into the store, one transaction a batch, with the gaps in which nobody watched.

In a gap only the state at its end is known: what has the uid and resourceVersion that it had at its beginning was there
all the while, anything else ends at the beginning and is found at the end. Source: docs/history.md.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, bindparam, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from dra_operator.api.convert import Body
from dra_operator.api.names import ENDED_PHASES
from dra_operator.history.schema import (
    CONTENT,
    FOUND,
    GAP,
    HOLDS,
    META,
    OBJECT,
    POD_SHAPE,
    POD_SUM,
    RUNS,
    STATE,
    WAIT,
    OtherWriterError,
    StoreError,
    digest_of,
    pack,
    split,
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
    version: str
    since: int
    digest: bytes
    """Of content and own fields; empty for what an earlier process wrote."""
    wait: tuple[int, str, str] | None = None
    """Since when it waits, the reason, and its last text."""
    has_waited: bool = False
    """Or had devices: then it does not wait from its creation."""


@dataclass(slots=True)
class _Batch:
    """What one transaction writes."""

    contents: list[dict[str, Any]] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[int, str] = field(default_factory=dict)
    states: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    closed: list[dict[str, int]] = field(default_factory=list)
    waits: dict[tuple[int, int], dict[str, Any]] = field(default_factory=dict)
    closed_waits: list[dict[str, int]] = field(default_factory=list)


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
        try:
            with self._engine.connect() as connection:
                self._read(connection)
        except SQLAlchemyError as error:
            raise StoreError(f"the store cannot be read: {error}") from error

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
            had = bool(row.flags & HOLDS)
            known = _OpenObject(row.id, row.uid, row.version, row.since, b"", has_waited=had)
            by_id[row.id] = self.open[row.kind, row.namespace, row.name] = known
        for row in connection.execute(select(WAIT.c.object, WAIT.c.since, WAIT.c.until, WAIT.c.reason)):
            if (waiting := by_id.get(row.object)) is not None:
                waiting.has_waited = True
                if row.until is None:
                    waiting.wait = row.since, row.reason, ""

    def commit(
        self,
        changes: Iterable[Change | WaitChange],
        covered: int,
        gap: tuple[int, int] | None = None,
    ) -> None:
        """Store changes in their order, and that the record is complete up to a time but for a gap, if there was one.

        Raises StoreError if they could not be stored; then nothing of them is, and `reload` must be called.
        """
        batch = _Batch()
        if len(self._contents) >= _MOST_CONTENTS:
            self._contents.clear()
        try:
            with self._engine.begin() as connection:
                for change in changes:
                    if isinstance(change, Change):
                        self._apply(connection, batch, change, gap)
                    else:
                        self._apply_wait(connection, batch, change, gap)
                _write(connection, batch)
                if gap is not None and gap[1] > gap[0]:
                    connection.execute(insert(GAP).values(since=gap[0], until=gap[1]))
                if self.covered is None:
                    connection.execute(
                        insert(META), [{"key": key, "value": str(covered)} for key in ("begin", "covered")]
                    )
                else:
                    is_ours = (META.c.key == "covered") & (META.c.value == str(self.covered))
                    if (
                        connection.execute(update(META).where(is_ours).values(value=str(covered))).rowcount
                        != 1
                    ):
                        raise OtherWriterError("another process writes to the store: end one of them")
        except SQLAlchemyError as error:
            raise StoreError(
                f"the store cannot be written: {getattr(error, 'orig', None) or error}"
            ) from error
        self.covered = covered

    def _apply(
        self, connection: Connection, batch: _Batch, change: Change, gap: tuple[int, int] | None
    ) -> None:
        known = self.open.get(change.key)
        if change.body is None:
            if known is not None:
                self._close(batch, change.key, self._time_of(change, gap) if gap is None else gap[0])
            return
        is_same = known is not None and known.uid == change.uid
        if known is not None and is_same and change.version and known.version == change.version:
            return
        content, own = (pack(each) for each in split(change.body))
        digest = digest_of(content + own)
        is_found = gap is not None or self.covered is None
        if known is not None and is_same and known.digest == digest and not is_found:
            known.version = batch.versions[known.id] = change.version
            return
        at, waited, wait = self._time_of(change, gap), False, None
        if known is not None:
            if is_same:
                waited, wait = known.has_waited, known.wait if gap is None else None
            self._close(batch, change.key, at if gap is None else gap[0], ends_wait=wait is None)
        if is_same and known is not None:
            number = known.id
            batch.versions[number] = change.version
        else:
            number = self._take_id(OBJECT)
            names = dict(zip(("kind", "namespace", "name"), change.key, strict=True))
            batch.objects.append({"id": number, **names, "uid": change.uid, "version": change.version})
        place = self._find_content(connection, batch, content)
        flags = _flags_of(change.body)
        waited |= bool(flags & HOLDS)
        self.open[change.key] = _OpenObject(number, change.uid, change.version, at, digest, wait, waited)
        batch.states[number, at] = {
            "object": number,
            "since": at,
            "until": None,
            "content": place,
            "own": own,
            "flags": FOUND * is_found | flags,
        }

    def _time_of(self, change: Change | WaitChange, gap: tuple[int, int] | None) -> int:
        """Return when a change counts: after what is covered already, and at the end of a gap."""
        return gap[1] if gap is not None else max(change.at, (self.covered or -1) + 1)

    def _close(self, batch: _Batch, key: Key, at: int, *, ends_wait: bool = True) -> None:
        known = self.open.pop(key)
        at = max(at, known.since)
        if (written := batch.states.get((known.id, known.since))) is not None:
            if at == known.since:
                # It changed again at once.
                del batch.states[known.id, at]
            written["until"] = at
        else:
            batch.closed.append({"number": known.id, "start": known.since, "end": at})
        if ends_wait and known.wait is not None:
            _close_wait(batch, known, at)

    def _apply_wait(
        self, connection: Connection, batch: _Batch, change: WaitChange, gap: tuple[int, int] | None
    ) -> None:
        known = self.open.get(change.key)
        if known is None or known.uid != change.uid:
            return
        at, is_over = self._time_of(change, gap), change.reason is None
        if known.wait is not None:
            since, reason, message = known.wait
            if not is_over and change.reason in ("", reason) and change.message in ("", message):
                return
            if not is_over and (reason in ("", change.reason)):
                # The first reason that is found holds from the beginning, and the last text of one is kept.
                at = since
            else:
                _close_wait(batch, known, at)
                at = max(at, since + 1)
        elif not known.has_waited:
            at = min(change.created or at, at)
        if is_over:
            return
        text = self._find_content(connection, batch, pack(change.message))
        known.wait, known.has_waited = (at, change.reason or "", change.message), True
        batch.waits[known.id, at] = {
            "object": known.id,
            "since": at,
            "until": None,
            "reason": change.reason or "",
            "message": text,
        }

    def _take_id(self, table: Any) -> int:
        self._next[table] += 1
        return self._next[table] - 1

    def _find_content(self, connection: Connection, batch: _Batch, data: bytes) -> int:
        digest = digest_of(data)
        if (known := self._contents.get(digest)) is None:
            known = connection.scalar(select(CONTENT.c.id).where(CONTENT.c.digest == digest))
            if known is None:
                known = self._take_id(CONTENT)
                batch.contents.append({"id": known, "digest": digest, "body": data})
            self._contents[digest] = known
        return known

    def forget(self, before: int) -> None:
        """Take off the store what ended before a time, where the record begins from now on. Raises StoreError."""
        try:
            with self._engine.begin() as connection:
                gone = _forget(connection, before)
        except SQLAlchemyError as error:
            raise StoreError(
                f"the store cannot be written: {getattr(error, 'orig', None) or error}"
            ) from error
        self._contents.clear()
        for shape in gone:
            self.open.pop((POD_SHAPE, "", shape), None)


def _flags_of(body: Body) -> int:
    status = body.get("status") or {}
    if body["kind"] == "ResourceClaim":
        return HOLDS if status.get("allocation") else 0
    is_on_node = body["kind"] == "Pod" and (body.get("spec") or {}).get("nodeName")
    return RUNS if is_on_node and status.get("phase") not in ("", None, "Pending", *ENDED_PHASES) else 0


def _close_wait(batch: _Batch, known: _OpenObject, at: int) -> None:
    if known.wait is None:
        return
    since = known.wait[0]
    if (written := batch.waits.get((known.id, since))) is not None:
        written["until"] = max(at, since)
    else:
        batch.closed_waits.append({"number": known.id, "start": since, "end": max(at, since)})
    known.wait = None


def _write(connection: Connection, batch: _Batch) -> None:
    for table, new in ((CONTENT, batch.contents), (OBJECT, batch.objects)):
        if new:
            connection.execute(insert(table), new)
    if batch.versions:
        of_object = update(OBJECT).where(OBJECT.c.id == bindparam("number")).values(version=bindparam("seen"))
        connection.execute(
            of_object, [{"number": number, "seen": each} for number, each in batch.versions.items()]
        )
    for table, closed, rows in ((STATE, batch.closed, batch.states), (WAIT, batch.closed_waits, batch.waits)):
        if closed:
            is_row = (table.c.object == bindparam("number")) & (table.c.since == bindparam("start"))
            connection.execute(update(table).where(is_row).values(until=bindparam("end")), closed)
        if rows:
            # A wait of which the reason is known by now.
            old = delete(table).where(
                (table.c.object == bindparam("number")) & (table.c.since == bindparam("start"))
            )
            connection.execute(old, [{"number": number, "start": since} for number, since in rows])
            connection.execute(insert(table), [*rows.values()])


def _forget(connection: Connection, before: int) -> set[str]:
    """Take off what ended before a time; return the shapes of pods that nothing counts any more."""
    begin = connection.scalar(select(META.c.value).where(META.c.key == "begin"))
    if begin is None or int(begin) >= before:
        return set()
    for table in (STATE, WAIT, GAP):
        connection.execute(delete(table).where(table.c.until < before))
    # Each table is read once, on PostgreSQL too, which asks the other one for each row of `NOT IN`.
    used = select(STATE.c.object), select(WAIT.c.object)
    connection.execute(delete(OBJECT).where(OBJECT.c.id.in_(select(OBJECT.c.id).except_(*used))))
    counts = connection.scalars(select(OBJECT.c.name).where(OBJECT.c.kind == POD_SUM))
    counted = {name.rpartition("/")[2] for name in counts}
    shapes = connection.execute(select(OBJECT.c.id, OBJECT.c.name).where(OBJECT.c.kind == POD_SHAPE))
    gone = {name: number for number, name in shapes if name not in counted}
    for column in (STATE.c.object, OBJECT.c.id) if gone else ():
        is_gone = delete(column.table).where(column == bindparam("number"))
        connection.execute(is_gone, [{"number": each} for each in gone.values()])
    contents = select(STATE.c.content), select(WAIT.c.message)
    connection.execute(delete(CONTENT).where(CONTENT.c.id.in_(select(CONTENT.c.id).except_(*contents))))
    connection.execute(update(META).where(META.c.key == "begin").values(value=str(before)))
    return {*gone}
