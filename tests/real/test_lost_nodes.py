"""Gated pods that were let go and lost their node: kube-scheduler takes their devices, and nobody gives them others."""

import re
import time
from signal import SIGCONT, SIGSTOP

import pytest

from controlplane import Scene, fresh_namespace, install_access, running_control_plane, start_operator
from controlplane.manifests import install_component
from controlplane.namespaces import clear_cluster
from controlplane.scene import RESOURCE, allocation, annotations
from dra_operator.api.names import GATE, OWNED_KEY

GPU = "gpu.example.com"
FLAGS = ("--claims=gated", "--devices=owned", "--ownership-quiet-seconds=0", "--handback-seconds=3")
NEVER_PLACED = "a new pod goes to node node-1 again"
ZONE = "kubernetes.io/hostname"


@pytest.fixture(scope="module")
def lossy_plane(programs, tmp_path_factory):
    """Return a control plane and its kube-scheduler, at its defaults, which a test may hold back."""
    with running_control_plane(programs, tmp_path_factory.mktemp("lossy")) as plane:
        plane.start_controller_manager()
        install_access(plane)
        for component in ("gates", "explain-pods"):
            install_component(plane, component)
        yield plane, plane.start_scheduler()


class Fleet:
    """Two nodes with two devices each that are ours; and what becomes of the pod that a test creates."""

    def __init__(self, plane, scheduler, scene, folder):
        self.plane, self.scheduler, self.scene, self.client = plane, scheduler, scene, scene.client
        self.folder, self.operator = folder, None
        self.pods = f"/api/v1/namespaces/{scene.namespace}/pods"
        self.operators = []

    def publish(self, pool, node, *, owned=True):
        """Publish two devices of a node."""
        taints = [{"key": OWNED_KEY, "effect": "NoSchedule"}] if owned else []
        spec = {
            "driver": GPU,
            "nodeName": node,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        }
        spec["devices"] = [{"name": name, "taints": taints} for name in ("gpu-0", "gpu-1")]
        self.client.create(f"{RESOURCE}/resourceslices", {"metadata": {"name": pool}, "spec": spec})

    def create(self, name, *, gated=True, **spec):
        """Create a pod, a gated one with a claim of its own."""
        body = {"metadata": {"name": name, "labels": {"app": "a"}}}
        body["spec"] = {"containers": [{"name": "main", "image": "none"}], **spec}
        if gated:
            body["spec"]["schedulingGates"] = [{"name": GATE}]
            body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        self.client.create(self.pods, body)

    def wait_pod(self, name, condition, what):
        """Wait for something of a pod."""
        return self.client.wait_for(f"{self.pods}/{name}", condition, what=f"{what} of {name}")

    def start(self, explain):
        """Start an operator; the one before is killed."""
        if self.operator is not None:
            self.operator.kill()
        log = self.folder / f"operator-{len(self.operators)}.log"
        self.operator = start_operator(self.plane, log, *FLAGS, f"--explain={explain}")
        self.operators.append(self.operator)
        self.operator.wait_ready()

    def cordon(self, *, is_cordoned):
        """Cordon the first node, or uncordon it."""
        self.client.patch("/api/v1/nodes/node-1", {"spec": {"unschedulable": is_cordoned}})

    def claim(self):
        """Return the one claim."""
        (found,) = self.scene.all_claims()
        return found

    def told(self, name):
        """Return the Events of the operator about a pod, by reason."""
        return {
            event["reason"]: event["message"]
            for event in self.client.get(f"/api/v1/namespaces/{self.scene.namespace}/events")["items"]
            if event["involvedObject"]["name"] == name and event["source"].get("component") == "dra-operator"
        }

    def metric(self, name):
        """Return a metric of the operator."""
        _, text = self.operator.http("/metrics")
        return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)[1])

    def lose_by_cordon(self):
        """Create a pod whose node is cordoned for five seconds when kube-scheduler comes to it.

        Another one is created if kube-scheduler hears of the pod before it hears of the node.
        """
        while True:
            self.scheduler.send(SIGSTOP)
            try:
                self.create("lost")
                self.wait_pod("lost", lambda pod: "schedulingGates" not in pod["spec"], "the end of the gate")
                self.cordon(is_cordoned=True)
            finally:
                self.scheduler.send(SIGCONT)
            since = time.monotonic()
            pod = self.wait_pod(
                "lost", lambda pod: not pod["status"].get("nominatedNodeName"), "no nomination"
            )
            if not pod["spec"].get("nodeName"):
                break
            self.client.delete(f"{self.pods}/lost?gracePeriodSeconds=0")
            self.client.wait_for(self.scene.claims, lambda found: not found["items"], what="no claim")
            self.cordon(is_cordoned=False)
        self.wait_cleared()
        time.sleep(max(0.0, since + 5.0 - time.monotonic()))
        self.cordon(is_cordoned=False)

    def lose_by_anti_affinity(self):
        """Create a pod that must not be beside one which is on the first node."""
        self.create("first", gated=False, nodeName="node-1")
        term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": ZONE}
        anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        self.create("lost", affinity=anti)
        self.wait_cleared()

    def wait_cleared(self):
        """Wait until the pod that was let go has no devices any more."""
        pod = self.wait_pod(
            "lost",
            lambda pod: "schedulingGates" not in pod["spec"] and not pod["status"].get("nominatedNodeName"),
            "the end of the nomination",
        )
        assert not pod["spec"].get("nodeName")
        path = f"{self.scene.claims}/{self.claim()['metadata']['name']}"
        self.client.wait_for(path, lambda claim: not allocation(claim), what="no allocation")


