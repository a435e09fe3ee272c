"""The pass: order, budget, and what a decision or its failure leads to."""

import pytest

from cluster import claim
from dra_operator.allocator import Allocated, Explanation, Failed, Reason, Unsatisfied
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writer import (
    AllocateWrite,
    AnnotateWrite,
    Conflict,
    Forbidden,
    Gone,
    Refused,
    Unknown,
    Written,
)
from dra_operator.controller import passes as module
from dra_operator.controller.claims import PodUse
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.passes import Passes, Tick
from dra_operator.controller.reports import Notice
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

RESULT = DeviceRequestAllocationResult(request="gpu", driver="d", pool="p", device="gpu-0")
FITS = Allocated("node-1", (AllocationResult(devices=DeviceAllocationResult(results=(RESULT,))),))
KEY = ("default", "claim")


class Allocator:
    """Answers as a test says, and notes in which order it was asked."""

    def __init__(self):
        self.asked, self.answers, self.takes = [], {}, None

    def allocate(self, claims):
        """Return the scripted decision, or raise it."""
        name = claims[0].metadata.name
        self.asked.append(name)
        if self.takes is not None:
            self.takes()
        answer = self.answers.get(name, Unsatisfied())
        if isinstance(answer, Exception):
            raise answer
        return answer

    def explain(self, _claims, decision):
        """Return a reason that fits the decision."""
        reason = decision.reason if isinstance(decision, Failed) else Reason.DEVICE_IN_USE
        return (Explanation(reason, f"request gpu: {reason}", "gpu"),)


class Bench:
    """A pass on the bench: what goes in, and what comes out."""

    def __init__(self, clock):
        self.clock = clock
        self.allocator, self.ledger = Allocator(), Ledger()
        self.passes = Passes(
            Inventory(),
            self.ledger,
            self.allocator,
            metrics=Metrics(),
            event_refresh=1200,
            clock=clock,
        )
        self.versions = 0

    def run(self, *items, stopping=lambda: False):
        """Run a pass and return what it wants done."""
        out = []
        self.wake_at = self.passes.run(items, out.extend, stopping)
        return out

    def delta(self, body, **status):
        """Return the difference that brings a claim, each time in a newer version."""
        self.versions += 1
        metadata = {"uid": f"uid-{body['metadata']['name']}", **body["metadata"]}
        metadata["resourceVersion"] = str(self.versions)
        found = {**body, "metadata": metadata, "status": status}
        return Delta("ResourceClaim", metadata["namespace"], metadata["name"], found)


@pytest.fixture
def bench(clock):
    """A pass over nothing yet."""
    return Bench(clock)


def writes(effects, kind=AllocateWrite):
    """Return the writes of a kind among effects."""
    return [effect for effect in effects if isinstance(effect, kind)]


def notices(effects):
    """Return the reasons of the Events among effects."""
    return [effect.reason for effect in effects if isinstance(effect, Notice)]


@pytest.fixture
def write(bench):
    """An allocation on its way."""
    bench.allocator.answers = {"claim": FITS}
    (found,) = writes(bench.run(bench.delta(claim())))
    return found


# --- deciding
# -------------------------------------------------------------------------------------------------------------


def test_claims_are_decided_oldest_first_then_by_name(bench):
    """The order of a pass is creationTimestamp, namespace, name, whatever order they arrived in."""
    bench.run(
        bench.delta(claim("c", creationTimestamp="2026-01-02T00:00:00Z")),
        bench.delta(claim("b", creationTimestamp="2026-01-01T00:00:00Z")),
        bench.delta(claim("a", creationTimestamp="2026-01-01T00:00:00Z")),
    )

    assert bench.allocator.asked == ["a", "b", "c"]


def test_learning_decides_nothing(bench):
    """Before everything is listed, claims are only taken in; the first pass decides them."""
    bench.passes.learn([bench.delta(claim())])
    assert bench.allocator.asked == []

    bench.run(Tick())
    assert bench.allocator.asked == ["claim"]


def test_a_decision_counts_at_once(bench, write):
    """The device is assumed taken before the write is answered, and the claim is not decided again."""
    assert bench.ledger.owners("d", "p", "gpu-0") == (KEY,)

    bench.run(Tick())
    assert bench.allocator.asked == ["claim"]


def test_the_write_carries_what_makes_it_conditional(bench, write):
    """Version and uid of the claim that was decided on, and a timestamp."""
    assert (write.resource_version, write.uid) == ("1", "uid-claim")
    assert write.allocation["allocationTimestamp"].endswith("Z")


