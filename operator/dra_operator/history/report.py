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

from dra_operator.api.convert import Body
from dra_operator.history.holdings import Holding, first_class, read_holdings
from dra_operator.history.reader import Reader, Span, time_text
from dra_operator.history.schema import MICRO, OBJECT, STATE, WAIT, unpack
from dra_operator.history.sweep import STATES, Amount, Sweep

_HOUR: Final = 3600 * MICRO
_NOT_ASKED: Final = "NotAsked"
NOBODY: Final = "(none)"
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
    by_amount: str = "memory"
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
    """A sum, exact: integers come together for themselves, as that is faster."""

    _whole: int = 0
    _rest: Fraction = Fraction(0)

    def add(self, amount: Amount) -> None:
        """Add card-microseconds."""
        if isinstance(amount, int):
            self._whole += amount
        else:
            self._rest += amount

    @property
    def hours(self) -> Fraction:
        """The sum in card-hours."""
        return (self._whole + self._rest) / _HOUR


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
    def __init__(self, reader: Reader, query: ReportQuery) -> None:
        self._reader = reader
        self._query = query
        self._since, self._every = query.span.since, query.every
        self._rows: dict[tuple[int, str], _Sum] = defaultdict(_Sum)
        self._states: dict[tuple[int, str], _Tally] = defaultdict(_Tally)
        self._idle: dict[int, _Tally] = defaultdict(_Tally)
        is_by_pod = query.by in (Grouping.OWNER, Grouping.LABEL)
        self._pods = _read_pods(reader, query.span) if is_by_pod or query.by is Grouping.CLASS else {}

    def make(self) -> HistoryReport:
        query = self._query
        sweep = Sweep(self._reader, query.span, self, by_amount=query.by_amount, every=query.every)
        sweep.run(read_holdings(self._reader, query.span))
        if query.by is not Grouping.NODE:
            self._add_waits()
        span = query.span
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
        since, every = self._since, self._every
        return since + (at - since) // every * every if every else since

    # --- what comes

    def add_state(self, at: int, state: str, amount: Amount, idle: Amount) -> None:
        """Add cards in a state."""
        period = self._start_of(at)
        self._states[period, state].add(amount)
        if idle:
            self._idle[period].add(idle)

    def add_share(self, at: int, holding: Holding, node: str, amount: Amount, idle: Amount) -> None:
        """Add what a claim had of published cards."""
        row = self._rows[self._start_of(at), self._name_of_share(holding, node)]
        row.held.add(amount)
        row.idle.add(idle)
        if self._query.prices:
            row.cost.add(amount * self._query.prices.get(holding.device_class, Fraction(0)))

    def add_unpublished(self, at: int, holding: Holding, amount: Amount) -> None:
        """Add what a claim had of devices that were not published."""
        self._rows[self._start_of(at), self._name_of_share(holding, "")].unpublished.add(amount)

    def _name_of_share(self, holding: Holding, node: str) -> str:
        claim = holding.claim
        if self._query.namespace not in ("", claim.namespace):
            return OTHERS
        match self._query.by:
            case Grouping.NAMESPACE:
                return claim.namespace
            case Grouping.CLASS:
                return holding.device_class or NOBODY
            case Grouping.NODE:
                return node or NOBODY
        return self._name_of_pod(claim.pod)

    def _name_of_pod(self, uid: str) -> str:
        if (pod := self._pods.get(uid)) is None:
            return NOBODY
        if self._query.by is Grouping.LABEL:
            return str((pod.own["metadata"].get("labels") or {}).get(self._query.label) or NOBODY)
        owners = pod.own["metadata"].get("ownerReferences") or ()
        owner = next((each for each in owners if each.get("controller")), None)
        name = f"{owner['kind']}/{owner['name']}" if owner is not None else f"Pod/{pod.name}"
        return f"{pod.namespace}/{name}"

    def _add_waits(self) -> None:
        span, every = self._query.span, self._query.every
        classes = read_classes(self._reader, span) if self._query.by is Grouping.CLASS else {}
        names: dict[int, str] = {}
        columns = OBJECT.c.kind, OBJECT.c.namespace, OBJECT.c.name, OBJECT.c.uid
        query = self._reader.select_waits(
            span, *columns, WAIT.c.object, WAIT.c.since, WAIT.c.until, WAIT.c.reason
        )
        for *what, number, since, until, reason in self._reader.rows(query):
            at, end = max(since, span.since), span.until if until is None else min(until, span.until)
            if (name := names.get(number)) is None:
                name = names[number] = self._name_of_wait((what[0], what[1], what[2], what[3]), classes)
            while at < end:
                following = min(end, self._start_of(at) + every) if every else end
                row = self._rows[self._start_of(at), name]
                row.waits[number] += following - at
                row.reasons[reason or _NOT_ASKED] += following - at
                at = following

    def _name_of_wait(self, what: tuple[str, str, str, str], classes: Mapping[tuple[str, str], str]) -> str:
        kind, namespace, name, uid = what
        if self._query.namespace not in ("", namespace):
            return OTHERS
        if self._query.by is Grouping.NAMESPACE:
            return namespace
        if self._query.by is not Grouping.CLASS:
            return NOBODY if kind == "ResourceClaim" else self._name_of_pod(uid)
        names = [name]
        if kind == "Pod":
            names = claims_of(self._pods[uid]) if uid in self._pods else []
        found = [classes[each] for each in [(namespace, name) for name in names] if each in classes]
        return (found[0] if found else "") or NOBODY

    # --- what it comes to

    def _periods(self) -> Iterator[Period]:
        span, every = self._query.span, self._query.every
        for since in range(span.since, span.until, every or max(span.until - span.since, 1)):
            states = {state: self._states[since, state].hours for state in STATES}
            until = min(since + every, span.until) if every else span.until
            published = sum(states.values(), Fraction(0))
            idle = self._idle[since].hours
            yield Period(time_text(since), time_text(until), published, **states, idle=idle)

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
            Fraction(sum(waits), _HOUR),
            _quantile(waits, 50),
            _quantile(waits, 90),
            tuple([Reason(reason, Fraction(hours, _HOUR)) for reason, hours in reasons]),
            row.cost.hours if self._query.prices else None,
        )


