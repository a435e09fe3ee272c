"""The pass: order, budget, and what a decision or its failure leads to."""

import pytest
from cycle_bench import FITS, KEY, event_reasons, writes
from structlog.testing import capture_logs

from cluster import FINALIZER, claim
from dra_operator.allocator.decision import Failed
from dra_operator.allocator.reasons import Reason
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stored
from dra_operator.controller import cycle as module
from dra_operator.controller.claims import PodUse
from dra_operator.controller.cycle import Tick
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.object_problems import INCOMPLETE_SECONDS
from dra_operator.controller.write_results import ClaimWrites

# --- deciding
# -------------------------------------------------------------------------------------------------------------


def test_what_was_learned_first_is_tidied_as_well(bench):
    """A claim that was deleted while no operator ran is let go, however many pages of the list came after it."""
    going = claim(deletionTimestamp="2026-01-01T00:00:00Z", finalizers=[FINALIZER])
    bench.cycle.observe([bench.delta(going)])
    bench.cycle.observe([bench.delta(claim("other"))])

    assert [write.key[1] for write in writes(bench.run(Tick()), "deallocate")] == ["claim"]


@pytest.fixture
def steps(bench, monkeypatch):
    """What a pass does, in order: claims explained, and batches handed over."""
    found = []
    explain = bench.allocator.explain

    def note(claims, decision, **more):
        found.append(claims[0].metadata.name)
        return explain(claims, decision, **more)

    monkeypatch.setattr(bench.allocator, "explain", note)
    return found


def test_decisions_are_on_their_way_before_anything_is_explained(bench, steps):
    """To say why one claim waits never delays the devices of another."""
    bench.allocator.answers["b"] = FITS

    bench.cycle.run(
        [bench.delta(claim("a")), bench.delta(claim("b"))],
        lambda effects: steps.extend(write.key[1] for write in writes(effects)),
        lambda: False,
    )

    assert steps == ["b", "a"]


def test_the_write_carries_what_makes_it_conditional(bench, write):
    """Version and uid of the claim that was decided on, and a timestamp."""
    assert (write.version, write.uid) == ("1", "uid-claim")
    assert write.allocation["allocationTimestamp"].endswith("Z")
    assert not write.annotations


def test_a_pass_stops_between_two_claims(bench):
    """When the operator stops, no further decision is made."""
    bench.run(bench.delta(claim()), stopping=lambda: True)

    assert bench.allocator.asked == []


def test_a_long_pass_makes_room_for_what_arrived(bench, clock):
    """After its budget a pass ends, and the next one goes on with the rest."""

    def take_long():
        clock.now += module.BUDGET

    bench.allocator.takes = take_long
    bench.run(bench.delta(claim("a")), bench.delta(claim("b")))
    assert bench.allocator.asked == ["a"]
    assert bench.wake_at is not None
    assert bench.wake_at <= clock.now

    bench.run()
    assert bench.allocator.asked == ["a", "b"]


def test_a_claim_that_used_up_its_deadline_is_put_off(bench, clock):
    """It is told, and not tried again until its wait is over, so that it does not slow the others."""
    bench.allocator.answers = {"claim": Failed("aborted", "10 s", Reason.SEARCH_ABORTED, KEY)}
    assert "SearchAborted" in event_reasons(bench.run(bench.delta(claim())))

    bench.run(Tick())
    assert bench.allocator.asked == ["claim"]
    clock.now += module.ABORTED[0]
    bench.run()
    assert bench.allocator.asked == ["claim", "claim"]


def test_a_defect_costs_one_claim_a_wait_and_the_others_nothing(bench, clock):
    """An exception in one decision is told on its claim; the next claim is decided."""
    bench.may_break = True
    bench.allocator.answers = {"a": RuntimeError("boom"), "b": FITS}
    with capture_logs() as logs:
        effects = bench.run(bench.delta(claim("a")), bench.delta(claim("b")))

    assert event_reasons(effects) == ["InternalError"]
    assert [found.key[1] for found in writes(effects)] == ["b"]
    assert [(line["claim"], line["uid"]) for line in logs if line["log_level"] == "error"] == [
        ("default/a", "uid-a")
    ]

    bench.run(Tick())
    assert bench.allocator.asked == ["a", "b"]
    clock.now = bench.wake_at
    bench.run()
    assert bench.allocator.asked == ["a", "b", "a"]


def test_a_defect_in_taking_in_costs_one_object(bench, monkeypatch):
    """What breaks our own code is skipped, and named in the log; what comes after it is taken in."""
    bench.may_break = True
    take = bench.cycle._ingest.apply

    def break_on_bad(delta, changes):
        if delta.name == "bad":
            raise RuntimeError("boom")
        take(delta, changes)

    monkeypatch.setattr(bench.cycle._ingest, "apply", break_on_bad)
    monkeypatch.setattr(ClaimWrites, "handle", lambda *_: 1 / 0)
    with capture_logs() as logs:
        bench.run(bench.delta(claim("bad")), Stored(None, {}), bench.delta(claim("good")))

    assert bench.allocator.asked == ["good"]
    assert [line["item"] for line in logs if line["log_level"] == "error"] == [
        "ResourceClaim default/bad",
        "Stored",
    ]