@pytest.fixture
def fleet(lossy_plane, tmp_path):
    """Return such a fleet in a namespace of its own."""
    plane, scheduler = lossy_plane
    with fresh_namespace(plane) as name:
        found = Fleet(plane, scheduler, Scene(plane, name), tmp_path)
        found.scene.apply("nodes.yaml")
        selector = {"cel": {"expression": f'device.driver == "{GPU}"'}}
        found.client.create(
            f"{RESOURCE}/deviceclasses", {"metadata": {"name": GPU}, "spec": {"selectors": [selector]}}
        )
        for node in ("node-1", "node-2"):
            found.publish(f"ours-{node}", node)
        request = {"name": "gpu", "exactly": {"deviceClassName": GPU}}
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
        path = f"{RESOURCE}/namespaces/{name}/resourceclaimtemplates"
        found.client.create(path, template)
        try:
            yield found
        finally:
            for operator in found.operators:
                operator.stop()
    clear_cluster(plane)


@pytest.mark.parametrize(
    ("how", "explain", "is_killed"),
    [
        pytest.param("cordon", "all", True, id="cordon, all explained, killed between"),
        pytest.param("anti-affinity", "ours", True, id="anti-affinity, killed between"),
        pytest.param("anti-affinity, others free", "all", True, id="others free, killed between"),
    ],
)
def test_pod_that_lost_its_node_is_told_and_counted(fleet, how, explain, is_killed):
    """Event, annotation and metrics say so, and nothing else is said; devices on the forbidden node help nobody."""
    if how == "anti-affinity, others free":
        fleet.publish("others", "node-1", owned=False)
    fleet.start(explain)
    if how == "cordon":
        fleet.lose_by_cordon()
    else:
        fleet.lose_by_anti_affinity()
    if is_killed:
        fleet.start(explain)

    fleet.client.wait_for("/healthz", lambda _: fleet.told("lost"), what="the Event")
    told = fleet.told("lost")
    assert set(told) == {"HandedBack"}
    assert told["HandedBack"].startswith("handed back: 0/2 nodes are available: ")
    assert told["HandedBack"].endswith("; delete the pod to try again")
    assert (NEVER_PLACED in told["HandedBack"]) is (how != "cordon")
    path = f"{fleet.scene.claims}/{fleet.claim()['metadata']['name']}"
    claim = fleet.client.wait_for(
        path, lambda claim: "dra-operator.io/pending" in annotations(claim), what="the annotation"
    )
    assert annotations(claim)["dra-operator.io/pending"].startswith("handed back: 0/2 nodes")
    counted = "dra_operator_handed_back_pods_total"  # an operator that was started since counts the pod a while later
    gauge, since = (
        'dra_operator_gated_pods{state="handed back"}',
        "dra_operator_let_go_since_timestamp_seconds",
    )
    fleet.client.wait_for(
        "/healthz",
        lambda _: (
            fleet.metric(counted) == fleet.metric(gauge) == 1 and 0 < time.time() - fleet.metric(since) < 150
        ),
        what="the count",
    )

    fleet.client.delete(f"{fleet.pods}/lost?gracePeriodSeconds=0")
    fleet.client.wait_for(path, lambda claim: claim is None, what="the end of the claim")
    fleet.client.wait_for(
        "/healthz",
        lambda _: fleet.metric("dra_operator_let_go_since_timestamp_seconds") == 0,
        what="the end of the alert",
    )


def test_pod_that_finds_other_devices_is_bound_and_not_told(fleet):
    """kube-scheduler gives it what is free and not ours, on a node where it may run."""
    fleet.publish("others", "node-2", owned=False)
    fleet.start("all")
    fleet.create("first", gated=False, nodeName="node-1")
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": ZONE}
    anti = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    fleet.create("found", affinity=anti)

    fleet.wait_pod("found", lambda pod: pod["spec"].get("nodeName") == "node-2", "the node")
    assert fleet.told("found") == {}
