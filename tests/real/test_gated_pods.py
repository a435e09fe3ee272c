"""Gated pods beside kube-scheduler and kube-controller-manager: a Job whose devices the operator decides."""

import pytest

from controlplane import install_component
from controlplane.scene import RESOURCE
from dra_operator.api.names import GATE, OWNED_KEY

GPU, NET = "gpu.example.com", "net.example.com"
FLAGS = ("--claims=gated", "--devices=owned", "--ownership-quiet-seconds=0")


def publish(scene, driver, pool, names, **where):
    """Publish devices that are ours, and their class."""
    taint = {"key": OWNED_KEY, "effect": "NoSchedule"}
    scene.client.create(
        f"{RESOURCE}/resourceslices",
        {
            "metadata": {"name": f"{driver}-{pool}"},
            "spec": {
                "driver": driver,
                "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": name, "taints": [taint]} for name in names],
                **where,
            },
        },
    )


def create_class(scene, driver):
    """Create the class of all devices of a driver."""
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    scene.client.create(
        f"{RESOURCE}/deviceclasses", {"metadata": {"name": driver}, "spec": {"selectors": [selector]}}
    )


@pytest.fixture
def fleet(full_access, full_scene):
    """Two nodes with two GPUs each, and a device in the network; all are ours."""
    install_component(full_access, "gates")
    full_scene.apply("nodes.yaml")
    for driver in (GPU, NET):
        create_class(full_scene, driver)
    for name in ("node-1", "node-2"):
        publish(full_scene, GPU, name, ("gpu-0", "gpu-1"), nodeName=name)
    publish(full_scene, NET, "fabric", ("link-0",), allNodes=True)
    return full_scene


def create_job(scene):
    """Create a Job of two gated pods in turn, each with a claim made of a template, and one that they share."""
    claims = f"{RESOURCE}/namespaces/{scene.namespace}/"
    request = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": GPU}}]}
    scene.client.create(
        f"{claims}resourceclaimtemplates",
        {"metadata": {"name": "own"}, "spec": {"spec": {"devices": request}}},
    )
    scene.create_claim("shared", NET)
    scene.client.create(
        f"/apis/batch/v1/namespaces/{scene.namespace}/jobs",
        {
            "metadata": {"name": "job"},
            "spec": {
                "completions": 2,
                "parallelism": 1,
                "template": {
                    "spec": {
                        "restartPolicy": "Never",
                        "schedulingGates": [{"name": GATE}],
                        "containers": [{"name": "main", "image": "none"}],
                        "resourceClaims": [
                            {"name": "own", "resourceClaimTemplateName": "own"},
                            {"name": "shared", "resourceClaimName": "shared"},
                        ],
                    }
                },
            },
        },
    )


def wait_pods(scene, condition, what):
    """Wait until a condition is true of the pods of a namespace."""
    path = f"/api/v1/namespaces/{scene.namespace}/pods"
    return scene.client.wait_for(path, lambda found: condition(found["items"]), what=what)["items"]


def test_shared_claim_is_kept_for_the_next_pod_while_one_that_has_run_is_there(fleet, run_full_operator):
    """A claim that its last pod gave back is allocated for the next one, although the first is still listed."""
    run_full_operator(*FLAGS)
    create_job(fleet)
    (first,) = wait_pods(
        fleet, lambda pods: any(pod["spec"].get("nodeName") for pod in pods), "the first bound"
    )
    path = f"/api/v1/namespaces/{fleet.namespace}/pods/{first['metadata']['name']}"

    fleet.client.patch(f"{path}/status", {"status": {"phase": "Succeeded"}})

    pods = wait_pods(
        fleet,
        lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 2,
        "the second bound",
    )
    assert {pod["status"]["phase"] for pod in pods} == {"Succeeded", "Pending"}
