"""What is told of a claim that waits while its allocation is being written."""

from dataclasses import replace

import pytest
from cycle_bench import FITS, event_reasons, said_by, writes

from cluster import claim
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import Denied, Stored
from dra_operator.controller.cycle import Tick

AWAY = "failed calling webhook"


@pytest.fixture
def again(bench, write, clock):
    """The second attempt to write an allocation; the first one failed, which was told on the claim."""
    (annotate,) = writes(bench.run(Denied(write, AWAY)), "annotate")
    bench.run(bench.delta(claim(annotations={PENDING_ANNOTATION: said_by(annotate)})), Stored(annotate, {}))
    clock.now += 1
    (again,) = writes(bench.run())
    return again


def test_a_claim_counts_as_waiting_until_its_write_has_succeeded(bench, again):
    """A webhook that is away makes each attempt last a minute; who looks meanwhile sees the claim."""
    assert bench.metric("pending_claims", reason="AllocationRefused") == 1

    bench.run(bench.delta(claim(), allocation=dict(again.allocation)), Stored(again, {}))
    assert bench.metric("pending_claims", reason="AllocationRefused") is None


def test_the_event_of_a_claim_is_refreshed_while_its_write_is_under_way(bench, again, clock):
    """`kubectl describe` goes on to say why it waits."""
    clock.now += 1200

    assert event_reasons(bench.run()) == ["AllocationRefused"]


def test_a_write_that_fails_as_before_is_no_news_and_annotated_at_once(bench, again):
    """The patch of the finalizer took the annotation off; the Event still stands."""
    bench.run(bench.delta(claim()))
    effects = bench.run(Denied(again, AWAY))

    assert event_reasons(effects) == []
    assert [said_by(write) for write in writes(effects, "annotate")] == [
        f"the API server refuses the allocation: {AWAY}"
    ]


def test_an_annotation_that_was_due_wakes_nobody_while_a_write_is_under_way(bench, clock):
    """It cannot be written before the write is answered: a pass for it would follow upon another in a hot loop."""
    (annotate,) = writes(bench.run(bench.delta(claim())), "annotate")
    bench.run(Denied(annotate, "no"))
    assert bench.wake_at == clock.now + 20
    bench.allocator.answers = {"claim": FITS}
    bench.run(Tick())
    clock.now += 30
    bench.run()

    assert bench.wake_at > clock.now


def test_a_claim_that_waits_for_a_right_counts_as_that_and_no_more_as_what_it_waited_for(bench, again):
    """There are devices for it now, and no webhook is in the way."""
    error = ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims/status")
    bench.run(Denied(again, "no", error))

    assert (
        bench.metric("pending_claims", reason="Forbidden"),
        bench.metric("pending_claims", reason="AllocationRefused"),
    ) == (1, None)


def test_a_claim_whose_allocation_was_cleared_meanwhile_is_told_anew_why_it_waits(bench, again):
    """It had what it wants in between."""
    stored = bench.delta(claim(), allocation=dict(again.allocation))
    (third,) = writes(bench.run(stored, bench.delta(claim()), Stored(again, {})), "allocate")

    assert event_reasons(bench.run(Denied(third, AWAY))) == ["AllocationRefused"]


def test_a_claim_that_was_made_anew_counts_no_more_for_what_the_one_before_waited(bench, again):
    """It has waited for nothing yet, and its devices are on their way."""
    bench.run(Denied(again, AWAY))
    old = bench.delta(claim())
    gone, new = replace(old, body=None), bench.delta(claim(uid="another"))
    (write,) = writes(bench.run(gone, new))

    assert write.uid == "another"
    assert bench.metric("pending_claims", reason="AllocationRefused") is None
