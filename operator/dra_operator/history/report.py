"""Report: card-hours by state and by holder, waits and their reasons, and what it cost, over a span of a record.

Sums are exact: of each row of cards used, shared, free, tainted, blocked and unknown are its published time.
Source: docs/history.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from typing import Final

import yaml

from dra_operator.history.holdings import HoldingClaim, first_class, read_holdings
from dra_operator.history.reader import Reader, Span, StateRow, time_text
from dra_operator.history.sweep import HOUR, IDLE, STATES, Sweep
from dra_operator.questions.answers import QuestionError

_HELD: Final = ("held", IDLE, "unpublished")
_NOT_ASKED: Final = "NotAsked"
NOBODY: Final = "(none)"
_NOTE: Final = "held and used mean that a claim has the device; it is idle where no pod of the claim ran"
BY_AMOUNT: Final = "memory"
"""The capacity by which shares are compared, unless another one is named."""
AMOUNTS: Final = ("held", "idle", "unpublished", "cost", "waits", "waited", "median", "p90")
"""The columns of a row that are numbers, in their order."""
CARDS: Final = ("published", "used", "shared", "free", "tainted", "blocked", "unknown", IDLE)
"""Those of all cards."""
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
    note: str


def make_report(reader: Reader, query: ReportQuery) -> HistoryReport:
    """Return the report of a span of the record. Raises StoreError."""
    return _Report(reader, query).make()


class _Report:
    """Sums of a sweep, and of waits, by period and name of a row."""

    def __init__(self, reader: Reader, query: ReportQuery) -> None:
        self._reader = reader
        self._query = query
        self._held: dict[tuple[int, str], dict[tuple[str, int], list[int]]] = defaultdict(dict)
        """By class and denominator what was held, idle, and not published."""
        self._waits: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        """For how long each of what waited did, by its uid."""
        self._reasons: dict[tuple[int, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
        self._names = _read_names(reader, query)

    def make(self) -> HistoryReport:
        query, span = self._query, self._query.span
        sweep = Sweep(self._reader, span, by_amount=query.by_amount, every=query.every, row_of=self._row_of)
        sweep.run(read_holdings(self._reader, span))
        for (at, name, device_class, denominator), amounts in sweep.shares.items():
            self._held[at, name][device_class, denominator] = amounts
        if query.by is not Grouping.NODE:
            self._add_waits()
        periods = tuple(self._periods(sweep))
        published = sum((each.published for each in periods), Fraction(0))
        unknown = sum((each.unknown for each in periods), Fraction(0))
        unpriced = {
            device_class
            for (_, name), sums in self._held.items()
            for (device_class, _), (held, *_) in sums.items()
            if query.prices and held and device_class not in query.prices and name != OTHERS
        }
        return HistoryReport(
            query.label or query.by.value,
            time_text(span.since),
            time_text(span.until),
            tuple([self._row(*key) for key in sorted(self._held.keys() | self._waits.keys())]),
            periods,
            unknown / published if published else Fraction(0),
            "; ".join(
                [
                    _NOTE,
                    *self._check_namespace(),
                    *[f"class {name} has no price" for name in sorted(unpriced)],
                ]
            ),
        )

    def _check_namespace(self) -> Iterator[str]:
        names = {name for _, name in (*self._held, *self._waits)}
        if self._query.namespace and names <= {OTHERS}:
            yield f'in namespace "{self._query.namespace}" nothing was held, and nothing waited'

    def _row_of(self, claim: HoldingClaim, device_class: str, node: str) -> str:
        """Return the name of the row of what a claim holds."""
        match self._query.by:
            case Grouping.NAMESPACE:
                own = claim.namespace
            case Grouping.CLASS:
                own = device_class
            case Grouping.NODE:
                own = node
            case _:
                own = self._names.get(claim.pod, "")
        return OTHERS if self._is_other(claim.namespace) else own or NOBODY

    def _add_waits(self) -> None:
        (begin, last), every = self._query.span, self._query.every
        is_by_namespace, before = self._query.by is Grouping.NAMESPACE, None
        for uid, namespace, since, until, reason in self._reader.read_wait_times(self._query.span):
            at, end = max(since, begin), min(until, last)
            name = namespace if is_by_namespace else self._names.get(uid) or NOBODY
            if self._is_other(namespace):
                name = OTHERS
            while at < end:
                period = begin + (at - begin) // every * every if every else begin
                following = min(end, period + every) if every else end
                if (key := (period, name)) != before:
                    before, waits, reasons = key, self._waits[key], self._reasons[key]
                waits[uid] += following - at
                reasons[reason or _NOT_ASKED] += following - at
                at = following

    def _is_other(self, namespace: str) -> bool:
        return self._query.namespace not in ("", namespace)

    def _periods(self, sweep: Sweep[str]) -> Iterator[Period]:
        span, every, hours = self._query.span, self._query.every, sweep.hours()
        for since in range(span.since, span.until, every or max(span.until - span.since, 1)):
            until = min(since + every, span.until) if every else span.until
            states = {state: hours[since, state] for state in (*STATES, IDLE)}
            published = sum(states.values(), -states[IDLE])
            yield Period(time_text(since), time_text(until), published, **states)

    def _row(self, period: int, name: str) -> ReportRow:
        waits = sorted(self._waits[period, name].values())
        reasons = sorted(self._reasons[period, name].items(), key=lambda each: (-each[1], each[0]))
        held, cost = dict.fromkeys(_HELD, Fraction(0)), Fraction(0)
        for (device_class, denominator), amounts in self._held[period, name].items():
            for column, amount in zip(_HELD, amounts, strict=True):
                held[column] += Fraction(amount, denominator * HOUR)
            cost += Fraction(amounts[0], denominator * HOUR) * self._query.prices.get(device_class, 0)
        return ReportRow(
            name,
            time_text(period),
            **held,
            waits=len(waits),
            waited=Fraction(sum(waits), HOUR),
            median=Fraction(quantile(waits, 50), HOUR) if waits else None,
            p90=Fraction(quantile(waits, 90), HOUR) if waits else None,
            reasons=tuple([Reason(reason, Fraction(amount, HOUR)) for reason, amount in reasons]),
            cost=cost if self._query.prices else None,
        )


def quantile(values: Sequence[int], percent: int) -> int:
    """Return the smallest value that so many percent of some sorted ones do not exceed; 0 without any."""
    return values[-(-len(values) * percent // 100) - 1] if values else 0


def _read_names(reader: Reader, query: ReportQuery) -> dict[str, str]:
    """Return what rows pods are in, and by class claims, by uid, as they were last; nothing by namespace and node."""
    found = dict[str, str]()
    if query.by is Grouping.CLASS:
        classes = dict[tuple[str, str], str]()
        for row in _read_last(reader, query.span, "ResourceClaim"):
            classes[row.namespace, row.name] = found[row.uid] = first_class(row.content)
        for row in _read_last(reader, query.span, "Pod"):
            # Those that it names, and those that were made for it.
            entries = (row.body.get("spec") or {}).get("resourceClaims") or ()
            made = (row.body.get("status") or {}).get("resourceClaimStatuses") or ()
            names = [(row.namespace, each.get("resourceClaimName")) for each in (*entries, *made)]
            found[row.uid] = next((classes[each] for each in names if each in classes), "")
    elif query.by in (Grouping.OWNER, Grouping.LABEL):
        for row in _read_last(reader, query.span, "Pod"):
            metadata = row.body["metadata"]
            owners = [each for each in metadata.get("ownerReferences") or () if each.get("controller")]
            kind, name = (owners[0]["kind"], owners[0]["name"]) if owners else ("Pod", row.name)
            label = str((metadata.get("labels") or {}).get(query.label) or "")
            found[row.uid] = label if query.by is Grouping.LABEL else f"{row.namespace}/{kind}/{name}"
    return found


def _read_last(reader: Reader, span: Span, kind: str) -> Iterable[StateRow]:
    """Return the last states of objects in a span."""
    return {row.uid: row for row in reader.read_states(span, kind)}.values()


def read_prices(path: str) -> dict[str, Fraction]:
    """Return a price list: a file with a mapping of classes to numbers. Raises QuestionError for another."""
    try:
        listed = yaml.safe_load(Path(path).read_text(encoding="utf-8")).items()
        wrong = next(
            (name for name, price in listed if not isinstance(price, int | float) or price < 0), None
        )
        if wrong is not None:
            raise QuestionError(f"{path}: {wrong}: write a number, the price of a card-hour")
        return {str(name): Fraction(str(price)) for name, price in listed}
    except AttributeError:
        raise QuestionError(f"{path}: write one `CLASS: PRICE` a line, the price of a card-hour") from None
    except (OSError, ValueError, ZeroDivisionError, yaml.YAMLError) as error:
        raise QuestionError(f"{path}: {error}") from error
