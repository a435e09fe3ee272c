"""Report: card-hours by state and by holder, waits and their reasons, and what it cost, over a span of a record.

Sums are exact: of each row of cards used, shared, free, tainted, blocked and unknown are its published time.
Source: docs/history.md.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from dra_operator.history.holdings import Holding, first_class, read_holdings
from dra_operator.history.reader import Reader, Span, time_text
from dra_operator.history.schema import MICRO, OBJECT, STATE, WAIT, unpack
from dra_operator.history.sweep import STATES, Amount, Sweep

HOUR: Final = 3600 * MICRO
_IDLE: Final = "idle"
_NOT_ASKED: Final = "NotAsked"
NOBODY: Final = "(none)"
BY_AMOUNT: Final = "memory"
"""The capacity by which shares are compared, unless another one is named."""
OTHERS: Final = "(others)"
"""All other namespaces, where one is asked for."""


class Grouping(StrEnum):
    """What a row stands for; of a label its key is given beside."""

    NAMESPACE = "namespace"
    CLASS = "class"
    NODE = "node"
    OWNER = "owner"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What is reported: `every` microseconds a period, 0 for one; `prices` are by class, for a card-hour.

    With a `namespace`, all others are one row.
    """

    span: Span
    by: Grouping = Grouping.NAMESPACE
    label: str = ""
    every: int = 0
    by_amount: str = BY_AMOUNT
    prices: Mapping[str, Fraction] = field(default_factory=dict)
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Period:
    """Cards over a period, in card-hours: the states come to `published`. Times are RFC 3339."""

    since: str
    until: str
    published: Fraction
    used: Fraction
    shared: Fraction
    free: Fraction
    tainted: Fraction
    blocked: Fraction
    unknown: Fraction
    idle: Fraction


@dataclass(frozen=True, slots=True)
class Reason:
    """For how many hours something waited for a reason."""

    reason: str
    hours: Fraction


@dataclass(frozen=True, slots=True)
class ReportRow:
    """What a namespace, class, node, owner or label had in a period, in card-hours.

    `held` is what its claims held of published cards, `idle` what of it no running pod used, `unpublished` what they
    held that is not published. `waited` are the hours of all its `waits`, `median` and `p90` hours of one.
    """

    name: str
    since: str
    held: Fraction
    idle: Fraction
    unpublished: Fraction
    waits: int
    waited: Fraction
    median: Fraction | None
    p90: Fraction | None
    reasons: tuple[Reason, ...]
    cost: Fraction | None = None


@dataclass(frozen=True, slots=True)
class HistoryReport:
    """Rows by period and name, and all cards by period. `unknown` is the part of the published time in gaps."""

    by: str
    since: str
    until: str
    rows: tuple[ReportRow, ...]
    periods: tuple[Period, ...]
    unknown: Fraction
    note: str = "held and used mean that a claim has the device; it is idle where no pod of the claim ran"


@dataclass(slots=True)
class _Tally:
    """A sum of card-microseconds, exact: integers come together for themselves, as that is faster."""

    _whole: int = 0
    _rest: Fraction = Fraction(0)

    def add(self, amount: Amount) -> None:
        """Add it."""
        if isinstance(amount, int):
            self._whole += amount
        else:
            self._rest += amount

    @property
    def hours(self) -> Fraction:
        """The sum in card-hours."""
        return (self._whole + self._rest) / HOUR


@dataclass(slots=True)
class _Sum:
    """What comes together for a row; `waits` by the number of what waited."""

    held: _Tally = field(default_factory=_Tally)
    idle: _Tally = field(default_factory=_Tally)
    unpublished: _Tally = field(default_factory=_Tally)
    cost: _Tally = field(default_factory=_Tally)
    waits: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    reasons: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def make_report(reader: Reader, query: ReportQuery) -> HistoryReport:
    """Return the report of a span of the record. Raises StoreError."""
    return _Report(reader, query).make()


