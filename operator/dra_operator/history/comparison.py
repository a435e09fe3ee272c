"""Comparison: how long jobs waited and what they had, by the record, by a replay, and by one with other objects.

Source: docs/history.md, "Replay".
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from dra_operator.api.types import AllocationResult
from dra_operator.history.holdings import Holding, HoldingClaim, read_holdings
from dra_operator.history.jobs import NOBODY, Job, Jobs, read_jobs
from dra_operator.history.reader import Reader, Span, time_text
from dra_operator.history.replay import Order, Replay, Run
from dra_operator.history.schema import MICRO
from dra_operator.history.sweep import Amount, Sweep
from dra_operator.history.timeline import ChangedHistory, Changes, History
from dra_operator.inventory import PoolKey

RECORD: Final = "record"
REPLAY: Final = "replay"
CHANGED: Final = "changed"
_HOUR: Final = 3600 * MICRO
_OF_ALL: Final = ("", "")
_NOT_SIMULATED: Final = (
    "groups, affinity to pods, topology spread, volumes and preemption are not simulated",
    "pods without claims lie on their nodes as recorded",
    "each job runs as long as it did, on the first node by name that has what it asks for",
)


@dataclass(frozen=True, slots=True)
class ReplayQuery:
    """What is replayed: a span, in which order jobs are tried, and what is otherwise than recorded."""

    span: Span
    changes: Changes = field(default_factory=Changes)
    order: Order = Order.FIFO
    by_amount: str = "memory"


@dataclass(frozen=True, slots=True)
class ReplayRow:
    """Jobs of a namespace and class, or all, by the record, the replay or the changed one.

    `waits` are jobs that came in the span, of which `unserved` still waited at its end; p50, p90 and mean are seconds,
    those of the unserved up to the end. `held` is what jobs had of published cards, in card-hours.
    """

    namespace: str
    device_class: str
    source: str
    waits: int
    unserved: int
    p50: float
    p90: float
    mean: float
    held: Fraction


@dataclass(frozen=True, slots=True)
class ReplayCards:
    """All cards by state, in card-hours."""

    source: str
    published: Fraction
    used: Fraction
    shared: Fraction
    free: Fraction
    tainted: Fraction
    blocked: Fraction
    unknown: Fraction


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What jobs waited for, and cards by state: by the record, by its replay, and by the changed one."""

    since: str
    until: str
    rows: tuple[ReplayRow, ...]
    cards: tuple[ReplayCards, ...]
    notes: tuple[str, ...]


class _Cards:
    """Sums of a sweep: cards by state, and what of them is held by namespace and class."""

    def __init__(self) -> None:
        self.states: dict[str, Amount] = defaultdict(int)
        self.held: dict[tuple[str, str], Amount] = defaultdict(int)

    def add_state(self, at: int, state: str, amount: Amount, idle: Amount) -> None:  # noqa: ARG002
        """Add cards in a state."""
        self.states[state] += amount

    def add_share(self, at: int, holding: Holding, node: str, amount: Amount, idle: Amount) -> None:  # noqa: ARG002
        """Add what a claim had."""
        for key in ((holding.claim.namespace, holding.device_class or NOBODY), _OF_ALL):
            self.held[key] += amount

    def add_unpublished(self, at: int, holding: Holding, amount: Amount) -> None:
        """Leave out what is not published."""


@dataclass(slots=True)
class _Part:
    """One of the three: when each job started, and the cards."""

    source: str
    started: Mapping[Job, int]
    cards: _Cards


def compare(reader: Reader, query: ReplayQuery) -> ReplayReport:
    """Return what a replay of a record comes to, beside what is recorded, and one with other objects, if there are any.

    Raises StoreError.
    """
    span = query.span
    kept = ChangedHistory(reader, Changes())
    jobs = read_jobs(kept, span)
    recorded = {job: span.until if job.started is None else job.started for job in jobs.items}
    parts = [
        _Part(RECORD, recorded, _sum_up(reader, query, read_holdings(reader, span))),
        replay(kept, jobs, query, REPLAY),
    ]
    if query.changes != Changes():
        changed = ChangedHistory(reader, query.changes)
        # Jobs of other templates are others.
        parts.append(replay(changed, read_jobs(changed, span), query, CHANGED))
    return build_report(parts, query, jobs)