def test_a_claim_that_waits_is_not_tried_for_nothing(bench):
    """A pass without a change that could help asks only about what is new."""
    bench.run(bench.delta(claim("one")))
    bench.run(bench.delta(claim("two")))

    assert bench.allocator.asked == ["one", "two"]


def test_a_tick_has_everything_tried_again(bench):
    """The full pass is the net under all triggers."""
    bench.run(bench.delta(claim()))
    bench.run(Tick())

    assert bench.allocator.asked == ["claim", "claim"]


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
    assert "SearchAborted" in notices(bench.run(bench.delta(claim())))

    bench.run(Tick())
    assert bench.allocator.asked == ["claim"]
    clock.now += module.ABORTED[0]
    bench.run()
    assert bench.allocator.asked == ["claim", "claim"]


def test_an_annotation_does_not_end_the_wait_of_a_claim_that_was_put_off(bench, clock):
    """Our own write about a claim that used up its deadline must not have it tried again."""
    bench.allocator.answers = {"claim": Failed("aborted", "10 s", Reason.SEARCH_ABORTED, KEY)}
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)
    annotated = claim(annotations={"dra-operator.io/pending": annotate.text})
    bench.run(bench.delta(annotated), Written(annotate, {}))
    bench.run(Tick())

    assert bench.allocator.asked == ["claim"]


def test_a_defect_costs_one_claim_a_wait_and_the_others_nothing(bench):
    """An exception in one decision is told on its claim; the next claim is decided."""
    bench.allocator.answers = {"a": RuntimeError("boom"), "b": FITS}
    effects = bench.run(bench.delta(claim("a")), bench.delta(claim("b")))

    assert notices(effects) == ["InternalError"]
    assert [found.name for found in writes(effects)] == ["b"]


def test_a_defect_in_taking_in_costs_one_object(bench, monkeypatch):
    """What breaks our own code is skipped; what comes after it is taken in."""
    take = bench.passes._intake.take

    def break_on_bad(delta, changes):
        if delta.name == "bad":
            raise RuntimeError("boom")
        take(delta, changes)

    monkeypatch.setattr(bench.passes._intake, "take", break_on_bad)
    bench.run(bench.delta(claim("bad")), bench.delta(claim("good")))

    assert bench.allocator.asked == ["good"]


@pytest.mark.parametrize(
    ("known", "said"), [(True, ["no such key"]), (False, [])], ids=["known", "not there"]
)
def test_what_is_wrong_with_another_object_is_told_there(bench, known, said):
    """A class whose selector fails gets an Event of its own, once; a class that does not exist gets none."""
    failed = Failed("fatal", "no such key", Reason.SELECTOR_FAILED, KEY, "gpu", ("DeviceClass", "gpu"))
    bench.allocator.answers = {"a": failed, "b": failed}
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": "gpu", "uid": "uid-gpu"},
        "spec": {},
    }
    published = [Delta("DeviceClass", "", "gpu", device_class)] if known else []
    effects = bench.run(*published, bench.delta(claim("a")), bench.delta(claim("b")))

    about_class = [
        effect for effect in effects if isinstance(effect, Notice) and effect.subject.kind == "DeviceClass"
    ]
    assert [found.message for found in about_class] == said


def test_what_another_writer_did_not_take_is_free_for_others(bench, write):
    """A claim that got other devices than ours has whoever waits for ours tried."""
    bench.run(bench.delta(claim("other")))
    theirs = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-1"}]}}
    bench.run(bench.delta(claim(), allocation=theirs))

    assert bench.ledger.owners("d", "p", "gpu-0") == ()
    assert bench.allocator.asked.count("other") == 2


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
    return [effect for effect in effects if isinstance(effect, Notice) and effect.subject.kind == kind]


def test_claims_that_stumble_over_one_object_on_other_devices_say_one_thing(bench, device_class):
    """The device that the message names is not what is wrong; one Event, however often they are tried."""
    bench.allocator.answers = {"a": stumble("gpu-0"), "b": stumble("gpu-1")}
    effects = bench.run(bench.delta(claim("a")), bench.delta(claim("b")))
    effects += bench.run(Tick()) + bench.run(Tick())

    assert len(about(effects, "DeviceClass")) == 1


