"""Gangs of gated pods in the operator: what becomes of one that is begun, and of one that says rubbish."""

import random
from dataclasses import replace

import pytest

from dra_operator.api.names import GANG_MATCH_ANNOTATION, GANG_TOPOLOGY_ANNOTATION, OPT_OUT_LABEL
from gatefuzz.interleaving import Clock
from gatefuzz.operator import Operator
from gatefuzz.server import GANG, GANG_SIZE, GATE, Server, is_gated
from pod_world import NAMESPACE, claim, device_class, named, node, pod, resource_slice


class GangBench:
    """Nodes of some devices, gated pods with a claim each, and an operator that may be followed by another."""

    def __init__(self, nodes=2, devices=2):
        self.clock, self.server = Clock(), Server()
        self.server.put(device_class())
        for number in range(1, nodes + 1):
            self.server.put(node(f"n{number}", cpu="8"))
            self.server.put(resource_slice(f"n{number}", *[f"gpu-{each}" for each in range(devices)]))
        self.operator = Operator(self.server, self.clock, 0)

    def create(
        self, name, size="", *, gates=(GATE,), group="", labels=None, shared=(), devices=1, **annotations
    ):
        """Create a pod with a claim of its own: of a gang of that size, or of a PodGroup."""
        own = claim(name, devices, owner=f"uid-{name}", uid=f"uid-claim-{name}")
        if devices:
            self.server.put({**own, "metadata": {**own["metadata"], "labels": labels or {}}})
        body = pod(name, *[named(each, each) for each in (*[name] * bool(devices), *shared)])
        of_gang = {GANG: "g", GANG_SIZE: size} if size and not group else {}
        body["metadata"] |= {"uid": f"uid-{name}", "annotations": {**of_gang, **annotations}}
        body["spec"] |= {"schedulingGates": [{"name": each} for each in gates]}
        if group:
            body["spec"]["schedulingGroup"] = {"podGroupName": group}
        self.server.put(body)

    def put_group(self, **policy):
        """Store a PodGroup."""
        metadata = {"name": "train", "namespace": NAMESPACE}
        self.server.put({"kind": "PodGroup", "metadata": metadata, "spec": {"schedulingPolicy": policy}})

    def rest(self, seconds=60, lost=""):
        """Let half seconds pass, each with a cycle, and the answers to all writes but those to the gate of a pod."""
        for _ in range(2 * seconds):
            self.operator.tell(len(self.server.events))
            self.clock.now += 0.5
            self.operator.run()
            chance = random.Random(0)  # noqa: S311
            while self.operator.pending:
                gate = [
                    each for each in self.operator.pending if (each.write.kind, each.key[2]) == ("gate", lost)
                ]
                for each in gate:
                    self.operator.pending.remove(each)
                self.operator.send_one(chance)

    def read(self, name):
        """Return a pod as it is stored."""
        return self.server.objects["Pod", NAMESPACE, name]

    def gated(self):
        """Return the names of the pods that our gate holds."""
        return sorted(each["metadata"]["name"] for each in self.server.of_kind("Pod") if is_gated(each))

    def refuse(self, *names):
        """Have kube-scheduler say that it cannot place pods, and take their nominations, as it does for PodGroups."""
        for name in names:
            body = self.read(name)
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no cpu",
            }
            self.server.put(
                {**body, "status": {**body["status"], "nominatedNodeName": "", "conditions": [condition]}}
            )

    def told(self, name):
        """Return what was told of a pod that was handed back."""
        return [text for each, text in self.operator.messages if each == name and "handed back" in text]

    def bind(self, *names):
        """Bind pods to the nodes that they are nominated to, as kube-scheduler does."""
        for name in names:
            body = self.read(name)
            user = {"resource": "pods", "name": name, "uid": f"uid-{name}"}
            (own,) = self.server.claims_of(body)
            self.server.put({**own, "status": {**own["status"], "reservedFor": [user]}})
            spec = {**body["spec"], "nodeName": body["status"]["nominatedNodeName"]}
            self.server.put({**body, "spec": spec})

    def end(self, name, phase):
        """Have a pod end, and kube-controller-manager take its devices back."""
        body = self.read(name)
        self.server.put({**body, "status": {**body["status"], "phase": phase}})
        (own,) = self.server.claims_of(body)
        self.server.put({**own, "status": {}, "metadata": {**own["metadata"], "finalizers": []}})


@pytest.fixture
def bench():
    """An operator of gated pods and its cluster."""
    return GangBench()


