"""Pods that wait, in cycles: when it is told why, on what, and how often."""

from datetime import UTC, datetime, timedelta

import pytest
from cycle_bench import said_by, writes

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Decider
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stale, Stored
from dra_operator.controller.claims import pod_use
from dra_operator.controller.cycle import SchedulingCycle, Tick
from dra_operator.controller.facts import RATE, EventRequest
from dra_operator.controller.metrics import Metrics
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Settlement
from dra_operator.ledger import Ledger
from factories import manifest, taint_rule
from pod_world import NAMESPACE, allocation, claim, device_class, named, node, pod, resource_slice, templated

START = datetime(2026, 1, 1, tzinfo=UTC)
PENDING = "dra-operator.io/pending"


class PodBench:
    """Cycles of an operator that explains pods; objects go in as from the watch, and what is written comes back."""

    def __init__(self, clock, settlement=None):
        self.clock, self.versions, self.effects = clock, 0, []
        self.began, self.conflicts = clock(), 0
        self.heard = {"ResourceClaim", "ResourceSlice", "Node", "PersistentVolume", "PersistentVolumeClaim"}
        inventory, ledger = Inventory(settlement=settlement), Ledger()
        self.metrics = Metrics()
        allocator = Allocator(inventory, ledger, clock=clock, share_ids=lambda: "", decider=Decider.OPERATOR)
        self.cycle = SchedulingCycle(
            inventory,
            ledger,
            allocator,
            explainer=Explainer(allocator),
            metrics=self.metrics,
            event_refresh=1200,
            clock=clock,
            wall=lambda: START + timedelta(seconds=clock() - self.began),
            hears=lambda kind: kind in self.heard,
            explains_pods=True,
        )
        self.bodies = {}
        self.wake_at = None

    def put(self, *bodies):
        """Take in some objects, as they are now."""
        self.run(*[item for body in bodies for item in self.items(body)])

    def items(self, body):
        """Return what is taken in of an object."""
        self.versions += 1
        metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": body["metadata"]["name"]}
        metadata |= {**body["metadata"], "resourceVersion": str(self.versions)}
        body = {**body, "metadata": metadata}
        kind, namespace, name = body["kind"], metadata.get("namespace", ""), metadata["name"]
        self.bodies[kind, name] = body
        found = [Delta(kind, namespace, name, body)]
        return [*found, pod_use(body)] if kind == "Pod" else found

    def remove(self, kind, name):
        """Take in that an object is gone."""
        body = self.bodies.pop((kind, name))
        items = [Delta(kind, body["metadata"].get("namespace", ""), name, None)]
        if kind == "Pod":
            items.append(
                pod_use({"metadata": {**body["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
            )
        self.run(*items)

    def run(self, *items):
        """Run a cycle, and those for the answers to what it wants annotated."""
        while True:
            out = []
            self.wake_at = self.cycle.run(items, out.extend, lambda: False)
            self.effects += out
            items = [item for write in writes(out, "annotate") for item in self.answer(write)]
            if not items:
                return

    def answer(self, write):
        """Return what comes of the annotation of a claim."""
        if self.conflicts:
            self.conflicts -= 1
            return [Stale(write, None, "the object has been modified")]
        body = self.bodies["ResourceClaim", write.key[1]]
        annotations = {PENDING: said_by(write)} if said_by(write) is not None else {}
        changed = {**body, "metadata": {**body["metadata"], "annotations": annotations}}
        (delta,) = self.items(changed)
        return [delta, Stored(write, delta.body)]

    def after(self, seconds, step=1.0):
        """Let time pass, with the cycles that are due meanwhile."""
        until = self.clock() + seconds
        while self.clock() < until:
            self.clock.now = min(until, self.clock() + step)
            self.run(Tick())

    @property
    def told(self):
        """Return what Events on pods said: pod, reason and message."""
        return [
            (item.subject.name, item.reason, item.message)
            for item in self.effects
            if isinstance(item, EventRequest) and item.subject.kind == "Pod"
        ]

    def annotation(self, name):
        """Return the annotation of a claim."""
        return self.bodies["ResourceClaim", name]["metadata"].get("annotations", {}).get(PENDING)


@pytest.fixture
def bench(clock):
    """Cycles with a class, two nodes, and a device on the first."""
    found = PodBench(clock)
    found.cycle.observe(
        [
            item
            for body in (device_class(), node("n1"), node("n2"), resource_slice("n1", "gpu-0"))
            for item in found.items(body)
        ]
    )
    return found


HELD = {
    "allocation": allocation("n1", "gpu-0"),
    "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
}


def made(name):
    """Return a pod with a claim that was made of a template, and that claim."""
    status = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    return pod(name, templated("gpu"), made=status), claim(f"{name}-gpu", owner=name)


def test_pod_that_waits_is_told_why_on_itself_and_on_its_claim(bench):
    """The Event is on the pod, the annotation on its claim, both with the words of a claim of ours."""
    bench.put(claim("other", status=HELD), *made("p"))
    bench.after(10)

    ((name, reason, message),) = bench.told
    assert (name, reason) == ("p", "DeviceInUse")
    assert message.startswith("request gpu: 1 device published")
    assert message.endswith("; it would fit if claim other ended")
    assert bench.annotation("p-gpu") == message
    assert not writes(bench.effects, "allocate")


def test_pod_that_fits_is_told_of_after_forty_seconds(bench):
    """Only when its claims have fitted all the time; then the message has the node."""
    bench.put(*made("p"))
    bench.after(44)
    assert bench.told == []

    bench.after(10)
    ((_, reason, message),) = bench.told
    assert reason == "NotScheduled"
    assert message.startswith("its claims have fitted for 40 s, now on node n1")
    assert bench.annotation("p-gpu") is None


def test_reason_that_changes_is_told_again_and_the_annotation_once_a_minute(bench):
    """The Event follows the reason; the annotation waits until the last one is a minute old."""
    bench.put(claim("other", status=HELD), *made("p"))
    bench.after(10)
    before = bench.annotation("p-gpu")

    bench.put(resource_slice("n1", "gpu-0", taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]))
    bench.after(20)
    assert [reason for _, reason, _ in bench.told] == ["DeviceInUse", "DeviceTainted"]
    assert bench.annotation("p-gpu") == before

    bench.after(60)
    assert "tainted" in bench.annotation("p-gpu")
    assert len(writes(bench.effects, "annotate")) == 2


def test_annotation_goes_when_the_pod_has_its_devices(bench):
    """What was said on the claim is taken off once kube-scheduler has allocated it."""
    bench.put(claim("other", status=HELD), *made("p"))
    bench.after(10)
    bench.remove("ResourceClaim", "other")

    bench.put({**bench.bodies["ResourceClaim", "p-gpu"], "status": HELD})
    bench.put({**bench.bodies["Pod", "p"], "spec": {**bench.bodies["Pod", "p"]["spec"], "nodeName": "n1"}})
    bench.after(1)

    assert bench.annotation("p-gpu") is None


def test_claim_that_several_pods_wait_for_is_told_of_once(bench):
    """Each pod has its Event; the annotation does not go back and forth between them."""
    bench.put(claim("other", status=HELD), claim("shared"), pod("a", named("x", "shared"), cpu="9"))
    bench.put(pod("b", named("y", "shared")))
    bench.after(130)

    assert sorted(name for name, _, _ in bench.told) == ["a", "b"]
    assert len(writes(bench.effects, "annotate")) == 1


def test_many_pods_are_told_of_at_a_bounded_rate(bench):
    """Of a hundred pods that wait each second brings ten Events and ten annotations."""
    bench.put(claim("other", status=HELD), *[body for number in range(100) for body in made(f"p{number:02}")])
    bench.after(6, step=1.0)
    written = []
    for _ in range(20):
        before = len(bench.effects)
        bench.after(1.0, step=1.0)
        written.append(len(bench.effects) - before)

    assert max(written) <= 2 * RATE
    assert len(bench.told) == 100
    assert len(writes(bench.effects, "annotate")) == 100


def test_bad_object_is_reported_and_keeps_nobody_else_waiting(bench):
    """A node whose amounts cannot be read has its Event, and pods are told of all the same."""
    bad = node("n3")
    bad["status"]["allocatable"]["cpu"] = "four"
    bench.put(bad, claim("other", status=HELD), *made("p"))
    bench.after(10)

    assert [reason for _, reason, _ in bench.told] == ["DeviceInUse"]
    (event,) = [
        item
        for item in bench.effects
        if isinstance(item, EventRequest) and (item.subject.kind, item.subject.name) == ("Node", "n3")
    ]
    assert event.reason == "InvalidObject"
    assert "four" in event.message


def test_template_that_cannot_work_is_told_of_on_the_template(bench):
    """Of a class that does not exist, of a selector that no device matches; not of what is only in use."""
    for name, of, count in (
        ("typo", "gpu.exmaple.com", 1),
        ("large", "gpu.example.com", 2),
        ("busy", "gpu.example.com", 1),
    ):
        body = claim(name, count, of=of)
        bench.put(
            {
                **body,
                "kind": "ResourceClaimTemplate",
                "spec": {"spec": body["spec"]},
            }
        )
    bench.put(claim("other", status=HELD))
    bench.after(40)

    found = {
        item.subject.name: (item.reason, item.message)
        for item in bench.effects
        if isinstance(item, EventRequest) and item.subject.kind == "ResourceClaimTemplate"
    }
    assert found.keys() == {"typo", "large"}
    assert "gpu.exmaple.com does not exist" in found["typo"][1]
    assert "2 requested" in found["large"][1]


def test_template_that_tolerates_the_taint_of_owned_devices_is_told_of(clock):
    """kube-scheduler chooses such devices again and again; with admin access, or where nothing is owned, it may."""
    bench = PodBench(clock, Settlement())
    labels = {"resource.kubernetes.io/admin-access": "true"}
    bench.put(manifest("Namespace", NAMESPACE, labels=labels))
    bench.put(node("n1"), device_class(), resource_slice("n1", "gpu-0"))
    for name, admin in (("user", None), ("monitor", True)):
        body = claim(name)
        body["spec"]["devices"]["requests"][0]["exactly"] |= {
            "tolerations": [{"operator": "Exists"}],
            **({"adminAccess": admin} if admin else {}),
        }
        bench.put({**body, "kind": "ResourceClaimTemplate", "spec": {"spec": body["spec"]}})
    bench.after(40)
    assert not [item for item in bench.effects if isinstance(item, EventRequest)]

    rule = taint_rule("ours", {"driver": "gpu.example.com"}, key="dra-operator.io/owned", version="v1")
    bench.put(rule)
    bench.after(40)
    found = {
        item.subject.name: item.message
        for item in bench.effects
        if isinstance(item, EventRequest) and item.subject.kind == "ResourceClaimTemplate"
    }
    assert found.keys() == {"user"}
    assert found["user"].startswith(
        "request gpu tolerates the taint dra-operator.io/owned, so kube-scheduler"
    )
