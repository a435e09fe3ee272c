"""Reader: what a store says of a time, or of a span of time. Source: docs/history.md."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy import Column, Engine, Select, Table, func, select, true

from dra_operator.api.convert import Body
from dra_operator.api.kinds import POLICIES
from dra_operator.api.versions import rules_of
from dra_operator.history.schema import (
    CONTENT,
    FOUND,
    GAP,
    META,
    MICRO,
    OBJECT,
    RUNS,
    STATE,
    WAIT,
    StoreError,
    join,
    transaction,
    unpack,
)
from dra_operator.questions.contents import gather_stored
from dra_operator.questions.kept_fields import TAKEN
from dra_operator.questions.state import ClusterState

LEFT_OUT: Final = ("PersistentVolume", "PersistentVolumeClaim", *(kind.kind for kind in POLICIES))
"""What a record has none of, as a snapshot."""
_NAMES: Final = ("kind", "namespace", "name", "uid")
_AGO: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])")
_ROWS: Final = 1000
"""So many are fetched at once."""
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Span(NamedTuple):
    """A span of time, in microseconds since 1970; the end is not part of it."""

    since: int
    until: int


@dataclass(slots=True, eq=False)
class StateRow:
    """What an object was in a span; `found`: it was so already when the record, or the end of a gap, found it.

    `content` is what of its body is the same in copies, or all of it if `own`, the rest as it is stored, is None.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    since: int
    until: int
    content: Body
    found: bool
    is_open: bool
    own: bytes | None = None

    @property
    def stored(self) -> Body:
        """What of the object is read soonest: its status, and its metadata without names."""
        return self.content if self.own is None else unpack(self.own)

    @property
    def body(self) -> Body:
        """The object, which is put together when it is asked for."""
        if self.own is not None:
            key = self.kind, self.namespace, self.name
            self.content, self.own = join(key, self.uid, self.content, unpack(self.own)), None
        return self.content


@dataclass(slots=True, eq=False)
class WaitRow:
    """A span in which a pod or a claim waited for one reason; an empty one was not found in time."""

    kind: str
    namespace: str
    name: str
    uid: str
    since: int
    until: int
    message: str
    reason: str
    is_open: bool


_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True)
class Moment:
    """The objects of a cluster at a time, why kinds could not be read then, and the version of its API server."""

    at: int
    bodies: tuple[Body, ...]
    unread: Mapping[str, str]
    kubernetes: str


def build_state(moment: Moment, listed: AbstractSet[str] = frozenset(TAKEN)) -> ClusterState:
    """Return the state of a time, of which all objects of the kinds listed are there."""
    contents = gather_stored(moment.bodies)
    contents.listed |= listed - moment.unread.keys()
    rules = rules_of(moment.kubernetes)
    return ClusterState(contents, unread=moment.unread, now=moment.at / MICRO, rules=rules)