RUBBISH = [
    ({"size": "abc"}, {"size": "abc"}, f"{GANG_SIZE}: 'abc' is no number"),
    ({"size": "-3"}, {"size": "-3"}, f"{GANG_SIZE}: '-3' is no number"),
    ({"size": "2"}, {"size": "3"}, f"{GANG_SIZE}: 2 and 3: all its pods must say the same"),
    ({"size": "900"}, {"size": "900"}, "has 900 pods: more than 256"),
    ({GANG: "g"}, {GANG: "g"}, f"{GANG_SIZE}: missing"),
    (
        {"size": "2", GANG_TOPOLOGY_ANNOTATION: "rack"},
        {"size": "2", GANG_TOPOLOGY_ANNOTATION: "zone"},
        f"{GANG_TOPOLOGY_ANNOTATION}: rack and zone",
    ),
    ({"size": "2", GANG_MATCH_ANNOTATION: "rail"}, {"size": "2"}, "write DOMAIN/ATTRIBUTE"),
    (
        {"size": "2", "labels": {OPT_OUT_LABEL: "false"}},
        {"size": "2"},
        'claim "p0" of pod "p0" has the label',
    ),
    (
        {"group": "train", GANG_SIZE: "2"},
        {"group": "train", GANG_SIZE: "3"},
        f"{GANG_SIZE}: 2 and 3: all its pods must say the same",
    ),
]


@pytest.mark.parametrize(("first", "second", "text"), RUBBISH)
def test_what_pods_say_wrongly_is_told_of_their_gang_alone(bench, first, second, text):
    """Each pod of the gang is told what is wrong, and keeps its gate; a pod beside them goes, and nothing breaks."""
    bench.put_group(basic={})
    for name, said in (("p0", first), ("p1", second)):
        bench.create(name, **said)
    bench.create("beside")
    bench.rest()

    assert bench.gated() == ["p0", "p1"]
    assert ("p1", "InvalidObject") in bench.operator.told
    assert [text in message for name, message in bench.operator.messages if name == "p1"] == [True]
    assert not bench.operator.metrics_of_errors()


def test_a_pod_made_anew_goes_when_others_have_succeeded(bench):
    """Of three pods two have done their work and one failed: the one in its place is let go by itself."""
    names = ["p0", "p1", "p2"]
    for name in names:
        bench.create(name, "3")
    bench.rest()
    bench.bind(*names)
    for name, phase in zip(names, ("Succeeded", "Succeeded", "Failed"), strict=True):
        bench.end(name, phase)
    bench.create("p3", "3")
    bench.rest()

    assert bench.gated() == []


def test_a_pod_with_another_gate_keeps_nobody_of_a_begun_gang(bench):
    """A pod that came later, with a gate of somebody else, waits alone; one made anew gets its devices."""
    for name in ("p0", "p1"):
        bench.create(name, "2")
    bench.rest()
    bench.bind("p0", "p1")
    bench.create("held", "2", gates=(GATE, "example.com/quota"))
    bench.end("p1", "Failed")
    bench.create("p2", "4")
    bench.rest()

    assert bench.gated() == ["held"]


def test_a_successor_that_hears_of_the_podgroup_late_takes_nothing_back(bench):
    """The gate of one pod is off, that of the other was not: it keeps its device until the PodGroup is listed."""
    bench.put_group(gang={"minCount": 2})
    for name in ("p0", "p1"):
        bench.create(name, group="train")
    bench.rest(lost="p1")
    assert bench.gated() == ["p1"]
    listed = bench.server.objects.pop(("PodGroup", NAMESPACE, "train"))
    bench.operator = Operator(bench.server, bench.clock, 1)
    bench.create("beside")
    bench.rest(5)
    (own,) = bench.server.claims_of(bench.read("p1"))
    assert own["status"]["allocation"]

    bench.server.put(listed)
    bench.rest(200)

    assert bench.gated() == []


def test_what_is_against_one_pod_is_told_of_all(bench):
    """A claim that a pod of no gang shares is not the operator's: the other pod is told that it waits for that."""
    bench.server.put(claim("shared"))
    bench.server.put(pod("outside", named("shared", "shared")))
    bench.create("p0", "2", shared=("shared",))
    bench.create("p1", "2")
    bench.rest(120)

    assert bench.gated() == ["p0", "p1"]
    assert {("p0", "ClaimNotGated"), ("p1", "ClaimNotGated")} <= bench.operator.told


