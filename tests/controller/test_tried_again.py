"""What has a pending claim tried again: whatever changes that could let it have its devices.

Source: docs/dra-semantics 8.14.
"""

import pytest

from cluster import CLASS, TAINT, allocation, claim, node, pod, resource_slice
from factories import manifest

RULE = manifest(
    "DeviceTaintRule",
    "rule",
    {"deviceSelector": {"driver": "gpu.example.com"}, "taint": TAINT},
    version="v1beta2",
)


ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
BROKEN_CLASS = {**CLASS, "spec": {"selectors": [{"cel": {"expression": 'device.driver == "other"'}}]}}
GPU = (node(), CLASS, resource_slice("gpu-0"))
ADMIN = {"resource.kubernetes.io/admin-access": "true"}


def zonal():
    """A slice for all nodes with a label."""
    body = resource_slice("gpu-0")
    del body["spec"]["nodeName"]
    body["spec"]["nodeSelector"] = ZONE
    return body


def unready():
    """A node that is not ready."""
    body = node()
    body["status"]["conditions"][0]["status"] = "False"
    return body


def put(body):
    """Put an object, or another state of it."""
    return lambda cluster: cluster.put(body)


def remove(kind, name):
    """Remove an object."""
    return lambda cluster: cluster.server.remove(kind, name)


def change(kind, name, edit):
    """Change an object."""
    return lambda cluster: cluster.change(kind, name, edit)


@pytest.mark.parametrize(
    ("before", "request_fields", "happens"),
    [
        pytest.param((node(), CLASS), {}, put(resource_slice("gpu-0")), id="a slice is added"),
        pytest.param(
            (node(), CLASS, resource_slice()),
            {},
            put(resource_slice("gpu-0", generation=2)),
            id="a slice has a device more",
        ),
        pytest.param(
            (*GPU, resource_slice("gpu-1", name="slice-2")),
            {},
            remove("ResourceSlice", "slice-2"),
            id="a slice too many is deleted",
        ),
        pytest.param(
            (node(), CLASS, resource_slice("gpu-0", taints=[TAINT])),
            {},
            put(resource_slice("gpu-0")),
            id="a taint leaves a slice",
        ),
        pytest.param((*GPU, RULE), {}, remove("DeviceTaintRule", "rule"), id="a rule is deleted"),
        pytest.param(
            (*GPU, RULE),
            {},
            change(
                "DeviceTaintRule", "rule", lambda rule: rule["spec"]["deviceSelector"].update(driver="other")
            ),
            id="a rule points elsewhere",
        ),
        pytest.param((node(), resource_slice("gpu-0")), {}, put(CLASS), id="a class is added"),
        pytest.param((node(), BROKEN_CLASS, resource_slice("gpu-0")), {}, put(CLASS), id="a class is mended"),
        pytest.param((CLASS, resource_slice("gpu-0")), {}, put(node()), id="a node is added"),
        pytest.param(
            (*GPU[1:], {**node(), "spec": {"unschedulable": True}}),
            {},
            put(node()),
            id="a node is uncordoned",
        ),
        pytest.param((*GPU[1:], unready()), {}, put(node()), id="a node is ready"),
        pytest.param(
            (node(), CLASS, zonal()),
            {},
            change("Node", "node-1", lambda body: body["metadata"].update(labels={"zone": "a"})),
            id="a node gets the label",
        ),
        pytest.param(
            GPU,
            {"adminAccess": True},
            change("Namespace", "default", lambda body: body["metadata"].update(labels=ADMIN)),
            id="a namespace permits admin access",
        ),
    ],
)
async def test_a_claim_that_waits_is_tried_again(cluster, operator, before, request_fields, happens):
    """It gets its device as soon as there is one for it."""
    cluster.put(*before)
    await operator.settled()
    cluster.put(claim(request=request_fields))
    await cluster.waits()

    happens(cluster)

    assert await cluster.allocated() == ["gpu-0"]


@pytest.fixture
async def failing(cluster, operator, monkeypatch):
    """A claim whose selector fails on gpu-0, which lacks the attribute that gpu-1 has."""
    monkeypatch.setattr("dra_operator.controller.queue.ALL_SECONDS", 0.1)
    body = resource_slice("gpu-0", "gpu-1")
    body["spec"]["devices"][1]["attributes"] = {"model": {"string": "h100"}}
    cluster.put(node(), CLASS, body)
    await operator.settled()
    expression = 'device.attributes["gpu.example.com"].model == "h100"'
    cluster.put(claim(request={"selectors": [{"cel": {"expression": expression}}]}))
    assert "no such key: model" in await cluster.waits()


async def test_a_device_on_which_a_selector_fails_is_given_away(cluster, failing):
    """A device in use is not asked about, so the claim that failed on it has the other one."""
    cluster.put(claim("second"))

    assert await cluster.allocated("second") == ["gpu-0"]
    assert await cluster.allocated() == ["gpu-1"]


async def test_a_device_on_which_a_selector_fails_is_taken_by_another_allocator(cluster, failing):
    """The same, whoever takes it."""
    cluster.put(claim("theirs", labels={"dra-operator.io/allocate": "false"}))
    cluster.change(
        "ResourceClaim", "theirs", lambda body: body.update(status={"allocation": allocation()}), "default"
    )

    assert await cluster.allocated() == ["gpu-1"]


async def test_a_claim_that_is_deallocated_frees_its_device(cluster, operator, gpu):
    """Whoever waits for the device gets it."""
    cluster.put(claim("first", labels={"dra-operator.io/allocate": "false"}))
    cluster.change(
        "ResourceClaim", "first", lambda body: body.update(status={"allocation": allocation()}), "default"
    )
    await operator.settled()
    cluster.put(claim("second"))
    await cluster.waits("second")
    cluster.change("ResourceClaim", "first", lambda body: body.update(status={}), "default")

    assert await cluster.allocated("second") == ["gpu-0"]


async def test_a_pod_that_ran_gives_its_claim_back_when_it_goes(cluster, operator, gpu):
    """Before, kube-controller-manager would take every allocation of the claim back, as often as it was made."""
    cluster.put(pod(phase="Succeeded", nodeName="node-1"))
    await operator.settled()
    cluster.put(claim())
    await cluster.stays(lambda: not cluster.devices())
    cluster.server.remove("Pod", "pod", "default")

    await cluster.allocated()


async def test_a_claim_released_by_its_last_pod_is_allocated_again(cluster, operator, gpu):
    """kube-controller-manager clears allocation, reservation and finalizer; then the claim is pending again."""
    cluster.put(claim())
    await cluster.allocated()
    cluster.reserve()
    await operator.settled()

    def release(body):
        body["status"] = {}
        body["metadata"].pop("finalizers")

    cluster.change("ResourceClaim", "claim", release, "default")
    await cluster.allocated()


async def test_a_claim_that_is_no_longer_opted_out(cluster, operator, gpu):
    """The label is looked at whenever it changes."""
    cluster.put(claim(labels={"dra-operator.io/allocate": "false"}))
    await cluster.stays(lambda: not cluster.devices())
    cluster.change("ResourceClaim", "claim", lambda body: body["metadata"].pop("labels"), "default")

    await cluster.allocated()
