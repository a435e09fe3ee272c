"""What is told of a claim that waits while its allocation is being written."""

from dataclasses import replace

import pytest
from cycle_bench import event_reasons, said_by, writes

from cluster import claim
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import Denied, Stored

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


def test_a_write_that_fails_as_before_is_no_news_and_annotated_at_once(bench, again):
    """The patch of the finalizer took the annotation off; the Event still stands."""
    bench.run(bench.delta(claim()))
    effects = bench.run(Denied(again, AWAY))

    assert event_reasons(effects) == []
    assert [said_by(write) for write in writes(effects, "annotate")] == [
        f"the API server refuses the allocation: {AWAY}"
    ]


def test_a_claim_that_waits_for_a_right_counts_as_that_and_no_more_as_what_it_waited_for(bench, again):
    """There are devices for it now, and no webhook is in the way."""
    error = ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims/status")
    bench.run(Denied(again, "no", error))

    assert (
        bench.metric("pending_claims", reason="Forbidden"),
        bench.metric("pending_claims", reason="AllocationRefused"),
    ) == (1, None)


def test_a_claim_that_was_made_anew_counts_no_more_for_what_the_one_before_waited(bench, again):
    """It has waited for nothing yet, and its devices are on their way."""
    bench.run(Denied(again, AWAY))
    old = bench.delta(claim())
    gone, new = replace(old, body=None), bench.delta(claim(uid="another"))
    (write,) = writes(bench.run(gone, new))

    assert write.uid == "another"
    assert bench.metric("pending_claims", reason="AllocationRefused") is None
