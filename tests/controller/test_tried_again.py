"""What has a pending claim tried again: whatever changes that could let it have its devices.

Source: docs/dra-semantics 8.14.
"""

import pytest

from cluster import CLASS, TAINT, allocation, claim, node, pod, resource_slice

RULE = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "rule"},
    "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": TAINT},
}


async def test_a_slice_that_is_added(cluster, operator):
    """Devices that are published later are found."""
    cluster.put(node(), CLASS, claim())
    await cluster.waits()
    cluster.put(resource_slice("gpu-0"))

    assert await cluster.allocated() == ["gpu-0"]


async def test_a_slice_that_changes(cluster, operator):
    """A device added to a slice is found."""
    cluster.put(node(), CLASS, resource_slice(), claim())
    await cluster.waits()
    cluster.put(resource_slice("gpu-0", generation=2))

    assert await cluster.allocated() == ["gpu-0"]


async def test_a_slice_that_is_deleted(cluster, operator):
    """A pool that had a slice too many is complete again."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"), resource_slice("gpu-1", name="slice-2"), claim())
    await cluster.waits()
    cluster.server.remove("ResourceSlice", "slice-2")

    assert await cluster.allocated() == ["gpu-0"]


async def test_a_taint_that_leaves_a_slice(cluster, operator):
    """A device whose taint is gone may be used."""
    cluster.put(node(), CLASS, resource_slice("gpu-0", taints=[TAINT]), claim())
    await cluster.waits()
    cluster.put(resource_slice("gpu-0"))

    await cluster.allocated()


async def test_a_taint_rule_that_is_deleted(cluster, operator, gpu):
    """So may one that a rule had tainted."""
    cluster.put(RULE)
    await operator.settled()
    cluster.put(claim())
    assert "taint" in await cluster.waits()
    cluster.server.remove("DeviceTaintRule", "rule")

    await cluster.allocated()


async def test_a_taint_rule_that_changes(cluster, operator, gpu):
    """A rule that points elsewhere now sets the device free."""
    cluster.put(RULE)
    await operator.settled()
    cluster.put(claim())
    await cluster.waits()
    cluster.change(
        "DeviceTaintRule", "rule", lambda rule: rule["spec"]["deviceSelector"].update(driver="other")
    )

    await cluster.allocated()


async def test_a_taint_rule_that_is_added_keeps_later_claims_away(cluster, operator, gpu):
    """A new rule counts at once; what is allocated stays."""
    cluster.put(RULE)
    await operator.settled()
    cluster.put(claim())

    assert "taint" in await cluster.waits()


async def test_a_class_that_is_added(cluster, operator):
    """A claim may come before its class."""
    cluster.put(node(), resource_slice("gpu-0"), claim())
    assert "class" in await cluster.waits()
    cluster.put(CLASS)

    await cluster.allocated()


async def test_a_class_that_changes(cluster, operator):
    """A selector that is mended finds the device."""
    broken = {**CLASS, "spec": {"selectors": [{"cel": {"expression": 'device.driver == "other"'}}]}}
    cluster.put(node(), broken, resource_slice("gpu-0"), claim())
    await cluster.waits()
    cluster.put(CLASS)

    await cluster.allocated()


async def test_a_node_that_is_added(cluster, operator):
    """Devices of a node that is not there yet are of no use."""
    cluster.put(CLASS, resource_slice("gpu-0"), claim())
    await cluster.waits()
    cluster.put(node())

    await cluster.allocated()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            lambda body: body["spec"].update(unschedulable=True),
            lambda body: body["spec"].pop("unschedulable"),
        ),
        (
            lambda body: body["status"]["conditions"][0].update(status="False"),
            lambda body: body["status"]["conditions"][0].update(status="True"),
        ),
    ],
    ids=["cordoned", "not ready"],
)
async def test_a_node_that_becomes_usable(cluster, operator, gpu, before, after):
    """A node that is uncordoned or ready again is used."""
    cluster.change("Node", "node-1", before)
    await operator.settled()
    cluster.put(claim())
    await cluster.waits()
    cluster.change("Node", "node-1", after)

    await cluster.allocated()


async def test_a_node_that_gets_a_label(cluster, operator):
    """A slice for all nodes with a label applies to a node that gets it."""
    body = resource_slice("gpu-0")
    del body["spec"]["nodeName"]
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    body["spec"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
    cluster.put(node(), CLASS, body, claim())
    await cluster.waits()
    cluster.change("Node", "node-1", lambda found: found["metadata"].update(labels={"zone": "a"}))

    await cluster.allocated()


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


async def test_a_claim_that_is_deleted_frees_its_device(cluster, operator, gpu):
    """Deleted, deallocated, gone: and the next one has the device."""
    cluster.put(claim("first"))
    await cluster.allocated("first")
    cluster.put(claim("second"))
    await cluster.waits("second")
    await cluster.delete("first")

    assert await cluster.allocated("second") == ["gpu-0"]
    assert cluster.server.get("ResourceClaim", "first", "default") is None


@pytest.mark.parametrize("end", ["Succeeded", "Failed", None], ids=["succeeded", "failed", "deleted"])
async def test_a_pod_that_ends_gives_its_claim_back(cluster, operator, gpu, end):
    """A claim that no pod uses any more is ours."""
    cluster.put(pod())
    await operator.settled()
    cluster.put(claim())
    await cluster.stays(lambda: not cluster.devices())
    if end is None:
        cluster.server.remove("Pod", "pod", "default")
    else:
        cluster.change("Pod", "pod", lambda body: body["status"].update(phase=end), "default")

    await cluster.allocated()


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


async def test_a_namespace_that_permits_admin_access(cluster, operator, gpu):
    """A claim with admin access is refused until its namespace has the label."""
    cluster.put(claim(request={"adminAccess": True}))
    assert "admin" in await cluster.waits()
    cluster.change(
        "Namespace",
        "default",
        lambda body: (
            body["metadata"].setdefault("labels", {}).update({"resource.kubernetes.io/admin-access": "true"})
        ),
    )

    assert await cluster.allocated() == ["gpu-0"]


async def test_a_claim_that_is_no_longer_opted_out(cluster, operator, gpu):
    """The label is looked at whenever it changes."""
    cluster.put(claim(labels={"dra-operator.io/allocate": "false"}))
    await cluster.stays(lambda: not cluster.devices())
    cluster.change("ResourceClaim", "claim", lambda body: body["metadata"].pop("labels"), "default")

    await cluster.allocated()
