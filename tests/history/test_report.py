"""Card-hours and waits: what a report says is what lists of the API server come to, state by state, exactly."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise

import pytest

from dra_operator.history.reader import Moment, Reader, Span, build_state
from dra_operator.history.report import Grouping, ReportQuery, make_report
from dra_operator.history.schema import MICRO, open_store
from dra_operator.history.sweep import Sweep
from dra_operator.questions.usage import Grouping as UsageGrouping
from dra_operator.questions.usage import find_usage

from .histories import play
from .test_recorder import CASES

PARTS = {"part-0": Fraction(1, 2), "part-1": Fraction(1, 2), "part-2": Fraction(1), "gpu-9": Fraction(1, 4)}
"""What of a card devices are; the others are whole."""


def quiet_spans(reader, moments):
    """Yield the spans between two lists in which there was no gap, each with what was listed at its beginning."""
    for (at, _, bodies), (following, _, _) in pairwise(moments):
        if not any(gap.since < following and at < gap.until for gap in reader.gaps):
            yield Span(at, following), bodies


def naive_states(bodies):
    """Return how many devices of whole cards are in each state, as `top` says, and how many are idle."""
    state = build_state(Moment(0, tuple(bodies), {}, ""))
    rows = [row for row in find_usage(state, UsageGrouping.POOL).rows if not row.name.endswith("node-3")]
    return Counter(
        {
            name: sum(getattr(row, name) for row in rows)
            for name in ("used", "shared", "free", "tainted", "blocked", "idle")
        }
    )


def naive_holders(bodies):
    """Return which part of published cards each namespace holds."""
    published = {
        (body["spec"]["pool"]["name"], device["name"])
        for body in bodies
        if body["kind"] == "ResourceSlice"
        for device in body["spec"].get("devices") or ()
    }
    held = defaultdict(Fraction)
    for body in bodies:
        for each in (
            ((body.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results", ())
        ):
            if (each["pool"], each["device"]) in published:
                held[body["metadata"]["namespace"]] += PARTS.get(each["device"], Fraction(1))
    return held


@pytest.mark.parametrize("seed", range(CASES))
async def test_sums_are_those_of_lists(tmp_path, seed):
    """States of whole cards, and holders, have exactly the time that lists give them; a card is 1 in all."""
    url = f"sqlite:///{tmp_path}/history.db"
    recording = await play(url, seed)
    reader = Reader(open_store(url))
    pieces = []
    Sweep(reader, reader.span).run(lambda span, cards: pieces.append((span, cards)))
    for span, bodies in quiet_spans(reader, recording.moments):
        found, held, total = Counter(), defaultdict(Fraction), 0
        for piece, cards in pieces:
            length = min(piece.until, span.until) - max(piece.since, span.since)
            if length <= 0:
                continue
            for key, card in cards.items():
                for share in card.shares:
                    held[share.claim[0]] += share.part * length if share.is_published else 0
                if card.states:
                    assert sum(card.states.values()) == 1
                if key[1] != "node-3":
                    found.update({name: part * length for name, part in card.states.items()})
                    found["idle"] += card.idle * length
                    total += length if card.states else 0
        length = span.until - span.since
        expected = naive_states(bodies)
        assert {name: each for name, each in found.items() if each} == {
            name: number * length for name, number in expected.items() if number
        }
        assert {name: each for name, each in held.items() if each} == {
            name: part * length for name, part in naive_holders(bodies).items() if part
        }


@pytest.mark.parametrize("by", [*Grouping])
async def test_rows_come_to_the_same_by_any_grouping(tmp_path, by):
    """What is held and idle is the same in all, however it is grouped, and periods come to the whole."""
    url = f"sqlite:///{tmp_path}/history.db"
    await play(url, 7)
    reader = Reader(open_store(url))
    prices = {"gpu": Fraction(2)}
    whole = make_report(reader, ReportQuery(reader.span, prices=prices))
    other = make_report(reader, ReportQuery(reader.span, by, "project", 60 * MICRO, prices=prices))

    for name in ("held", "idle", "unpublished", "cost"):
        assert sum(getattr(row, name) for row in other.rows) == sum(getattr(row, name) for row in whole.rows)
    assert sum(row.cost for row in whole.rows) == 2 * sum(row.held for row in whole.rows)
    if by is not Grouping.NODE:
        assert sum(row.waited for row in other.rows) == sum(row.waited for row in whole.rows)
    (period,) = whole.periods
    for name in ("published", "used", "shared", "free", "tainted", "blocked", "unknown", "idle"):
        assert sum(getattr(each, name) for each in other.periods) == getattr(period, name)
    states = (period.used, period.shared, period.free, period.tainted, period.blocked, period.unknown)
    assert sum(states) == period.published
