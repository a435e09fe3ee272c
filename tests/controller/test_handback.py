"""Pods that were let go and cannot be placed: on which evidence their claims are taken back, and what is said."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from cycle_bench import Clock

from cluster import allocation, claim
from dra_operator.api.names import FINALIZER
from dra_operator.api.read import read_object
from dra_operator.cluster.writes import nominate, withdraw
from dra_operator.controller.claims import ClaimStore, PodUse
from dra_operator.controller.context import Context
from dra_operator.controller.facts import PendingReason
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.plan_pods import Handback, LetGoPod
from dra_operator.controller.queue import InFlightWrites, SchedulingQueue, Timers
from dra_operator.pods.gate import SchedulingPod

NODE = "node-1"
NO_CPU = "0/3 nodes are available: 3 Insufficient cpu."
POD = SchedulingPod(
    namespace="default",
    name="pod",
    uid="uid-pod",
    resource_version="7",
    priority=0,
    creation="2026-01-01T00:00:00Z",
    gates=(),
    node="",
    nominated_node=NODE,
    claims=frozenset({"claim"}),
    missing=frozenset(),
    unschedulable=NO_CPU,
    is_finished=False,
    is_deleted=False,
    is_nominated_by_operator=True,
)
KEY = ("default", "claim")
USER = {"resource": "pods", "name": "pod", "uid": "uid-pod"}
OTHER = {"resource": "pods", "name": "other", "uid": "uid-other"}


class Foreign(Context):
    """A context in which some claims were allocated by others."""

    def is_ours(self, claim):
        """Return whether the operator made the allocation of a claim."""
        return claim.metadata.name not in self.send.__self__.foreign


class HandbackBench:
    """A handback, the claims that it looks at, and what it writes."""

    def __init__(self):
        self.clock, self.written, self.changed, self.foreign, self.shared = Clock(), [], [], set(), set()
        timers, claims, metrics = Timers(), ClaimStore(), Metrics()
        self.claims, self.metrics, self.in_flight = claims, metrics, InFlightWrites(self.written.append)
        ledger = SimpleNamespace(lasting_version=0, shares_a_device=lambda key: key in self.shared)
        queue = SchedulingQueue(claims, ledger, self.in_flight, self.clock, timers)
        self.backoff = queue.backoff
        context = Foreign(
            inventory=None,
            ledger=ledger,
            claims=claims,
            in_flight=self.in_flight,
            queue=queue,
            events=None,
            metrics=metrics,
            timers=timers,
            clock=self.clock,
            wall=None,
            send=self.send,
            has_told=None,
            explainer=None,
            ingest=None,
            hears=None,
        )
        self.handback = Handback(context, self.written.append, self.changed.append, 60.0, self)
        self.pods = {}
        self.version, self.sent = 0, []

    gang = hold = None

    def find(self, _key):
        """Return the gang of a pod."""
        return self.gang

    def find_hold(self, _key):
        """Return why kube-scheduler does not look at the pods of its gang."""
        return self.hold

    def send(self, write):
        """Note a write to a pod."""
        self.written.append(write)

    def put(self, name="claim", *, reserved=(), allocated=True, finalizers=(FINALIZER,), **metadata):
        """Store a claim, each time in a newer version; what was written to it is answered."""
        self.version += 1
        body = claim(
            name,
            uid=f"uid-{name}",
            resourceVersion=str(self.version),
            finalizers=list(finalizers),
            **metadata,
        )
        body["status"] = {"reservedFor": list(reserved)}
        if allocated:
            body["status"]["allocation"] = allocation()
        self.claims.put(read_object(body, "ResourceClaim"))
        for write in self.sent:
            self.in_flight.finish(write)
        self.sent.clear()

    def observe(self, **changes):
        """Take in a change of the pod."""
        pod = replace(POD, **changes)
        self.claims.put_pod(PodUse(pod.namespace, pod.name, pod.claims))
        self.see(pod)

    def see(self, pod):
        """Take in the newest state of a pod that was let go, as `GatedPods` does."""
        known = self.pods.get(pod.key)
        if pod.node or known is None or known.pod.uid != pod.uid:
            self.pods.pop(pod.key, None)
        if not pod.node:
            self.pods.setdefault(pod.key, LetGoPod(pod, NODE)).observe(pod)

    def is_handed_back(self):
        """Return whether the pod was handed back."""
        return POD.key in self.pods and self.pods[POD.key].is_handed_back

    def trouble(self):
        """Return what is told of the pod."""
        return self.pods[POD.key].trouble

    def run(self, after=0.0):
        """Run once, so many seconds later; return what is written, and forget it."""
        self.clock.now += after
        self.due = self.handback.run(self.pods)
        written = self.written[:]
        self.written.clear()
        self.sent += [write for write in written if write.kind == "withdraw"]
        return written

    def wait(self):
        """Let the evidence hold for long enough; return what is written."""
        assert self.run() == []
        return self.run(60.0)


@pytest.fixture
def bench():
    """Return a pod that cannot be placed, with one allocated claim."""
    made = HandbackBench()
    made.put()
    made.observe()
    return made


def withdrawal(name="claim", version="1", *, allocated=True):
    """Return the write that takes an allocation back."""
    body = claim(name, uid=f"uid-{name}", resourceVersion=version, finalizers=[FINALIZER])
    status = {"allocation": allocation()} if allocated else {}
    return withdraw(read_object({**body, "status": status}, "ResourceClaim"))


CLEARED = nominate(POD, None)
HANDED_BACK = PendingReason(
    "HandedBack", "handed back: 0/3 nodes are available: 3 Insufficient cpu; delete the pod to try again"
)


def test_claims_are_taken_back_when_the_evidence_has_held_for_long_enough(bench):
    """Not before, and nothing else is written until the claim is seen without its devices."""
    assert bench.run() == []
    assert bench.due == bench.clock.now + 60
    assert bench.run(59.9) == []
    assert bench.run(0.1) == [withdrawal()]
    assert bench.run() == []
    assert not bench.is_handed_back()


def test_pod_is_told_and_loses_its_nomination_once_its_claims_are_free(bench):
    """What is told ends with what the user can do; the pod counts once."""
    bench.wait()
    bench.put(allocated=False, finalizers=())

    assert bench.run() == [CLEARED]
    assert bench.is_handed_back()
    assert bench.changed == [POD.key]
    assert bench.trouble() == HANDED_BACK
    bench.observe(nominated_node="")
    assert bench.run() == []
    assert len(bench.changed) == 1
    assert bench.metrics.registry.get_sample_value("dra_operator_handed_back_pods_total") == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"unschedulable": None},
        {"unschedulable": "not eligible due to a terminating pod on the nominated node."},
        {"unschedulable": "found a potential placement for pod on node node-1, preempting"},
        {"nominated_node": "node-2"},
        {"node": NODE},
    ],
    ids=[
        "not said",
        "victims are terminating",
        "room is being made",
        "nominated elsewhere",
        "bound",
    ],
)
def test_pod_that_may_yet_be_placed_keeps_its_devices(bench, changes):
    """However long that takes: the clock alone is no evidence."""
    bench.observe(**changes)

    assert bench.run() == []
    assert bench.run(7200.0) == []


@pytest.mark.parametrize(
    "claim_as_it_is",
    [
        {"reserved": [USER]},
        {"reserved": [OTHER]},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=["reserved for the pod", "reserved for another", "being deleted"],
)
def test_claim_that_is_used_or_ends_anyway_is_left_alone(bench, claim_as_it_is):
    """A pod in its binding cycle has reserved the claim."""
    bench.observe(is_nominated_by_operator=False)
    bench.put(**claim_as_it_is)

    assert bench.wait() == []
    assert not bench.is_handed_back()


@pytest.mark.parametrize("nominated", [NODE, ""], ids=["still nominated", "nomination gone"])
@pytest.mark.parametrize("finalizers", [(FINALIZER,), ()], ids=["finalizer left", "nothing left"])
def test_pod_whose_claim_the_scheduler_cleared_is_told_as_well(bench, nominated, finalizers):
    """Its PostFilter takes allocation and nomination; of these devices nobody gives it any more."""
    bench.put(allocated=False, finalizers=finalizers)
    bench.observe(nominated_node=nominated)

    assert bench.handback.has_lost_devices(POD)
    assert bench.wait() == (
        [withdrawal(version="2", allocated=False)] if finalizers else [CLEARED][: bool(nominated)]
    )
    bench.put(allocated=False, finalizers=())
    bench.run()
    assert bench.trouble() == HANDED_BACK
    assert bench.metrics.registry.get_sample_value("dra_operator_handed_back_pods_total") == 1


def test_device_that_another_claim_holds_is_not_set_free(bench):
    """Else kube-scheduler would give it to the next pod."""
    bench.shared.add(KEY)

    assert bench.wait() == []


def test_claim_that_another_pod_names_stays_and_the_others_are_taken_back(bench):
    """The other pod may be about to use it; the pod is handed back all the same."""
    bench.put("shared")
    bench.claims.put_pod(PodUse("default", "other", frozenset({"shared"})))
    bench.observe(claims=frozenset({"claim", "shared"}))

    assert bench.wait() == [withdrawal()]
    bench.put(allocated=False, finalizers=())
    assert bench.run() == [CLEARED]


def test_pod_that_has_only_shared_claims_is_told_that_they_stay(bench):
    """They are reserved for it and the others, so nothing is taken back, and nobody else says what to do; once."""
    bench.claims.put_pod(PodUse("default", "other", POD.claims))
    bench.put(reserved=[USER, OTHER])

    assert bench.run() == bench.run(59.0) == []
    assert bench.changed == []
    assert bench.run(1.0) == bench.run(600.0) == []
    assert bench.changed == [POD.key]
    assert bench.trouble() == PendingReason(
        "NotHandedBack",
        "not handed back: 0/3 nodes are available: 3 Insufficient cpu; "
        'claim "claim" stays until the pods that share it are deleted',
    )
    assert bench.metrics.registry.get_sample_value("dra_operator_handed_back_pods_total") == 1
    assert not bench.is_handed_back()


def test_write_that_was_not_accepted_is_repeated_after_its_pause(bench):
    """And nothing is said before it is done."""
    (write,) = bench.wait()
    bench.in_flight.finish(write)
    bench.sent.clear()
    bench.backoff.add(KEY, write.uid, 10.0, 600.0)

    assert bench.run() == []
    bench.clock.now += 10.0
    bench.backoff.pop_expired()
    assert bench.run() == [withdrawal()]
    assert bench.changed == []


def test_pod_that_is_bound_after_all_is_not_handed_back(bench):
    """A reservation came between: it is waited for as long again, and by then the pod has its node."""
    bench.put("second")
    bench.observe(claims=frozenset({"claim", "second"}))
    assert len(bench.wait()) == 2
    bench.put(allocated=False, finalizers=())
    bench.put("second", reserved=[USER])

    assert bench.run() == []
    assert bench.run(59.0) == []
    bench.observe(node=NODE)
    assert bench.run(600.0) == []
    assert not bench.is_handed_back()
    assert bench.changed == []
