"""What is told of writes that the operator has no right to make, and when that is over."""

import pytest
from cycle_bench import KEY, event_reasons, fits, said_by, writes
from structlog.testing import capture_logs

from cluster import claim
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import Denied, Stored
from dra_operator.controller.claims import PodUse
from dra_operator.controller.facts import EventRequest


def denied(resource):
    """Return the refusal of a patch."""
    return ApiError(403, "Forbidden", "no", verb="patch", resource=resource)


def deny(bench, write, right):
    """Have a write denied for want of a right, and let be written on the claim what is said of it."""
    effects = bench.run(Denied(write, "no", denied(right)))
    bench.run(*[Stored(said, {}) for said in writes(effects, "annotate")])


def test_a_success_ends_the_waits(bench, write, clock):
    """The next one is the first again."""
    for _ in range(2):
        deny(bench, write, "resourceclaims/status")
        clock.now += 1
        (write,) = writes(bench.run())
        bench.run(bench.delta(claim(), allocation=dict(write.allocation)), Stored(write, {}))
        (write,) = writes(bench.run(bench.delta(claim())))


def test_a_missing_right_is_known_until_a_write_succeeds(bench, write, clock):
    """Readiness names it, and turns when the right is there, which is logged."""
    deny(bench, write, "resourceclaims/status")
    assert bench.cycle._access.reasons() == ("not permitted to patch resourceclaims/status: no",)

    clock.now += 11
    (again,) = writes(bench.run())
    with capture_logs() as logs:
        bench.run(bench.delta(claim(), allocation=dict(again.allocation)), Stored(again, {}))
    assert bench.cycle._access.reasons() == ()
    lines = [(line["event"], line.get("verb"), line.get("resource")) for line in logs]
    assert lines.count(("permitted again", "patch", "resourceclaims/status")) == 1
    clock.now += 1200
    assert event_reasons(bench.run()) == [], "what is no longer so is not told again"


def test_all_that_were_denied_a_right_are_tried_when_it_is_there(bench, clock):
    """However long they were put off, and in their order: those that come later must not take all of their devices."""
    old = {"a": fits("gpu-0"), "b": fits("gpu-1")}
    bench.allocator.answers = {**old, "late": fits("gpu-2")}

    def told(effects):
        """Have the annotations written of what a pass wants done."""
        bench.run(*[Stored(said, {}) for said in writes(effects, "annotate")])
        return writes(effects)

    tried = told(bench.run(*[bench.delta(claim(name)) for name in old]))
    for _ in range(7):
        told(bench.run(*[Denied(write, "no", denied("resourceclaims/status")) for write in tried]))
        clock.now += 32
        tried = told(bench.run())
    assert tried == [], "they wait for more than a minute by now"
    (late,) = told(bench.run(bench.delta(claim("late"))))
    written = bench.delta(claim("late"), allocation=dict(late.allocation))

    assert [write.key[1] for write in told(bench.run(written, Stored(late, {})))] == ["a", "b"]


def test_a_missing_right_is_logged_once(bench, write, clock):
    """Not again for each claim and each attempt, until it was there in between."""
    with capture_logs() as logs:
        deny(bench, write, "resourceclaims/status")
        clock.now += 11
        (again,) = writes(bench.run())
        deny(bench, again, "resourceclaims/status")
        bench.cycle._access.grant(again)
        clock.now += 11
        (once_more,) = writes(bench.run())
        deny(bench, once_more, "resourceclaims/status")

    lines = [line for line in logs if line["event"] == "forbidden"]
    assert [(line["verb"], line["resource"], line["why"]) for line in lines] == [
        ("patch", "resourceclaims/status", "no")
    ] * 2


def test_a_claim_that_may_not_be_allocated_says_so(bench, write):
    """In an Event, in its annotation and in the log: whoever lists what waits by the annotation finds it."""
    with capture_logs() as logs:
        effects = bench.run(Denied(write, "no", denied("resourceclaims/status")))

    why = "not permitted to patch resourceclaims/status: no"
    assert [effect.message for effect in effects if isinstance(effect, EventRequest)] == [why]
    assert [said_by(said) for said in writes(effects, "annotate")] == [why]
    assert [line["event"] for line in logs] == ["forbidden", "pending"]


@pytest.mark.parametrize("end", ["gone", "pod"])
def test_a_missing_right_is_told_no_more_when_nobody_needs_it(bench, clock, end):
    """Its Event is not repeated for ever."""
    (annotate,) = writes(bench.run(bench.delta(claim())), "annotate")
    assert event_reasons(bench.run(Denied(annotate, "no", denied("resourceclaims")))) == ["Forbidden"]
    gone = Delta("ResourceClaim", *KEY, None)
    bench.run(gone if end == "gone" else PodUse("default", "pod", frozenset({"claim"})))
    clock.now += 1200

    assert event_reasons(bench.run()) == []