def replay(history: History, jobs: Jobs, query: ReplayQuery, source: str) -> _Part:
    """Return what becomes of jobs."""
    simulation = Replay(history, query.span, jobs.items, query.order)
    runs = simulation.run()
    started = dict.fromkeys(jobs.items, query.span.until) | {run.job: run.started for run in runs}
    holdings = _holdings([*runs, *simulation.shared_runs], query.span)
    return _Part(source, started, _sum_up(history, query, holdings))


def _sum_up(
    history: History, query: ReplayQuery, holdings: Mapping[PoolKey, Mapping[str, list[Holding]]]
) -> _Cards:
    cards = _Cards()
    Sweep(history, query.span, cards, by_amount=query.by_amount).run(holdings)
    return cards


def _holdings(runs: Iterable[Run], span: Span) -> dict[PoolKey, dict[str, list[Holding]]]:
    """Return what runs had, by pool and device, in the order of their beginning."""
    found: dict[PoolKey, dict[str, list[Holding]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        claim = HoldingClaim(run.job.namespace, run.job.name, "")
        until = span.until if run.ended is None else min(run.ended, span.until)
        for allocation in run.allocations:
            _add_holdings(found, allocation, claim, run.job.device_class, Span(run.started, until))
    return found


def _add_holdings(
    found: dict[PoolKey, dict[str, list[Holding]]],
    allocation: AllocationResult,
    claim: HoldingClaim,
    device_class: str,
    span: Span,
) -> None:
    for result in allocation.devices.results:
        if not result.admin_access:
            amounts = {name: each.nano for name, each in result.consumed_capacity.items()}
            holding = Holding(*span, claim, result.device, device_class, bool(result.share_id), amounts)
            found[result.driver, result.pool][result.device].append(holding)


def build_report(parts: Sequence[_Part], query: ReplayQuery, jobs: Jobs) -> ReplayReport:
    """Return the answer: rows of all jobs first, and each with what it is by the record and by replays."""
    span = query.span
    keys = sorted({(job.namespace, job.device_class) for job in jobs.items})
    notes = [
        f"{number:,} of {len(jobs.items):,} jobs {line}" for line, number in jobs.counts.items() if number
    ]
    return ReplayReport(
        time_text(span.since),
        time_text(span.until),
        tuple([_build_row(part, key, span) for key in (_OF_ALL, *keys) for part in parts]),
        tuple([_build_cards(part) for part in parts]),
        (*notes, *_NOT_SIMULATED),
    )


def _build_row(part: _Part, key: tuple[str, str], span: Span) -> ReplayRow:
    waits, unserved = [], 0
    for job, started in part.started.items():
        if key in (_OF_ALL, (job.namespace, job.device_class)) and not job.is_old:
            waits.append(max(min(started, span.until) - job.arrival, 0) / MICRO)
            unserved += started >= span.until
    waits.sort()
    held = Fraction(part.cards.held.get(key, 0)) / _HOUR
    mean = sum(waits) / len(waits) if waits else 0.0
    return ReplayRow(
        *key, part.source, len(waits), unserved, _quantile(waits, 50), _quantile(waits, 90), mean, held
    )


def _build_cards(part: _Part) -> ReplayCards:
    states = {
        state: Fraction(part.cards.states[state]) / _HOUR
        for state in ("used", "shared", "free", "tainted", "blocked", "unknown")
    }
    return ReplayCards(part.source, sum(states.values(), Fraction(0)), **states)


def _quantile(values: Sequence[float], percent: int) -> float:
    return values[-(-len(values) * percent // 100) - 1] if values else 0.0