class _Report:
    """Sums of a sweep by period, and by period and name."""

    def __init__(self, reader: Reader, query: ReportQuery) -> None:
        self._reader = reader
        self._query = query
        self._rows: dict[tuple[int, str], _Sum] = defaultdict(_Sum)
        self._states: dict[tuple[int, str], _Tally] = defaultdict(_Tally)
        self._names = _read_names(reader, query)

    def make(self) -> HistoryReport:
        query, span = self._query, self._query.span
        sweep = Sweep(self._reader, span, self, by_amount=query.by_amount, every=query.every)
        sweep.run(read_holdings(self._reader, span))
        if query.by is not Grouping.NODE:
            self._add_waits()
        periods = tuple(self._periods())
        published = sum((each.published for each in periods), Fraction(0))
        unknown = sum((each.unknown for each in periods), Fraction(0))
        return HistoryReport(
            query.label or query.by.value,
            time_text(span.since),
            time_text(span.until),
            tuple([self._row(*key) for key in sorted(self._rows)]),
            periods,
            unknown / published if published else Fraction(0),
        )

    def _start_of(self, at: int) -> int:
        """Return when the period of a time begins."""
        since, every = self._query.span.since, self._query.every
        return since + (at - since) // every * every if every else since

    # --- what comes

    def add_state(self, at: int, state: str, amount: Amount, idle: Amount) -> None:
        """Add cards in a state."""
        period = self._start_of(at)
        self._states[period, state].add(amount)
        if idle:
            self._states[period, _IDLE].add(idle)

    def add_share(self, at: int, holding: Holding, node: str, amount: Amount, idle: Amount) -> None:
        """Add what a claim had of published cards."""
        row = self._rows[self._start_of(at), self._name_of_share(holding, node)]
        row.held.add(amount)
        row.idle.add(idle)
        if self._query.prices:
            row.cost.add(amount * self._query.prices.get(holding.device_class, 0))

    def add_unpublished(self, at: int, holding: Holding, amount: Amount) -> None:
        """Add what a claim had of devices that were not published."""
        self._rows[self._start_of(at), self._name_of_share(holding, "")].unpublished.add(amount)

    def _add_waits(self) -> None:
        span, every = self._query.span, self._query.every
        columns = OBJECT.c.namespace, OBJECT.c.uid, WAIT.c.object, WAIT.c.since, WAIT.c.until, WAIT.c.reason
        rows = self._reader.rows(self._reader.select(WAIT, span, *columns))
        for namespace, uid, number, since, until, reason in rows:
            at, end = max(since, span.since), span.until if until is None else min(until, span.until)
            name = self._name_of(namespace, self._names.get(uid))
            while at < end:
                following = min(end, self._start_of(at) + every) if every else end
                row = self._rows[self._start_of(at), name]
                row.waits[number] += following - at
                row.reasons[reason or _NOT_ASKED] += following - at
                at = following

    def _name_of_share(self, holding: Holding, node: str) -> str:
        by, claim = self._query.by, holding.claim
        own = {Grouping.CLASS: holding.device_class, Grouping.NODE: node}
        return self._name_of(claim.namespace, own[by] if by in own else self._names.get(claim.pod))

    def _name_of(self, namespace: str, own: str | None) -> str:
        """Return the name of the row of something; `own` is what it is called there, but for a namespace."""
        if self._query.namespace not in ("", namespace):
            return OTHERS
        return namespace if self._query.by is Grouping.NAMESPACE else own or NOBODY

    # --- what it comes to

    def _periods(self) -> Iterator[Period]:
        span, every = self._query.span, self._query.every
        for since in range(span.since, span.until, every or max(span.until - span.since, 1)):
            states = {state: self._states[since, state].hours for state in (*STATES, _IDLE)}
            until = min(since + every, span.until) if every else span.until
            published = sum(states.values(), -states[_IDLE])
            yield Period(time_text(since), time_text(until), published, **states)

    def _row(self, period: int, name: str) -> ReportRow:
        row = self._rows[period, name]
        waits = sorted(row.waits.values())
        reasons = sorted(row.reasons.items(), key=lambda each: (-each[1], each[0]))
        return ReportRow(
            name,
            time_text(period),
            row.held.hours,
            row.idle.hours,
            row.unpublished.hours,
            len(waits),
            Fraction(sum(waits), HOUR),
            Fraction(quantile(waits, 50), HOUR) if waits else None,
            Fraction(quantile(waits, 90), HOUR) if waits else None,
            tuple([Reason(reason, Fraction(amount, HOUR)) for reason, amount in reasons]),
            row.cost.hours if self._query.prices else None,
        )


def quantile(values: Sequence[int], percent: int) -> int:
    """Return the smallest value that so many percent of some sorted ones do not exceed; 0 without any."""
    return values[-(-len(values) * percent // 100) - 1] if values else 0


def _read_names(reader: Reader, query: ReportQuery) -> dict[str, str]:
    """Return what rows pods are in, and by class claims, by uid, as they were last; nothing by namespace and node."""
    found = dict[str, str]()
    if query.by is Grouping.CLASS:
        classes = dict[tuple[str, str], str]()
        for row, content in _read_last(reader, query.span, "ResourceClaim"):
            classes[row.namespace, row.name] = found[row.uid] = first_class(content)
        for row, content in _read_last(reader, query.span, "Pod"):
            # Those that it names, and those that were made for it.
            entries = (content.get("spec") or {}).get("resourceClaims") or ()
            made = (unpack(row.own).get("status") or {}).get("resourceClaimStatuses") or ()
            names = [(row.namespace, each.get("resourceClaimName")) for each in (*entries, *made)]
            found[row.uid] = next((classes[each] for each in names if each in classes), "")
    elif query.by in (Grouping.OWNER, Grouping.LABEL):
        for row, _ in _read_last(reader, query.span, "Pod"):
            metadata = unpack(row.own)["metadata"]
            owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
            kind, name = (owners[0]["kind"], owners[0]["name"]) if owners else ("Pod", row.name)
            label = str((metadata.get("labels") or {}).get(query.label) or "")
            found[row.uid] = label if query.by is Grouping.LABEL else f"{row.namespace}/{kind}/{name}"
    return found


def _read_last(reader: Reader, span: Span, kind: str) -> Iterator[tuple[Any, Any]]:
    """Yield the last states of objects in a span, each with what it has in common with others."""
    contents = reader.read_contents(span, kind)
    columns = OBJECT.c.uid, OBJECT.c.namespace, OBJECT.c.name, STATE.c.content, STATE.c.own
    query = reader.select(STATE, span, *columns).where(OBJECT.c.kind == kind)
    rows = {row.uid: row for row in reader.rows(query.order_by(STATE.c.object, STATE.c.since))}
    for row in rows.values():
        yield row, contents[row.content]


def read_prices(content: Any) -> dict[str, Fraction]:
    """Return a price list: a mapping of classes to numbers. Raises ValueError for another."""
    if not isinstance(content, dict) or not content:
        raise ValueError("write one `CLASS: PRICE` a line, the price of a card-hour")
    found = {}
    for name, price in content.items():
        try:
            found[str(name)] = Fraction(str(price))
        except (ValueError, ZeroDivisionError):
            raise ValueError(f"{name}: {price!r} is no number") from None
    return found