@pytest.mark.parametrize("end", ["gone", "fits", "waits", "pod"])
def test_an_object_is_blamed_while_a_claim_stumbles_over_it(bench, clock, device_class, end):
    """When the last claim is gone, or decided otherwise, or not ours, nothing is told again of the object."""
    bench.allocator.answers = {"claim": stumble()}
    bench.run(bench.delta(claim()))
    bench.allocator.answers = {"claim": FITS} if end == "fits" else {}
    bench.run(
        {
            "gone": Delta("ResourceClaim", *KEY, None),
            "pod": PodUse("default", "pod", frozenset({"claim"})),
        }.get(end, Tick())
    )
    clock.now += 1200

    assert about(bench.run(), "DeviceClass") == []


def test_an_object_stays_blamed_while_another_claim_stumbles_over_it(bench, clock, device_class):
    """The Event of a class that is still broken is refreshed."""
    bench.allocator.answers = {"a": stumble(), "b": stumble()}
    bench.run(bench.delta(claim("a")), bench.delta(claim("b")))
    bench.run(Delta("ResourceClaim", "default", "a", None))
    clock.now += 1200

    assert len(about(bench.run(), "DeviceClass")) == 1


def test_a_namespace_is_not_blamed(bench):
    """That it does not permit admin access is told on the claim that wants it."""
    failed = Failed("fatal", "no label", Reason.ADMIN_ACCESS_DENIED, KEY, "gpu", ("Namespace", "default"))
    bench.allocator.answers = {"claim": failed}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "uid": "u"}}
    effects = bench.run(Delta("Namespace", "", "default", namespace), bench.delta(claim()))

    assert notices(effects) == ["AdminAccessDenied"]


# --- answers to writes
# ----------------------------------------------------------------------------------------------------


def test_a_written_allocation_is_announced(bench, write):
    """Event and metrics follow the API server's answer, not the decision."""
    effects = bench.run(bench.delta(claim(), allocation=dict(write.allocation)), Written(write, {}))

    assert notices(effects) == ["Allocated"]
    assert bench.ledger.owners("d", "p", "gpu-0") == (KEY,)


@pytest.mark.parametrize(
    "outcome",
    [
        lambda write: Conflict(write, None, "changed"),
        Gone,
        lambda write: Refused(write, "no"),
        lambda write: Forbidden(
            write, ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims")
        ),
    ],
    ids=["conflict", "gone", "refused", "forbidden"],
)
def test_a_write_that_did_not_happen_gives_its_device_back(bench, write, outcome):
    """What was assumed is withdrawn, and whoever waits for the device is tried."""
    bench.run(bench.delta(claim("other")))
    bench.run(outcome(write))

    assert bench.ledger.owners("d", "p", "gpu-0") == ()
    assert bench.allocator.asked.count("other") == 2


def test_an_unknown_outcome_keeps_its_device(bench, write, clock):
    """Until somebody knows better the device counts as taken; then the claim is decided anew."""
    bench.run(Unknown(write))
    assert bench.ledger.owners("d", "p", "gpu-0") == (KEY,)

    clock.now += 31
    bench.run()
    assert bench.allocator.asked == ["claim", "claim"]


def test_a_conflict_is_tried_again_with_the_version_that_won(bench, write):
    """Not before it is here: the same would happen again."""
    bench.run(Conflict(write, None, "changed"))
    assert bench.allocator.asked == ["claim"]

    (again,) = writes(bench.run(bench.delta(claim())))
    assert again.resource_version == "2"


def test_a_conflict_without_a_newer_version_is_tried_again_after_a_while(bench, write, clock):
    """A watch that is late does not hold the claim up for ever."""
    bench.run(Conflict(write, None, "changed"))
    clock.now += 0.1

    assert len(writes(bench.run())) == 1


def test_a_refusal_is_told_and_put_off(bench, write, clock):
    """What the API server does not accept is tried again much later."""
    effects = bench.run(Refused(write, "immutable"))
    assert "AllocationRefused" in notices(effects)
    bench.run(Tick())
    assert bench.allocator.asked == ["claim"]

    clock.now += 11
    bench.run()
    assert bench.allocator.asked == ["claim", "claim"]


def test_a_missing_right_is_known_until_a_write_succeeds(bench, write, clock):
    """Readiness names it, and turns when the right is there."""
    error = ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims/status")
    bench.run(Forbidden(write, error))
    assert bench.passes.desk.rights.texts() == ("not permitted to patch resourceclaims/status: no",)

    clock.now += 11
    (again,) = writes(bench.run())
    bench.run(bench.delta(claim(), allocation=dict(again.allocation)), Written(again, {}))
    assert bench.passes.desk.rights.texts() == ()
    clock.now += 1200
    assert notices(bench.run()) == [], "what is no longer so is not told again"