@pytest.mark.parametrize("gate", [GATE, "example.com/quota"])
@pytest.mark.parametrize("policy", [{"gang": {"minCount": 2}}, {"basic": {}}])
def test_pods_that_kube_scheduler_holds_for_another_of_their_podgroup_are_handed_back(bench, policy, gate):
    """One without room, or with a foreign gate, came when their gates were off: they give back what they hold."""
    bench.put_group(**policy)
    for name in ("p0", "p1"):
        bench.create(name, group="train")
    bench.rest()
    assert bench.gated() == []
    bench.create("late", group="train", devices=3, gates=(gate,))
    bench.rest(50)
    assert not bench.told("p0")
    bench.rest(30)

    why = f'kube-scheduler looks at no pod of PodGroup "{NAMESPACE}/train" while one has a gate: late'
    for name in ("p0", "p1"):
        assert bench.told(name) == [f"handed back: {why}; delete the pod to try again"]
        (own,) = bench.server.claims_of(bench.read(name))
        assert not own["status"].get("allocation")
    assert not bench.operator.metrics_of_errors()


@pytest.mark.parametrize("gates", [(GATE, "example.com/quota"), ("example.com/quota",)])
def test_a_foreign_gate_holds_all_before_they_are_let_go(bench, gates):
    """kube-scheduler would look at none of them: they hold nothing, are told, and go once it is off."""
    bench.put_group(gang={"minCount": 2})
    for name in ("p0", "p1"):
        bench.create(name, group="train")
    bench.create("p2", group="train", gates=gates)
    bench.rest()
    assert {"p0", "p1"} <= set(bench.gated())
    assert not any(each["status"].get("allocation") for each in bench.server.of_kind("ResourceClaim"))
    text = f'PodGroup "{NAMESPACE}/train": pod "p2" has the gate example.com/quota'
    assert {("p0", text), ("p1", text)} <= bench.operator.messages
    body = bench.read("p2")
    left = [{"name": GATE}] if GATE in gates else []
    bench.server.put({**body, "spec": {**body["spec"], "schedulingGates": left}})
    bench.rest()

    assert bench.gated() == []


def test_a_pod_that_gets_its_devices_later_lets_the_others_go_on(bench):
    """kube-scheduler held them for as long as it had its gate, and nothing is taken back from them."""
    bench.put_group(gang={"minCount": 2})
    bench.create("beside", devices=2)
    for name in ("p0", "p1"):
        bench.create(name, group="train")
    bench.rest()
    bench.create("late", group="train", devices=2)
    bench.rest(40)
    assert bench.gated() == ["late"]
    bench.end("beside", "Succeeded")
    bench.rest(100)

    assert bench.gated() == []
    assert not bench.told("p0")


def test_a_gang_is_told_as_broken_when_another_pod_runs_later(bench):
    """What was handed back before says so anew, also a pod without claims, whose nomination kube-scheduler took."""
    bench.create("leader", "3", devices=0)
    for name in ("p0", "p1"):
        bench.create(name, "3")
    bench.rest()
    bench.refuse("leader", "p0")
    bench.rest(70)
    for name in ("leader", "p0"):
        assert bench.told(name) == ["handed back: no cpu; delete the pod to try again"]
    bench.bind("p1")
    bench.rest(30)

    for name in ("leader", "p0"):
        assert any(text.startswith(f"gang broken: {name} of 3: handed back") for text in bench.told(name))


def test_a_decision_about_a_gang_counts_once_and_ends_in_time(bench):
    """It is observed as one of a claim is; where its time is over nothing is decided, and it is tried again."""
    for name in ("p0", "p1"):
        bench.create(name, "2")
    allocator = bench.operator.allocator
    allocator.limits = replace(allocator.limits, seconds=0.0)
    bench.rest(10)
    assert bench.gated() == ["p0", "p1"]
    (family,) = bench.operator.metrics.decision_seconds.collect()
    assert [each.value for each in family.samples if each.name.endswith("_count")] == [1]
    allocator.limits = replace(allocator.limits, seconds=10.0)
    bench.rest()

    assert bench.gated() == []


def test_a_gang_of_256_is_handed_over_beside_others():
    """While its writes are under way another pod is decided and let go; then all its gates come off."""
    bench = GangBench(nodes=33, devices=8)
    for number in range(256):
        bench.create(f"p{number}", "256")
    bench.operator.tell(len(bench.server.events))
    bench.operator.run()
    of_gang, bench.operator.pending = bench.operator.pending, []
    bench.create("beside")
    bench.rest(2)
    assert len(of_gang) == 2 * 256
    assert "beside" not in bench.gated()
    assert len(bench.gated()) == 256

    bench.operator.pending = of_gang
    bench.rest(10)

    assert bench.gated() == []
