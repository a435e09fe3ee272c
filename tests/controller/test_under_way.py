"""What is told of a claim that waits while its allocation is being written."""

from dataclasses import replace

import pytest
from cycle_bench import FITS, event_reasons, writes

from cluster import claim
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import (
    AllocateWrite,
    AnnotateWrite,
    Forbidden,
    Refused,
    Unaccepted,
    Unanswered,
    Written,
)
from dra_operator.controller.cycle import Tick

AWAY = "failed calling webhook"


@pytest.fixture
def again(bench, write, clock):
    """The second attempt to write an allocation; the first one failed, which was told on the claim."""
    (annotate,) = writes(bench.run(Unaccepted(write, None, AWAY)), AnnotateWrite)
    bench.run(bench.delta(claim(annotations={PENDING_ANNOTATION: annotate.text})), Written(annotate, {}))
    clock.now += 1
    (again,) = writes(bench.run())
    return again


def test_a_claim_counts_as_waiting_until_its_write_has_succeeded(bench, again):
    """A webhook that is away makes each attempt last a minute; who looks meanwhile sees the claim."""
    assert bench.metric("pending_claims", reason="AllocationRefused") == 1

    bench.run(bench.delta(claim(), allocation=dict(again.allocation)), Written(again, {}))
    assert bench.metric("pending_claims", reason="AllocationRefused") is None


def test_the_event_of_a_claim_is_refreshed_while_its_write_is_under_way(bench, again, clock):
    """`kubectl describe` goes on to say why it waits."""
    clock.now += 1200

    assert event_reasons(bench.run()) == ["AllocationRefused"]


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (lambda write: Unaccepted(write, None, AWAY), "does not accept"),
        (lambda write: Refused(write, AWAY), "refuses"),
    ],
    ids=["not accepted", "refused"],
)
def test_a_write_that_fails_as_before_is_no_news_and_annotated_at_once(bench, again, outcome, why):
    """The patch of the finalizer took the annotation off; the Event still stands."""
    bench.run(bench.delta(claim()))
    effects = bench.run(outcome(again))

    assert event_reasons(effects) == []
    assert [write.text for write in writes(effects, AnnotateWrite)] == [
        f"the API server {why} the allocation: {AWAY}"
    ]


def test_an_annotation_that_was_due_wakes_nobody_while_a_write_is_under_way(bench, clock):
    """It cannot be written before the write is answered: a pass for it would follow upon another in a hot loop."""
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)
    bench.run(Refused(annotate, "no"))
    assert bench.wake_at == clock.now + 20
    bench.allocator.answers = {"claim": FITS}
    bench.run(Tick())
    clock.now += 30
    bench.run()

    assert bench.wake_at > clock.now


def test_a_claim_that_waits_for_a_right_counts_as_that_and_no_more_as_what_it_waited_for(bench, again):
    """There are devices for it now, and no webhook is in the way."""
    error = ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims/status")
    bench.run(Forbidden(again, error))

    assert (
        bench.metric("pending_claims", reason="Forbidden"),
        bench.metric("pending_claims", reason="AllocationRefused"),
    ) == (1, None)


def test_a_claim_whose_allocation_was_cleared_meanwhile_is_told_anew_why_it_waits(bench, again):
    """It had what it wants in between."""
    stored = bench.delta(claim(), allocation=dict(again.allocation))
    (third,) = writes(bench.run(stored, bench.delta(claim()), Written(again, {})), AllocateWrite)

    assert event_reasons(bench.run(Unaccepted(third, None, AWAY))) == ["AllocationRefused"]


def test_a_claim_that_was_made_anew_counts_no_more_for_what_the_one_before_waited(bench, again):
    """It has waited for nothing yet, and its devices are on their way."""
    bench.run(Unaccepted(again, None, AWAY))
    old = bench.delta(claim())
    gone, new = replace(old, body=None), bench.delta(claim(uid="another"))
    (write,) = writes(bench.run(gone, new))

    assert write.uid == "another"
    assert bench.metric("pending_claims", reason="AllocationRefused") is None


def test_a_write_that_gets_no_answer_is_told_by_event_and_gauge_until_it_does(bench, write, clock):
    """Nothing else happens to the claim meanwhile: its devices may have been stored."""
    effects = bench.run(Unanswered(write, "PATCH /...: no answer in time"))

    assert (event_reasons(effects), writes(effects)) == (["AllocationRefused"], [])
    assert bench.metric("pending_claims", reason="AllocationRefused") == 1
    assert bench.metric("writes_total", kind="allocate", outcome="unanswered") == 1
    assert bench.wake_at > clock.now

    bench.run(bench.delta(claim(), allocation=dict(write.allocation)), Written(write, {}))
    assert bench.metric("pending_claims", reason="AllocationRefused") is None


def test_an_annotation_that_gets_no_answer_is_nobodys_trouble(bench):
    """It holds nothing else up."""
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)

    assert event_reasons(bench.run(Unanswered(annotate, "cut"))) == []
