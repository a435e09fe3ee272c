"""Gangs on the real control plane: what kube-scheduler makes of one that fits only if a choice is revisited.

One node has one device of counter 2, published as `whole` and, after it, as two halves; each pod takes the whole, or
else a half. Of two pods both fit as halves, and kube-scheduler gives the first the whole; with our gates the operator
decides them together.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane import install_component
from controlplane.scene import RESOURCE, allocation, node
from dra_operator.api.names import GATE, OWNED_KEY

DRIVER = "gpu.example.com"
UNFOUND_SECONDS = 15
"""For so long kube-scheduler is given to find what fits."""


def create_node(scene, name, cpu="8"):
    """Create a node that is ready."""
    resources = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    status = {
        "capacity": resources,
        "allocatable": resources,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "nobody runs here"}],
    }
    scene.client.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status})


def publish(scene, *taints):
    """Publish the device of node-1, tainted or not, and the classes of its parts."""
    publish_on(scene, "node-1", taints)
    for kind in ("whole", "half"):
        selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{kind}"'}}
        body = {"metadata": {"name": kind}, "spec": {"selectors": [selector]}}
        scene.client.create(f"{RESOURCE}/deviceclasses", body)


def publish_on(scene, node, taints):
    """Publish the device of a node, which is its whole and its halves."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "pool": pool, "nodeName": node}
    parts = [
        {
            "name": name,
            "attributes": {"kind": {"string": kind}},
            "consumesCounters": [{"counterSet": "card", "counters": {"slots": {"value": slots}}}],
            "taints": list(taints),
        }
        for name, kind, slots in (("whole", "whole", "2"), ("half-0", "half", "1"), ("half-1", "half", "1"))
    ]
    counters = [{"name": "card", "counters": {"slots": {"value": "2"}}}]
    for name, rest in (("counters", {"sharedCounters": counters}), ("devices", {"devices": parts})):
        body = {"metadata": {"name": f"{node}-{name}"}, "spec": {**common, **rest}}
        scene.client.create(f"{RESOURCE}/resourceslices", body)


@pytest.fixture
def scene(full_scene):
    """A cluster of one node, and a namespace with the template of a part."""
    create_node(full_scene, "node-1")
    create_template(full_scene, halves=1)
    return full_scene