@pytest.mark.parametrize(
    ("published", "said"),
    [([True], ["no such key"]), ([], []), ([True, False], [])],
    ids=["known", "not there", "gone"],
)
def test_what_is_wrong_with_another_object_is_told_there(bench, published, said):
    """A class whose selector fails gets an Event of its own, once; a class that does not exist gets none."""
    failed = Failed("fatal", "no such key", Reason.SELECTOR_FAILED, KEY, "gpu", ("DeviceClass", "gpu"))
    bench.allocator.answers = {"a": failed, "b": failed}
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "gpu", "uid": "uid-gpu"},
        "spec": {},
    }
    classes = [Delta("DeviceClass", "", "gpu", device_class if there else None) for there in published]
    effects = bench.run(*classes, bench.delta(claim("a")), bench.delta(claim("b")))

    about_class = [
        effect
        for effect in effects
        if isinstance(effect, EventRequest) and effect.subject.kind == "DeviceClass"
    ]
    assert [found.message for found in about_class] == said


@pytest.fixture
def device_class(bench):
    """A class that exists."""
    body = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": "gpu", "uid": "uid-gpu"}, "spec": {}}
    bench.run(Delta("DeviceClass", "", "gpu", body))


def stumble(device="gpu-0"):
    """A decision that ended because of the class, seen on a device."""
    return Failed(
        "fatal", f"on {device}: no such key", Reason.SELECTOR_FAILED, KEY, "gpu", ("DeviceClass", "gpu")
    )


def about(effects, kind):
    """Return the Events about objects of a kind."""
    return [effect for effect in effects if isinstance(effect, EventRequest) and effect.subject.kind == kind]


@pytest.mark.parametrize("end", ["gone", "fits", "waits", "pod", "defect"])
def test_an_object_is_blamed_while_a_claim_stumbles_over_it(bench, clock, device_class, end):
    """When the last claim is gone, or decided otherwise, or not ours, nothing is told again of the object."""
    bench.allocator.answers = {"claim": stumble()}
    bench.run(bench.delta(claim()))
    bench.may_break = end == "defect"
    bench.allocator.answers = {"fits": {"claim": FITS}, "defect": {"claim": RuntimeError("boom")}}.get(
        end, {}
    )
    bench.run(
        {
            "gone": Delta("ResourceClaim", *KEY, None),
            "pod": PodUse("default", "pod", frozenset({"claim"})),
        }.get(end, Tick())
    )
    clock.now += 1200

    assert about(bench.run(), "DeviceClass") == []


def test_objects_with_a_problem_are_counted(bench, clock, device_class):
    """A class whose selector fails, a slice that cannot be read, a pool that stays incomplete; until mended."""

    def publish(name, **spec):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": [], **spec}
        body = {"apiVersion": "resource.k8s.io/v1", "metadata": {"name": name, "uid": name}, "spec": spec}
        return Delta("ResourceSlice", "", name, body)

    half = {"name": "half", "generation": 1, "resourceSliceCount": 2}
    bench.allocator.answers = {"claim": stumble()}
    bench.run(bench.delta(claim()), publish("unreadable", devices="none"), publish("half", pool=half))
    clock.now += INCOMPLETE_SECONDS
    bench.run()
    assert bench.metric("problems") == 3

    bench.run(publish("unreadable"), publish("half"))
    assert bench.metric("problems") == 1

    bench.allocator.answers = {}
    bench.run(Tick())
    assert bench.metric("problems") == 0


def test_a_reason_that_flaps_is_told_by_the_pass_that_its_turn_wakes(bench, clock):
    """Event and log say how things are then, also if nothing has happened since."""
    bench.run(bench.delta(claim()))
    for answers in ({"claim": stumble()}, {}, {"claim": stumble()}):
        bench.allocator.answers = answers
        told = event_reasons(bench.run(Tick()))
    assert told == []
    clock.now = bench.wake_at

    with capture_logs() as logs:
        told = event_reasons(bench.run())
    reason = stumble().reason.value
    assert told == [reason]
    assert [(line["event"], line["claim"], line["reason"]) for line in logs] == [
        ("pending", "default/claim", reason)
    ]


def test_claim_of_a_reservation_is_reserved_in_the_patch_that_allocates_it(bench):
    """At no moment can kube-controller-manager, or kube-scheduler, find it without the entry."""
    owner = {"apiVersion": "dra-operator.io/v1alpha1", "kind": "DeviceReservation", "name": "dr", "uid": "7"}
    bench.allocator.answers = {"claim": FITS}

    (write,) = writes(bench.run(bench.delta(claim(ownerReferences=[{**owner, "controller": True}]))))

    status = write.patches[-1].body["status"]
    assert status["allocation"]["devices"]["results"]
    assert status["reservedFor"] == [
        {"apiGroup": "dra-operator.io", "resource": "devicereservations", "name": "dr", "uid": "7"}
    ]