@pytest.mark.parametrize("end", ["gone", "pod"])
def test_a_missing_right_is_forgotten_with_the_claim_that_needed_it(bench, write, end):
    """A right that nobody needs any more does not keep the operator unready."""
    error = ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims/status")
    bench.run(Forbidden(write, error))
    gone = Delta("ResourceClaim", *KEY, None)
    bench.run(gone if end == "gone" else PodUse("default", "pod", frozenset({"claim"})))

    assert bench.passes.desk.rights.texts() == ()


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
    bench.run(Written(write, {}))

    assert bench.allocator.asked == ["claim", "claim"]


@pytest.mark.parametrize(
    "outcome",
    [
        lambda write: Refused(write, "policy"),
        lambda write: Forbidden(
            write, ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims")
        ),
    ],
    ids=["refused", "forbidden"],
)
def test_an_annotation_that_cannot_be_written_does_not_put_the_allocation_off(bench, outcome):
    """Why a claim waits matters less than that it need not; the annotation is not tried again at once."""
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)
    assert writes(bench.run(outcome(annotate)), AnnotateWrite) == []
    bench.allocator.answers = {"claim": FITS}

    assert len(writes(bench.run(Tick()))) == 1


def test_an_unknown_outcome_for_a_claim_that_a_pod_took_ends_with_its_wait(bench, write, clock):
    """The device is not held for ever for a claim that is never decided again; whoever waits is tried."""
    bench.run(Unknown(write), bench.delta(claim("other")))
    bench.run(PodUse("default", "pod", frozenset({"claim"})))
    assert bench.ledger.owners("d", "p", "gpu-0") == (KEY,)
    clock.now += 31
    bench.run()

    assert bench.ledger.owners("d", "p", "gpu-0") == ()
    assert bench.allocator.asked.count("other") == 2


def test_the_answer_for_a_claim_that_was_recreated_changes_nothing(bench, write):
    """An old write's success is not the new claim's."""
    bench.run(Delta("ResourceClaim", *KEY, None), bench.delta(claim(uid="new")))
    assert bench.allocator.asked == ["claim"]
    effects = bench.run(Gone(write))

    (again,) = writes(effects)
    assert again.uid == "new"
    assert notices(effects) == []


def test_an_allocation_decided_while_an_annotation_is_on_its_way_is_held(bench):
    """It goes out with the version that the annotation made, and takes the annotation off."""
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)
    bench.allocator.answers = {"claim": FITS}
    assert writes(bench.run(Tick())) == []
    assert bench.ledger.owners("d", "p", "gpu-0") == (KEY,)

    annotated = claim(annotations={"dra-operator.io/pending": annotate.text})
    (held,) = writes(bench.run(bench.delta(annotated), Written(annotate, {})))
    assert (held.resource_version, held.drop_annotation) == ("2", True)


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
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)
    bench.allocator.answers = {"claim": FITS}
    bench.run(Tick())
    bench.run(*pods, bench.delta(claim("other")))
    annotated = claim(annotations={"dra-operator.io/pending": annotate.text}, **metadata)

    assert writes(bench.run(bench.delta(annotated), Written(annotate, {}))) == []
    assert bench.ledger.owners("d", "p", "gpu-0") == ()
    assert bench.allocator.asked.count("other") == 2


def test_a_held_allocation_is_given_up_with_the_annotation(bench):
    """If the claim is no longer what was decided on, neither write happens."""
    (annotate,) = writes(bench.run(bench.delta(claim())), AnnotateWrite)
    bench.allocator.answers = {"claim": FITS}
    bench.run(Tick())
    bench.run(Gone(annotate))

    assert bench.ledger.owners("d", "p", "gpu-0") == ()


def test_the_event_of_a_claim_that_waits_is_refreshed(bench, clock):
    """It is told again before the API server forgets it, by a pass that time alone brings about."""
    effects = bench.run(bench.delta(claim()))
    (annotate,) = writes(effects, AnnotateWrite)
    bench.run(
        bench.delta(claim(annotations={"dra-operator.io/pending": annotate.text})), Written(annotate, {})
    )
    assert bench.wake_at == clock.now + 1200

    clock.now += 1200
    assert notices(bench.run()) == ["DeviceInUse"]