def create_template(scene, halves):
    """Create the template of the whole, or else of so many halves."""
    options = [
        {"name": kind, "deviceClassName": kind, "count": count}
        for kind, count in (("whole", 1), ("half", halves))
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": options}]}}
    path = f"{RESOURCE}/namespaces/{scene.namespace}/resourceclaimtemplates"
    scene.client.create(path, {"metadata": {"name": f"part-{halves}"}, "spec": {"spec": spec}})


def create_pod(scene, name, group="", *, is_gated=False, template="part-1", cpu="0", **metadata):
    """Create a pod with a claim of the template, of a PodGroup if one is named, and with our gate or without."""
    resources = {"requests": {"cpu": cpu}}
    spec = {
        "containers": [{"name": "main", "image": "none", "resources": resources}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        "schedulingGates": [{"name": GATE}] * is_gated,
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    path = f"/api/v1/namespaces/{scene.namespace}/pods"
    return scene.client.create(path, {"metadata": {"name": name, **metadata}, "spec": spec})


def create_group(scene, at_least):
    """Create a PodGroup that needs so many of its pods."""
    path = f"/apis/scheduling.k8s.io/v1beta1/namespaces/{scene.namespace}/podgroups"
    policy = {"gang": {"minCount": at_least}}
    scene.client.create(path, {"metadata": {"name": "gang"}, "spec": {"schedulingPolicy": policy}})


def wait_pods(scene, condition, what):
    """Wait until a condition is true of the pods of a namespace, and return them by name."""
    path = f"/api/v1/namespaces/{scene.namespace}/pods"
    found = scene.client.wait_for(path, lambda found: condition(found["items"]), what=what)
    return {pod["metadata"]["name"]: pod for pod in found["items"]}


def is_refused(pod):
    """Whether kube-scheduler says that it cannot place a pod."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions)


def explain(scene, name):
    """Run `kubectl dra explain` as an administrator."""
    environment = {
        "PATH": f"{scene.plane.programs.kubectl.parent}:/usr/bin:/bin",
        "KUBECONFIG": str(scene.plane.admin_kubeconfig),
    }
    program = Path(sys.executable).with_name("kubectl-dra")
    return subprocess.run(
        [program, "explain", name, "-n", scene.namespace],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_kube_scheduler_does_not_find_what_fits(scene):
    """Neither pod of the group is bound, the answer names the halves, and says that kube-scheduler will not find it."""
    publish(scene)
    created = time.monotonic()
    create_group(scene, 2)
    for name in ("p0", "p1"):
        create_pod(scene, name, "gang")
    wait_pods(scene, lambda pods: len(pods) == 2 and all(map(is_refused, pods)), "both refused")

    done = explain(scene, "podgroup/gang")

    assert "half-0" in done.stdout, done
    assert "half-1" in done.stdout, done
    assert "will not find it" in done.stdout, done
    time.sleep(max(0.0, created + UNFOUND_SECONDS - time.monotonic()))
    pods = wait_pods(scene, bool, "pods")
    assert not any(pod["spec"].get("nodeName") for pod in pods.values())
    assert not any(map(allocation, scene.all_claims()))


# --- with our gates


FLAGS = ("--claims=gated", "--devices=owned", "--ownership-quiet-seconds=0", "--handback-seconds=5")
OWNED = {"key": OWNED_KEY, "effect": "NoSchedule"}
GANG = {"dra-operator.io/gang": "g", "dra-operator.io/gang-size": "2"}


@pytest.fixture
def gates(full_access, scene):
    """The same where the device is ours, and the operator may take our gate off."""
    install_component(full_access, "gates")
    publish(scene, OWNED)
    return scene


def create_gang(scene, made_by):
    """Return the PodGroup, which is created, and the annotations of the pods of a gang of two."""
    if made_by == "annotations":
        return "", GANG
    create_group(scene, 2)
    return "gang", {}


def wait_event(scene, name, text):
    """Wait until a pod has an Event with a text, and return it."""

    def find(found):
        of_pod = [each for each in found["items"] if each["involvedObject"]["name"] == name]
        return [each for each in of_pod if text in each["message"]]

    path = f"/api/v1/namespaces/{scene.namespace}/events"
    found = scene.client.wait_for(path, lambda found: bool(find(found)), what=f"{text} of {name}")
    return find(found)[0]


def test_pods_that_kube_scheduler_holds_for_a_late_one_are_handed_back(
    gates, run_full_operator, full_control_plane
):
    """One more of the PodGroup than minCount comes when the gates are off, without room: the others are told."""
    run_full_operator(*FLAGS)
    create_template(gates, halves=2)
    create_group(gates, 2)
    with full_control_plane.without_scheduler():
        for name in ("p0", "p1"):
            create_pod(gates, name, "gang", is_gated=True)
        wait_pods(
            gates,
            lambda pods: len(pods) == 2 and not any(pod["spec"].get("schedulingGates") for pod in pods),
            "both let go",
        )
        create_pod(gates, "late", "gang", is_gated=True, template="part-2")

    for name in ("p0", "p1"):
        event = wait_event(gates, name, "handed back")
        assert event["message"].endswith("while one has a gate: late; delete the pod to try again"), event
    gates.client.wait_for(
        gates.claims,
        lambda found: not any(map(allocation, found["items"])),
        seconds=60,
        what="devices taken back",
    )
    assert not any(pod["spec"].get("nodeName") for pod in wait_pods(gates, bool, "pods").values())


@pytest.mark.parametrize("made_by", ["PodGroup", "annotations"])
def test_a_pod_that_took_the_node_meanwhile_breaks_no_gang_in_silence(gates, run_full_operator, made_by):
    """Where somebody fills a node in between, each pod is bound, waits with its gate, or is told as handed back."""
    run_full_operator(*FLAGS)
    group, annotations = create_gang(gates, made_by)
    create_node(gates, "node-2")
    publish_on(gates, "node-2", [OWNED])
    create_template(gates, halves=2)
    for name in ("p0", "p1"):
        create_pod(gates, name, group, is_gated=True, template="part-2", cpu="5", annotations=annotations)
    gates.client.wait_for(
        gates.claims, lambda found: any(map(allocation, found["items"])), what="an allocation"
    )
    spec = {
        "nodeName": "node-2",
        "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "8"}}}],
    }
    path = f"/api/v1/namespaces/{gates.namespace}/pods"
    gates.client.create(path, {"metadata": {"name": "intruder"}, "spec": spec})

    def told(name):
        events = gates.client.get(f"/api/v1/namespaces/{gates.namespace}/events")["items"]
        reasons = {each["reason"] for each in events if each["involvedObject"]["name"] == name}
        return reasons & {"HandedBack", "NodeUnsuitable", "ClaimsDoNotFitTogether"}

    def is_settled(pods):
        members = [pod for pod in pods if pod["metadata"]["name"] != "intruder"]
        bound = [bool(pod["spec"].get("nodeName")) for pod in members]
        return all(bound) or all(
            told(pod["metadata"]["name"]) for pod in members if not pod["spec"].get("nodeName")
        )

    pods = wait_pods(gates, is_settled, "bound or told")
    del pods["intruder"]
    at = {claim["metadata"]["ownerReferences"][0]["name"]: claim for claim in gates.all_claims()}
    for name, pod in pods.items():
        if pod["spec"].get("nodeName"):
            assert node(at[name]) == pod["spec"]["nodeName"]