def _quantile(values: Sequence[int], percent: int) -> Fraction | None:
    """Return the smallest value that so many percent of some sorted ones do not exceed, in hours; None without any."""
    return Fraction(values[-(-len(values) * percent // 100) - 1], _HOUR) if values else None


@dataclass(frozen=True, slots=True)
class _Pod:
    """A pod as it was last: what it has in common with others, and its own."""

    namespace: str
    name: str
    content: Any
    _own: bytes

    @property
    def own(self) -> Body:
        """Its metadata and status."""
        found: Body = unpack(self._own)
        return found


def _read_pods(reader: Reader, span: Span) -> dict[str, _Pod]:
    """Return the pods of a span, by uid."""
    contents = reader.read_contents(span, "Pod")
    columns = OBJECT.c.uid, OBJECT.c.namespace, OBJECT.c.name, STATE.c.content, STATE.c.own
    query = reader.select_states(span, *columns).where(OBJECT.c.kind == "Pod")
    rows = reader.rows(query.order_by(STATE.c.object, STATE.c.since))
    return {row.uid: _Pod(row.namespace, row.name, contents[row.content], row.own) for row in rows}


def read_classes(reader: Reader, span: Span) -> dict[tuple[str, str], str]:
    """Return the first class that claims name, by namespace and name."""
    contents = reader.read_contents(span, "ResourceClaim")
    classes = {number: first_class(content) for number, content in contents.items()}
    query = reader.select_states(span, OBJECT.c.namespace, OBJECT.c.name, STATE.c.content).distinct()
    rows = reader.rows(query.where(OBJECT.c.kind == "ResourceClaim"))
    return {(row.namespace, row.name): classes[row.content] for row in rows}


def claims_of(pod: _Pod) -> list[str]:
    """Return the claims of a pod: those that it names, and those that were made for it."""
    entries = (pod.content.get("spec") or {}).get("resourceClaims") or ()
    made = (pod.own.get("status") or {}).get("resourceClaimStatuses") or ()
    return [str(each["resourceClaimName"]) for each in (*entries, *made) if each.get("resourceClaimName")]


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
