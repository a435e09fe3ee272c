"""Gangs on the real control plane: what kube-scheduler makes of one that fits only if a choice is revisited.

One node has one device of counter 2, published as `whole` and, after it, as two halves; each pod takes the whole, or
else a half. Of two pods both fit as halves, and kube-scheduler gives the first the whole.
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.scene import RESOURCE, allocation, devices

DRIVER = "gpu.example.com"
UNFOUND_SECONDS = 30
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
    pool = {"name": "node-1", "generation": 1, "resourceSliceCount": 2}
    common = {"driver": DRIVER, "pool": pool, "nodeName": "node-1"}
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
        body = {"metadata": {"name": f"node-1-{name}"}, "spec": {**common, **rest}}
        scene.client.create(f"{RESOURCE}/resourceslices", body)
    for kind in ("whole", "half"):
        selector = {"cel": {"expression": f'device.attributes["{DRIVER}"].kind == "{kind}"'}}
        body = {"metadata": {"name": kind}, "spec": {"selectors": [selector]}}
        scene.client.create(f"{RESOURCE}/deviceclasses", body)


@pytest.fixture
def scene(full_scene):
    """A cluster of one node, and a namespace with the template of a part."""
    create_node(full_scene, "node-1")
    options = [{"name": kind, "deviceClassName": kind} for kind in ("whole", "half")]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": options}]}}
    path = f"{RESOURCE}/namespaces/{full_scene.namespace}/resourceclaimtemplates"
    full_scene.client.create(path, {"metadata": {"name": "part"}, "spec": {"spec": spec}})
    return full_scene


def create_pod(scene, name, group="", **metadata):
    """Create a pod with a claim of the template, of a PodGroup if one is named."""
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "part"}],
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
    found = scene.client.wait_for(path, lambda found: condition(found["items"]), seconds=60, what=what)
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


def test_a_pod_alone_takes_the_whole(scene):
    """Without a PodGroup kube-scheduler binds the first pod with the whole device."""
    publish(scene)
    create_pod(scene, "p0")

    wait_pods(scene, lambda pods: all(pod["spec"].get("nodeName") for pod in pods), "p0 bound")

    assert [devices(claim) for claim in scene.all_claims()] == [["node-1/whole"]]
