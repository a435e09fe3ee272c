"""The record has what lists of the API server had at the time, over kills, gaps and clocks that are wrong."""

import os

import pytest

from dra_operator.history.reader import Reader, Span
from dra_operator.history.schema import MICRO, StoreError, open_store

from .histories import plain, play

CASES = int(os.environ.get("N", "3"))


def check_moments(reader, moments):
    """Compare the state of each time with what was listed then; none is told of a gap."""
    for at, _, bodies in moments:
        assert plain(reader.read_moment(at).bodies) == plain(bodies)
    for gap in reader.gaps:
        with pytest.raises(StoreError, match="is in a gap"):
            reader.read_moment((gap.since + gap.until) // 2)


def check_order(reader):
    """States of one name follow each other without overlap; of one object each hole is a gap, and gaps are apart."""
    ends, lasts = {}, {}
    for row in reader.read_states(reader.span):
        key = row.kind, row.namespace, row.name
        assert ends.get(key, 0) <= row.since <= row.until
        if row.uid and (last := lasts.get((*key, row.uid))) is not None:
            assert last == row.since or Span(last, row.since) in reader.gaps
        ends[key] = lasts[*key, row.uid] = row.until
    spans = [reader.span.since, *[each for gap in reader.gaps for each in gap], reader.span.until]
    assert spans == sorted(spans)


def check_waits(reader, moments):
    """A pod waits as long as it is listed without a node; only one with a gate is `Gated`."""
    span = Span(reader.span.since, reader.span.until + 1)
    waits = [row for row in reader.read_waits(span) if row.kind == "Pod"]
    for at, _, bodies in moments:
        pods = [body for body in bodies if body["kind"] == "Pod" and not body["spec"].get("nodeName")]
        uids = {body["metadata"]["uid"] for body in pods}
        told = [row for row in waits if row.since <= at and (at < row.until or row.is_open)]
        # Creation is told in whole seconds.
        told = [row for row in told if row.uid in uids or at - row.since >= MICRO]
        assert sorted(row.uid for row in told) == sorted(body["metadata"]["uid"] for body in pods)
        gated = {body["metadata"]["uid"] for body in pods if body["spec"].get("schedulingGates")}
        assert {row.uid for row in told if row.reason == "Gated"} <= gated
        assert {row.uid for row in told if row.reason not in ("", "Gated")}.isdisjoint(gated)


@pytest.mark.parametrize("seed", range(CASES))
async def test_record_has_what_was_listed(tmp_path, seed):
    """Over kills, lost watches and clocks that step, the state of a time is what was listed then; waits are true."""
    url = f"sqlite:///{tmp_path}/history.db"
    recording = await play(url, seed)
    reader = Reader(open_store(url))

    check_moments(reader, recording.moments)
    check_order(reader)
    check_waits(reader, recording.moments)
