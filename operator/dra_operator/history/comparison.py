"""Comparison: how long jobs waited and what they had, by the record, by a replay, and by one with other objects.

Source: docs/history.md, "Replay".
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import fmean
from typing import Final

from dra_operator.api.text import did_you_mean, near_object
from dra_operator.history.holdings import Holding, HoldingClaim, read_holdings
from dra_operator.history.jobs import Job, Jobs, read_jobs
from dra_operator.history.reader import Reader, Span, time_text
from dra_operator.history.replay import Order, Replay, Run, UnservedJobs
from dra_operator.history.report import BY_AMOUNT, NOBODY, quantile
from dra_operator.history.schema import MICRO
from dra_operator.history.sweep import HOUR, STATES, Sweep
from dra_operator.history.timeline import ChangedHistory, Changes, History
from dra_operator.inventory import PoolKey
from dra_operator.questions.answers import QuestionError

RECORD: Final = "record"
REPLAY: Final = "replay"
CHANGED: Final = "changed"
_OF_ALL: Final = ("", "")
_NOT_SIMULATED: Final = (
    "groups, affinity to pods, topology spread, volumes and preemption are not simulated",
    "each job runs on the first node by name that has what it asks for",
)
_MOST_EXPLAINED: Final = 5
_AS_RECORDED: Final = (
    "pods without claims lie on their nodes as recorded, and each job runs as long as it did"
)


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
    """What jobs waited for, and cards by state: by the record, by its replay, and by the changed one.

    `unserved` are jobs that wait at the end of the last of them, the shapes of which there are most.
    """

    since: str
    until: str
    rows: tuple[ReplayRow, ...]
    cards: tuple[ReplayCards, ...]
    unserved: tuple[UnservedJobs, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Part:
    """One of the three: when each job started; in card-hours what namespaces held of classes, and cards by state."""

    source: str
    started: Mapping[Job, int]
    held: Mapping[tuple[str, str], Fraction]
    states: Mapping[str, Fraction]
    unserved: tuple[UnservedJobs, ...] = ()

    def build_row(self, key: tuple[str, str], span: Span) -> ReplayRow:
        """Return what became of the jobs of a namespace and class, or of all."""
        starts = [
            (job.arrival, started)
            for job, started in self.started.items()
            if key in (_OF_ALL, (job.namespace, job.device_class)) and not job.is_old
        ]
        waits = sorted(max(min(at, span.until) - arrival, 0) for arrival, at in starts)
        return ReplayRow(
            *key,
            self.source,
            len(waits),
            sum(at >= span.until for _, at in starts),
            quantile(waits, 50) / MICRO,
            quantile(waits, 90) / MICRO,
            fmean(waits) / MICRO if waits else 0.0,
            self.held.get(key, Fraction(0)),
        )

    def build_cards(self) -> ReplayCards:
        """Return the cards by state."""
        return ReplayCards(self.source, sum(self.states.values(), Fraction(0)), **self.states)


def _build_part(
    source: str,
    started: Mapping[Job, int],
    history: History,
    span: Span,
    holdings: Mapping[PoolKey, Sequence[Holding]],
) -> _Part:
    sweep = Sweep(
        history, span, by_amount=BY_AMOUNT, row_of=lambda claim, name, _: (claim.namespace, name or NOBODY)
    )
    sweep.run(holdings)
    held: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
    for (_, row, _, denominator), (amount, *_) in sweep.shares.items():
        for key in (row, _OF_ALL):
            held[key] += Fraction(amount, denominator * HOUR)
    hours = sweep.hours()
    return _Part(source, started, held, {state: hours[span.since, state] for state in STATES})


def compare(reader: Reader, span: Span, changes: Changes, order: Order) -> ReplayReport:
    """Return what a replay of a record comes to, beside what is recorded, and one with other objects, if there are any.

    Raises StoreError, and QuestionError for objects that are to be left out and never were.
    """
    kept = ChangedHistory(reader, Changes())
    jobs = read_jobs(kept, span)
    started = {job: span.until if job.started is None else job.started for job in jobs.items}
    parts = [_build_part(RECORD, started, reader, span, read_holdings(reader, span))]
    parts += [_replay(REPLAY, kept, span, jobs, order)]
    if changes != Changes():
        _refuse_unknown(changes, reader, span, jobs)
        changed = ChangedHistory(reader, changes)
        # Jobs of other templates are others.
        parts.append(_replay(CHANGED, changed, span, read_jobs(changed, span), order))
    return _build_report(span, jobs, parts, _AS_RECORDED)


def compare_planned(history: History, jobs: Jobs, changes: Changes, order: Order) -> ReplayReport:
    """Return what jobs that nobody recorded come to, up to when the last of them ends, and with other objects.

    Raises QuestionError for objects that are to be left out and are not there.
    """
    _refuse_unknown(changes, history, history.span, jobs)
    runs = list[tuple[str, ChangedHistory, Replay]]()
    until = max(job.arrival for job in jobs.items)
    for source in (REPLAY, CHANGED) if changes != Changes() else (REPLAY,):
        changed = ChangedHistory(history, changes if source == CHANGED else Changes())
        runs.append((source, changed, Replay(changed, history.span, jobs.items, order)))
        until = max(until, *[run.ended or run.started for run in runs[-1][-1].run()], 0)
    span = Span(history.span.since, until + 1)
    parts = [_sum_up(source, changed, span, jobs, replay) for source, changed, replay in runs]
    return _build_report(span, jobs, parts)


def _refuse_unknown(changes: Changes, history: History, span: Span, jobs: Jobs) -> None:
    for kind, name in sorted(changes.removed):
        names = {row.name for row in history.read_states(span, kind)}
        if kind == "Namespace":
            names |= {job.namespace for job in jobs.items}
        if name not in names:
            hint = did_you_mean(near_object(name, names))
            raise QuestionError(f'--without: there was no {kind} "{name}"{hint}')


def _build_report(span: Span, jobs: Jobs, parts: Sequence[_Part], *notes: str) -> ReplayReport:
    keys = sorted({(job.namespace, job.device_class) for job in jobs.items})
    counts = [
        f"{number:,} of {len(jobs.items):,} jobs {line}" for line, number in jobs.counts.items() if number
    ]
    return ReplayReport(
        time_text(span.since),
        time_text(span.until),
        tuple([part.build_row(key, span) for key in (_OF_ALL, *keys) for part in parts]),
        tuple([part.build_cards() for part in parts]),
        parts[-1].unserved,
        (*counts, *_NOT_SIMULATED, *notes),
    )


def _replay(source: str, history: ChangedHistory, span: Span, jobs: Jobs, order: Order) -> _Part:
    """Return what becomes of jobs."""
    replay = Replay(history, span, jobs.items, order)
    replay.run()
    return _sum_up(source, history, span, jobs, replay)


def _sum_up(source: str, history: ChangedHistory, span: Span, jobs: Jobs, replay: Replay) -> _Part:
    started = dict.fromkeys(jobs.items, span.until) | {run.job: run.started for run in replay.runs}
    part = _build_part(
        source, started, history, span, _read_holdings([*replay.runs, *replay.shared_runs], span)
    )
    return replace(part, unserved=tuple(replay.find_unserved(_MOST_EXPLAINED)))


def _read_holdings(runs: Iterable[Run], span: Span) -> Mapping[PoolKey, Sequence[Holding]]:
    """Return what runs had, by pool, in the order of their beginning."""
    found: dict[PoolKey, list[Holding]] = defaultdict(list)
    for run in runs:
        claim = HoldingClaim(run.job.namespace, run.job.name, "")
        until = span.until if run.ended is None else min(run.ended, span.until)
        for result in (each for allocation in run.allocations for each in allocation.devices.results):
            if result.admin_access:
                continue
            amounts = {name: each.nano for name, each in result.consumed_capacity.items()}
            is_share, device_class = bool(result.share_id), run.job.device_class
            holding = Holding(run.started, until, claim, (result.device,), device_class, is_share, amounts)
            found[result.driver, result.pool].append(holding)
    return found