class Reader:
    """Reads a store, also while it is written to: up to what is covered when it is made. Raises StoreError."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        # Many objects have the same content; those of slices are large, and each has its own.
        self._unpack = lru_cache(maxsize=256)(unpack)
        found = {row.key: row.value for row in self.rows(select(META.c.key, META.c.value))}
        if "covered" not in found:
            raise StoreError("the record is empty: nothing was recorded yet")
        self.span = Span(int(found["begin"]), int(found["covered"]))
        self.gaps = [
            Span(row.since, row.until)
            for row in self.rows(select(GAP.c.since, GAP.c.until).order_by(GAP.c.since))
        ]

    def find_gap(self, at: int) -> Span | None:
        """Return the gap that a time is in, or None."""
        place = bisect_right(self.gaps, at, key=lambda gap: gap.since)
        return self.gaps[place - 1] if place and at < self.gaps[place - 1].until else None

    def check_time(self, at: int) -> None:
        """Raise StoreError for a time of which the record says nothing."""
        if not self.span.since <= at <= self.span.until:
            raise StoreError(
                f"{time_text(at)} is not in the record, which is from {time_text(self.span.since)} "
                f"to {time_text(self.span.until)}"
            )
        if (gap := self.find_gap(at)) is not None:
            raise StoreError(
                f"{time_text(at)} is in a gap: nothing was recorded from {time_text(gap.since)} "
                f"to {time_text(gap.until)}"
            )

    def read_moment(self, at: int) -> Moment:
        """Return the state as it was; StoreError for a time of which the record says nothing."""
        self.check_time(at)
        bodies, sums, shapes = list[Body](), list[Body](), dict[str, Body]()
        unread, kubernetes = dict.fromkeys(LEFT_OUT, "a record has none"), ""
        for row in self.read_states(Span(at, at + 1)):
            match row.kind:
                case "Server":
                    kubernetes = row.body["spec"]["version"]
                case "Unread":
                    unread[row.name] = row.body["spec"]["why"]
                case "PodShape":
                    shapes[row.name] = row.body["spec"]
                case "PodSum":
                    sums.append(row.body)
                case _:
                    bodies.append(row.body)
        bodies += [pod for each in sums for pod in expand_sum(each, shapes)]
        return Moment(at, tuple(bodies), unread, kubernetes)

    def read_states(
        self, span: Span, *kinds: str, flags: int = 0, by_object: bool = False
    ) -> Iterator[StateRow]:
        """Yield what objects of some kinds, or of all, were in a span, in the order of their beginning.

        With `flags`, only states that have one of these; `by_object`, those of each object together.
        """
        is_kind = OBJECT.c.kind.in_(kinds) if kinds else true()
        has_flag = STATE.c.flags.bitwise_and(flags) != 0 if flags else true()
        told = STATE.c.flags.bitwise_and(FOUND) != 0, STATE.c.until.is_(None), STATE.c.own
        found = self._select(STATE, span, *_NAMES, content=STATE.c.content).add_columns(*told)
        order = (OBJECT.c.id, STATE.c.since) if by_object else (STATE.c.since, STATE.c.object)
        return self._read(StateRow, found.where(is_kind & has_flag).order_by(*order))

    def read_runs(self, span: Span) -> Iterator[tuple[str, str, int, int, Body]]:
        """Yield when pods ran in a span, in no order: uid, namespace, from when until when, and the content."""
        found = self._select(STATE, span, "uid", "namespace", content=STATE.c.content)
        is_run = (OBJECT.c.kind == "Pod") & (STATE.c.flags.bitwise_and(RUNS) != 0)
        for *names, content in self._stream(found.where(is_run)):
            yield *names, self._unpack(content)

    def read_waits(self, span: Span) -> Iterator[WaitRow]:
        """Yield why pods and claims waited in a span, in the order of their beginning."""
        found = self._select(WAIT, span, *_NAMES, content=WAIT.c.message)
        found = found.add_columns(WAIT.c.reason, WAIT.c.until.is_(None))
        return self._read(WaitRow, found.order_by(WAIT.c.since, WAIT.c.object))

    def read_wait_times(self, span: Span) -> Iterator[tuple[str, str, int, int, str]]:
        """Yield the waits in a span, in no order: uid, namespace, from when until when, and reason."""
        return self._stream(self._select(WAIT, span, "uid", "namespace").add_columns(WAIT.c.reason))

    def _read(self, make: Callable[..., _Row], query: Select[Any]) -> Iterator[_Row]:
        for row in self._stream(query):
            yield make(*row[:6], self._unpack(row[6]), *row[7:])

    def _select(
        self, table: Table, span: Span, *names: str, content: Column[int] | None = None
    ) -> Select[Any]:
        """Return a query for columns of objects, from when until when a table has them, and a content, if any."""
        is_within = (table.c.since < span.until) & (table.c.until.is_(None) | (table.c.until > span.since))
        until = func.coalesce(table.c.until, self.span.until)
        found = select(*[OBJECT.c[name] for name in names], table.c.since, until).where(is_within)
        found = found.join_from(table, OBJECT, table.c.object == OBJECT.c.id)
        if content is None:
            return found
        return found.join(CONTENT, CONTENT.c.id == content).add_columns(CONTENT.c.body)

    def _stream(self, query: Select[Any]) -> Iterator[Any]:
        with transaction(self._engine) as connection:
            for rows in connection.execute(query).partitions(_ROWS):
                yield from rows

    def rows(self, query: Select[Any]) -> list[Any]:
        """Return what the store answers."""
        with transaction(self._engine) as connection:
            return list(connection.execute(query))


def expand_sum(body: Body, shapes: Mapping[str, Body]) -> Iterator[Body]:
    """Yield the equal pods of a node that were stored as a number, under names of their own."""
    node = body["metadata"]["name"].partition("/")[0]
    for shape, number in body["spec"].items():
        pod = shapes[shape]
        for index in range(number):
            metadata = {**pod["metadata"], "name": f"{node}-{shape}-{index}"}
            yield {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}}


def time_text(at: int) -> str:
    """Return a time as Kubernetes writes it."""
    return datetime.fromtimestamp(at // MICRO, UTC).isoformat().replace("+00:00", "Z")


def parse_duration(text: str) -> int | None:
    """Return the microseconds of `90s`, `30m`, `6h`, `7d`, `2w`; None for anything else."""
    found = _AGO.fullmatch(text)
    return None if found is None else round(float(found[1]) * _SECONDS[found[2]] * MICRO)


def parse_time(text: str, now: int) -> int | None:
    """Return a time that is written as in RFC 3339 (UTC, if it names no zone), or as how long ago it is: `7d`."""
    if (ago := parse_duration(text)) is not None:
        return max(now - ago, 0)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * MICRO)
