"""What the answer to a write means for its claim, and what a claim needs without a decision."""

from dataclasses import replace

import pytest
from cycle_bench import FITS, KEY, event_reasons, said_by, writes
from structlog.testing import capture_logs

from cluster import FINALIZER, PENDING, claim
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import Denied, Stale, Stored
from dra_operator.controller.claims import PodUse
from dra_operator.controller.cycle import Tick
from dra_operator.controller.facts import EventRequest


def denied(verb="patch"):
    """Return the refusal of a request."""
    return ApiError(403, "Forbidden", "no", verb=verb, resource="resourceclaims")


@pytest.mark.parametrize(
    "later",
    [
        lambda _bench, stored: [replace(stored, body=None)],
        lambda bench, _: [bench.delta(claim())],
        lambda bench, stored: [
            replace(stored, body=None),
            bench.delta(claim(uid="new"), allocation=stored.body["status"]["allocation"]),
        ],
    ],
    ids=["gone", "cleared again", "another's"],
)
def test_an_allocation_that_is_gone_by_now_is_not_announced(bench, write, later):
    """The answer may be late."""
    stored = bench.delta(claim(), allocation=dict(write.allocation))
    bench.allocator.answers = {}
    effects = bench.run(stored, *later(bench, stored), Stored(write, {}))

    assert "Allocated" not in event_reasons(effects)


def test_what_a_claim_needs_since_is_done_when_the_write_before_it_is_answered(bench):
    """It may have been deleted meanwhile, and nothing else may happen to it."""
    (annotate,) = writes(bench.run(bench.delta(claim())), "annotate")
    going = claim(finalizers=[FINALIZER], deletionTimestamp="2026-01-01T00:00:00Z")
    assert writes(bench.run(bench.delta(going)), "deallocate") == []

    (write,) = writes(bench.run(Stale(annotate, None, "nothing was sent")), "deallocate")
    with capture_logs() as logs:
        bench.run(Stored(write, {}))
    assert bench.metric("deallocations_total") == 1
    assert [(line["event"], line["claim"]) for line in logs] == [("deallocated", "default/claim")]


@pytest.mark.parametrize(
    "outcome",
    [
        lambda write: Stale(write, None, "changed"),
        lambda write: Stale(write, None, "it is gone"),
        lambda write: Denied(write, "no"),
        lambda write: Denied(write, "no", denied()),
    ],
    ids=["conflict", "gone", "refused", "forbidden"],
)
def test_a_write_that_did_not_happen_gives_its_device_back(bench, write, outcome):
    """What was assumed is withdrawn, and whoever waits for the device is tried."""
    bench.run(bench.delta(claim("other")))
    bench.run(outcome(write))

    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == set()
    assert bench.allocator.asked.count("other") == 2


def test_a_device_that_another_was_faster_to_take_is_no_collision(bench, write):
    """Until our write is stored one claim has it; that it is not stored is the rule."""
    taken = bench.delta(claim("other"), allocation=dict(write.allocation))

    assert event_reasons(bench.run(taken)) == []
    assert event_reasons(bench.run(Stale(write, None, "changed"))) == []


def test_a_refusal_is_told_and_put_off(bench, write, clock):
    """What the API server does not accept is tried again much later."""
    with capture_logs() as logs:
        effects = bench.run(Denied(write, "immutable"))
    assert "AllocationRefused" in event_reasons(effects)
    assert [(line["write"], line["why"]) for line in logs if line["event"] == "write refused"] == [
        ("allocate", "immutable")
    ]
    bench.run(Tick())
    assert bench.allocator.asked == ["claim"]

    clock.now += 11
    bench.run()
    assert bench.allocator.asked == ["claim", "claim"]


def test_a_write_that_failed_at_each_attempt_is_told_and_soon_tried_again(bench, write, clock):
    """A webhook that is away leaves no claim waiting without a word, neither on it nor in the numbers and the log."""
    away = Denied(write, "failed calling webhook")
    with capture_logs() as logs:
        effects = bench.run(away)
    assert event_reasons(effects) == ["AllocationRefused"]
    (annotate,) = writes(effects, "annotate")
    assert said_by(annotate) == "the API server refuses the allocation: failed calling webhook"
    assert bench.metric("pending_claims", reason="AllocationRefused") == 1
    assert [line["log_level"] for line in logs if line["event"] == "write refused"] == ["warning"]

    clock.now += 1.1
    bench.run(Denied(annotate, "failed calling webhook"))
    assert bench.allocator.asked == ["claim", "claim"]


