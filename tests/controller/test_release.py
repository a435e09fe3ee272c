"""What a claim needs that takes no decision."""

import pytest
from cycle_bench import event_reasons, writes

from cluster import FINALIZER, PENDING, allocation, claim
from dra_operator.cluster.writes import (
    AnnotateWrite,
    DeallocateWrite,
    NoAllocation,
    NoFinalizer,
    Written,
    steps,
)

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("status", "patches"),
    [({"allocation": allocation()}, [NoAllocation, NoFinalizer]), ({}, [NoFinalizer])],
    ids=["allocated", "not allocated"],
)
def test_a_deleted_claim_loses_its_devices_before_it_can_vanish(bench, status, patches):
    """The finalizer goes last, and nothing is cleared that is not there."""
    (write,) = writes(
        bench.run(bench.delta(claim(finalizers=[FINALIZER], **GOING), **status)), DeallocateWrite
    )

    assert [type(step) for step in steps(write)] == patches


def test_nothing_is_written_to_a_claim_that_is_being_deleted_but_what_lets_it_go(bench):
    """What others hold is theirs, and our annotation goes with it."""
    going = claim(finalizers=["example.com/own"], annotations={PENDING: "waits"}, **GOING)

    assert bench.run(bench.delta(going)) == []


def test_an_annotation_that_somebody_took_off_is_written_again(bench, clock):
    """The claim still waits, and says so."""
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)
    bench.run(bench.delta(claim(annotations={PENDING: annotate.text})), Written(annotate, {}))
    clock.now += 60
    effects = bench.run(bench.delta(claim()))

    assert [write.text for write in writes(effects, AnnotateWrite)] == [annotate.text]
    assert event_reasons(effects) == []
