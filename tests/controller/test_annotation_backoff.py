"""Claims from which our annotation cannot be taken off: nothing else waits for that."""

from dataclasses import replace

import pytest
from cycle_bench import FITS, KEY, writes

from cluster import FINALIZER, PENDING, allocation, claim
from dra_operator.cluster.writes import AnnotateWrite, DeallocateWrite, Refused, Written


@pytest.fixture
def stubborn(bench):
    """A claim that has its devices, and keeps our annotation by a policy."""
    told = {"finalizers": [FINALIZER], "annotations": {PENDING: "waits"}}
    (annotate,) = writes(bench.run(bench.delta(claim(**told), allocation=allocation())), AnnotateWrite)
    assert writes(bench.run(Refused(annotate, "policy")), AnnotateWrite) == []
    return told


def test_a_claim_whose_annotation_cannot_be_taken_off_is_let_go_at_once(bench, stubborn):
    """Whoever deletes it does not wait for a text."""
    deleted = claim(**stubborn, deletionTimestamp="2026-01-01T00:00:00Z")

    assert len(writes(bench.run(bench.delta(deleted, allocation=allocation())), DeallocateWrite)) == 1


def test_a_claim_whose_annotation_cannot_be_taken_off_is_decided_at_once(bench, stubborn):
    """When its allocation was cleared."""
    bench.allocator.answers = {"claim": FITS}

    assert len(writes(bench.run(bench.delta(claim(**stubborn))))) == 1


def test_an_annotation_that_cannot_be_taken_off_is_tried_less_and_less_often(bench, stubborn, clock):
    """Also when the claim changes, and until it is gone."""
    for seconds in (10, 20, 40):
        clock.now += seconds - 1
        again = bench.delta(claim(**stubborn), allocation=allocation())
        assert writes(bench.run(again), AnnotateWrite) == []
        assert bench.wake_at == clock.now + 1
        clock.now += 1
        (annotate,) = writes(bench.run(), AnnotateWrite)
        bench.run(Refused(annotate, "policy"))

    clock.now += 80
    (annotate,) = writes(bench.run(), AnnotateWrite)
    bench.run(Written(annotate, {}))
    assert KEY not in bench.cycle._queue.annotation_backoff, "what was in vain is over"

    bench.run(replace(again, body=None))
    assert KEY not in bench.cycle._queue.annotation_backoff
