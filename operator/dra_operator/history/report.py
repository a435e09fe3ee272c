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
from dra_operator.history.reader import Reader, Span, StateRow, time_text
from dra_operator.history.schema import MICRO
from dra_operator.history.sweep import STATES, Card, Cards, Share, Sweep

_HOUR: Final = 3600 * MICRO
_NOT_ASKED: Final = "NotAsked"
NOBODY: Final = "(none)"


class Grouping(StrEnum):
    """What a row stands for; of a label its key is given beside."""

    NAMESPACE = "namespace"
    CLASS = "class"
    NODE = "node"
    OWNER = "owner"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What is reported: `every` microseconds a period, 0 for one; `prices` are by class, for a card-hour."""

    span: Span
    by: Grouping = Grouping.NAMESPACE
    label: str = ""
    every: int = 0
    by_amount: str = "memory"
    prices: Mapping[str, Fraction] = field(default_factory=dict)


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
class _Sum:
    """What comes together for a row, in card-microseconds; `waits` by the uid of what waited."""

    held: Fraction = Fraction(0)
    idle: Fraction = Fraction(0)
    unpublished: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    waits: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    reasons: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def make_report(reader: Reader, query: ReportQuery) -> HistoryReport:
    """Return the report of a span of the record. Raises StoreError."""
    return _Report(reader, query).make()


class _Report:
    def __init__(self, reader: Reader, query: ReportQuery) -> None:
        self._reader = reader
        self._query = query
        self._sweep = Sweep(reader, query.span, query.by_amount)
        self._rows: dict[tuple[int, str], _Sum] = defaultdict(_Sum)
        self._states: dict[tuple[int, str], Fraction] = defaultdict(Fraction)
        self._idle: dict[int, Fraction] = defaultdict(Fraction)

    def make(self) -> HistoryReport:
        self._sweep.run(self._add_cards, self._query.every)
        self._add_waits()
        span = self._query.span
        periods = tuple(self._periods())
        published = sum((each.published for each in periods), Fraction(0))
        unknown = sum((each.unknown for each in periods), Fraction(0))
        return HistoryReport(
            self._query.label or self._query.by.value,
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

    def _add_cards(self, span: Span, cards: Cards) -> None:
        period, length = self._start_of(span.since), span.until - span.since
        for card in cards.values():
            for state, part in card.states.items():
                self._states[period, state] += part * length
            self._idle[period] += card.idle * length
            for share in card.shares:
                self._add_share(period, length, card, share)

    def _add_share(self, period: int, length: int, card: Card, share: Share) -> None:
        row, amount = self._rows[period, self._name_of_share(card, share)], share.part * length
        if not share.is_published:
            row.unpublished += amount
            return
        row.held += amount
        row.idle += amount if share.is_idle else 0
        row.cost += amount * self._query.prices.get(share.device_class, Fraction(0))

    def _name_of_share(self, card: Card, share: Share) -> str:
        match self._query.by:
            case Grouping.NAMESPACE:
                return share.claim[0]
            case Grouping.CLASS:
                return share.device_class or NOBODY
            case Grouping.NODE:
                return card.node or NOBODY
        user = self._sweep.users.get(share.uid)
        return NOBODY if user is None else self._name_of_pod(user.body)

    def _name_of_pod(self, body: Body) -> str:
        metadata = body["metadata"]
        if self._query.by is Grouping.LABEL:
            return str((metadata.get("labels") or {}).get(self._query.label) or NOBODY)
        owners = metadata.get("ownerReferences") or ()
        owner = next((each for each in owners if each.get("controller")), None)
        name = f"{owner['kind']}/{owner['name']}" if owner is not None else f"Pod/{metadata['name']}"
        return f"{metadata['namespace']}/{name}"

    def _add_waits(self) -> None:
        if self._query.by is Grouping.NODE:
            return
        span, every = self._query.span, self._query.every
        bodies = {row.uid: row.body for row in self._reader.read_states(span, "Pod", "ResourceClaim")}
        classes = {
            (row.namespace, row.name): _class_of(row)
            for row in self._reader.read_states(span, "ResourceClaim")
        }
        for wait in self._reader.read_waits(span):
            if (body := bodies.get(wait.uid)) is None:
                continue
            at, end = max(wait.since, span.since), min(wait.until, span.until)
            name = self._name_of_wait(body, classes)
            while at < end:
                following = min(end, self._start_of(at) + every) if every else end
                row = self._rows[self._start_of(at), name]
                row.waits[wait.uid] += following - at
                row.reasons[wait.reason or _NOT_ASKED] += following - at
                at = following

    def _name_of_wait(self, body: Body, classes: Mapping[tuple[str, str], str]) -> str:
        metadata = body["metadata"]
        if self._query.by is Grouping.NAMESPACE:
            return str(metadata["namespace"])
        if self._query.by is Grouping.CLASS:
            names = [metadata["name"]] if body["kind"] == "ResourceClaim" else _claims_of(body)
            found = [classes[each] for name in names if (each := (metadata["namespace"], name)) in classes]
            return found[0] if found else NOBODY
        return NOBODY if body["kind"] == "ResourceClaim" else self._name_of_pod(body)

    # --- what it comes to

    def _periods(self) -> Iterator[Period]:
        span, every = self._query.span, self._query.every
        for since in range(span.since, span.until, every or max(span.until - span.since, 1)):
            states = {state: self._states[since, state] / _HOUR for state in STATES}
            until = min(since + every, span.until) if every else span.until
            published = sum(states.values(), Fraction(0))
            idle = self._idle[since] / _HOUR
            yield Period(time_text(since), time_text(until), published, **states, idle=idle)

    def _row(self, period: int, name: str) -> ReportRow:
        row = self._rows[period, name]
        waits = sorted(row.waits.values())
        reasons = sorted(row.reasons.items(), key=lambda each: (-each[1], each[0]))
        return ReportRow(
            name,
            time_text(period),
            row.held / _HOUR,
            row.idle / _HOUR,
            row.unpublished / _HOUR,
            len(waits),
            Fraction(sum(waits), _HOUR),
            _quantile(waits, 50),
            _quantile(waits, 90),
            tuple([Reason(reason, Fraction(hours, _HOUR)) for reason, hours in reasons]),
            row.cost / _HOUR if self._query.prices else None,
        )


def _quantile(values: Sequence[int], percent: int) -> Fraction | None:
    """Return the smallest value that so many percent of some sorted ones do not exceed, in hours; None without any."""
    return Fraction(values[-(-len(values) * percent // 100) - 1], _HOUR) if values else None


def _class_of(row: StateRow) -> str:
    for request in row.body["spec"].get("devices", {}).get("requests", ()):
        for each in (request.get("exactly"), request, *(request.get("firstAvailable") or ())):
            if each and each.get("deviceClassName"):
                return str(each["deviceClassName"])
    return NOBODY


def _claims_of(body: Body) -> list[str]:
    """Return the claims of a pod: those that it names, and those that were made for it."""
    entries = (body.get("spec") or {}).get("resourceClaims") or ()
    made = (body.get("status") or {}).get("resourceClaimStatuses") or ()
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