def test_a_claim_that_cannot_be_let_go_says_so(bench):
    """Whoever deleted it and sees that it stays finds out why where they look first."""
    going = claim(finalizers=[FINALIZER])
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    (write,) = writes(bench.run(bench.delta(going)), "deallocate")
    effects = bench.run(Denied(write, "not today"))

    (notice,) = [effect for effect in effects if isinstance(effect, EventRequest)]
    assert (notice.reason, notice.message.endswith("which is being deleted: not today")) == (
        "AllocationRefused",
        True,
    )


@pytest.mark.parametrize(
    "arrivals",
    [
        lambda bench, write: (
            bench.delta(claim(), allocation=dict(write.allocation)),
            bench.delta(claim()),
        ),
        lambda bench, _: (Delta("ResourceClaim", *KEY, None), bench.delta(claim(uid="new"))),
    ],
    ids=["cleared", "recreated"],
)
def test_a_late_success_has_a_claim_that_waits_again_decided(bench, write, arrivals):
    """An allocation that was taken away before its answer came does not leave its claim behind."""
    bench.run(*arrivals(bench, write))
    bench.run(Stored(write, {}))

    assert bench.allocator.asked == ["claim", "claim"]


@pytest.mark.parametrize(
    "outcome",
    [
        lambda write: Denied(write, "policy"),
        lambda write: Denied(write, "no", denied()),
    ],
    ids=["refused", "forbidden"],
)
def test_an_annotation_that_cannot_be_written_does_not_put_the_allocation_off(bench, outcome):
    """Why a claim waits matters less than that it need not; the annotation is not tried again at once."""
    (annotate,) = writes(bench.run(bench.delta(claim())), "annotate")
    effects = bench.run(outcome(annotate))
    assert writes(effects, "annotate") == []
    assert "AllocationRefused" not in event_reasons(effects)
    assert bench.allocator.asked == ["claim"]
    bench.allocator.answers = {"claim": FITS}

    assert len(writes(bench.run(Tick()))) == 1


def test_an_allocation_decided_while_an_annotation_is_on_its_way_is_held(bench):
    """It goes out with the version that the annotation made, and takes the annotation off."""
    (annotate,) = writes(bench.run(bench.delta(claim())), "annotate")
    bench.allocator.answers = {"claim": FITS}
    assert writes(bench.run(Tick())) == []
    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == {KEY}

    annotated = claim(
        annotations={"dra-operator.io/pending": said_by(annotate)}, finalizers=["example.com/own"]
    )
    (held,) = writes(bench.run(bench.delta(annotated), Stored(annotate, {})))
    assert held.version == "2"
    assert held.patches[0].body["metadata"] == {
        "finalizers": ["example.com/own", FINALIZER],
        "annotations": {PENDING: None},
    }, "those that others have set meanwhile stay"
    assert bench.allocator.asked == ["claim", "claim"], "it is not decided once more"


@pytest.mark.parametrize(
    ("metadata", "pods"),
    [
        ({}, [PodUse("default", "pod", frozenset({"claim"}))]),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/own"]}, []),
        ({"labels": {"dra-operator.io/allocate": "false"}}, []),
    ],
    ids=["pod", "deleted", "opted out"],
)
def test_a_held_allocation_does_not_go_out_to_a_claim_that_is_not_ours_any_more(bench, metadata, pods):
    """What was decided is given back, and whoever waits for the device is tried."""
    (annotate,) = writes(bench.run(bench.delta(claim())), "annotate")
    bench.allocator.answers = {"claim": FITS}
    bench.run(Tick())
    bench.run(*pods, bench.delta(claim("other")))
    annotated = claim(annotations={"dra-operator.io/pending": said_by(annotate)}, **metadata)

    assert writes(bench.run(bench.delta(annotated), Stored(annotate, {}))) == []
    assert bench.ledger.holders(("d", "p"), ["gpu-0"]) == set()
    assert bench.allocator.asked.count("other") == 2


def test_the_event_of_a_claim_that_waits_is_refreshed(bench, clock):
    """It is told again before the API server forgets it, by a pass that time alone brings about."""
    effects = bench.run(bench.delta(claim()))
    (annotate,) = writes(effects, "annotate")
    bench.run(
        bench.delta(claim(annotations={"dra-operator.io/pending": said_by(annotate)})), Stored(annotate, {})
    )
    assert bench.wake_at == clock.now + 1200

    clock.now += 1200
    assert event_reasons(bench.run()) == ["DeviceInUse"]
