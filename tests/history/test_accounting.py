"""A report over a whole record is what an independent reader of the watch comes to, gaps included, exactly."""

import os
from collections import Counter, defaultdict
from fractions import Fraction

import pytest

from dra_operator.history.reader import Reader
from dra_operator.history.report import Grouping, ReportQuery, make_report
from dra_operator.history.schema import MICRO, open_store

from .test_recorder import check_order
from .watching import account, play_watched, waits_of

CASES = int(os.environ.get("N", "12"))
FIRST = int(os.environ.get("SEED", "0"))
EVERY = 7 * MICRO
HOUR = 3600 * MICRO
STATES = ("used", "shared", "free", "tainted", "blocked", "unknown")


def check_cards(reader, log, *, by, every):
    """Compare each period of a report, and all that its rows come to."""
    report = make_report(reader, ReportQuery(reader.span, by, every=every))
    expected = defaultdict(Counter)
    for period, since in zip(report.periods, range(*reader.span, every or reader.span.until), strict=True):
        until = min(since + every, reader.span.until) if every else reader.span.until
        states, rows = account(log, since, until)
        assert {name: getattr(period, name) * HOUR for name in (*STATES, "idle")} == {
            name: states[name] for name in (*STATES, "idle")
        }
        assert sum(getattr(period, name) for name in STATES) == period.published
        for name, row in rows.items():
            expected[name] += row
    told = defaultdict(Counter)
    for row in report.rows:
        told[row.name] += Counter(
            {name: getattr(row, name) * HOUR for name in ("held", "idle", "unpublished")}
        )
    named = {row.name for row in report.rows} | ({"team-a", "team-b"} if by is Grouping.NAMESPACE else set())
    nodes = {"node-1", "node-2", "node-3", "(none)"} if by is Grouping.NODE else named
    assert {name: +row for name, row in told.items() if +row} == {
        name: row for name, row in expected.items() if name in nodes
    }


def check_waits(reader, log):
    """Compare when pods waited, whatever the reasons, and the hours of the report with the waits of the record."""
    found, hours = defaultdict(list), Counter()
    for row in reader.read_waits(reader.span):
        hours[row.namespace] += Fraction(
            min(row.until, reader.span.until) - max(row.since, reader.span.since), HOUR
        )
        if row.kind != "Pod":
            continue
        spans = found[row.uid]
        if spans and spans[-1][1] == row.since:
            spans[-1] = spans[-1][0], row.until
        else:
            spans.append((row.since, row.until))
    assert found == waits_of(log)
    assert {
        row.name: row.waited for row in make_report(reader, ReportQuery(reader.span)).rows if row.waited
    } == +hours


@pytest.mark.timeout(0)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + CASES))
async def test_report_is_what_a_watch_comes_to(tmp_path, seed):
    """States, holders, idle time and waits of pods over kills, lost watches, stalls and clocks that step are exact."""
    url = f"sqlite:///{tmp_path}/history.db"
    log = await play_watched(url, seed)
    reader = Reader(open_store(url))

    check_order(reader)
    for by, every in ((Grouping.NAMESPACE, 0), (Grouping.NODE, EVERY)):
        check_cards(reader, log, by=by, every=every)
    check_waits(reader, log)
