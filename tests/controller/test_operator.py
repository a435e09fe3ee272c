"""The whole operator, in this process, against the API server in memory."""

import pytest

from cluster import CLASS, Operator, allocation, claim, node, pod, resource_slice
from dra_operator.cluster.reflector import Delta

FINALIZER = "resource.kubernetes.io/delete-protection"
TAINT = {"key": "broken", "effect": "NoSchedule"}
RULE = {
    "apiVersion": "resource.k8s.io/v1beta2",
    "kind": "DeviceTaintRule",
    "metadata": {"name": "rule"},
    "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": TAINT},
}


@pytest.fixture
def gpu(cluster):
    """A node with one device, and its class."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"))


# --- the main job
# -------------------------------------------------------------------------------------------------------


async def test_a_claim_gets_a_device(cluster, operator, gpu):
    """The main job: class, slice and claim in, allocation, finalizer and timestamp out, and an Event."""
    cluster.put(claim())

    assert await cluster.allocated() == ["gpu-0"]
    body = cluster.claim()
    assert body["metadata"]["finalizers"] == [FINALIZER]
    assert body["status"]["allocation"]["allocationTimestamp"].endswith("Z")
    await cluster.until(lambda: cluster.events("claim"))
    (event,) = cluster.events("claim")
    assert (event["type"], event["reason"]) == ("Normal", "Allocated")
    assert event["message"] == "allocated gpu.example.com/pool-1/gpu-0 for gpu on node node-1"


async def test_a_claim_that_does_not_fit_says_why(cluster, operator, gpu):
    """Annotation and Event carry the same line, and the finalizer is not put on it."""
    cluster.put(claim("first"), claim("second"))
    await cluster.allocated("first")

    text = await cluster.waits("second")
    assert "request gpu" in text
    await cluster.until(lambda: cluster.events("second"))
    (event,) = cluster.events("second")
    assert (event["type"], event["reason"], event["message"]) == ("Warning", "DeviceInUse", text)
    assert "finalizers" not in cluster.claim("second")["metadata"]


async def test_the_oldest_claim_comes_first(cluster):
    """A pass takes claims by creationTimestamp, then by namespace and name."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"))
    cluster.put(
        claim("a", creationTimestamp="2026-01-02T00:00:00Z"),
        claim("z", creationTimestamp="2026-01-01T00:00:00Z"),
    )
    operator = await Operator(cluster.server.url).start()
    try:
        await cluster.allocated("z")
        await cluster.waits("a")
    finally:
        await operator.runtime.close()


async def test_the_annotation_goes_with_the_wait(cluster, operator):
    """An allocated claim does not say that it waits."""
    cluster.put(node(), CLASS, claim())
    await cluster.waits()
    cluster.put(resource_slice("gpu-0"))

    await cluster.allocated()
    await cluster.until(lambda: cluster.annotation() is None)


async def test_many_claims_at_once_are_allocated_once_each(cluster, operator):
    """No device is given twice, and what does not fit waits."""
    devices = [f"gpu-{index}" for index in range(8)]
    cluster.put(node(), CLASS, resource_slice(*devices))
    cluster.put(*(claim(f"claim-{index:02}") for index in range(12)))

    await cluster.until(lambda: sum(bool(cluster.devices(f"claim-{index:02}")) for index in range(12)) == 8)
    await cluster.until(
        lambda: sum(cluster.annotation(f"claim-{index:02}") is not None for index in range(12)) == 4
    )
    given = [device for index in range(12) for device in cluster.devices(f"claim-{index:02}")]
    assert sorted(given) == devices


# --- what has a pending claim tried again (dra-semantics 8.14)
# ----------------------------------------------------------


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


async def test_a_claim_released_by_its_last_pod_is_allocated_again(cluster, operator, gpu):
    """kube-controller-manager clears allocation, reservation and finalizer; then the claim is pending again."""
    cluster.put(claim())
    await cluster.allocated()
    consumer = {"resource": "pods", "name": "pod", "uid": "1"}
    cluster.change(
        "ResourceClaim", "claim", lambda body: body["status"].update(reservedFor=[consumer]), "default"
    )
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


# --- which claims
# ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"dra-operator.io/allocate": "false"}},
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
            ]
        },
    ],
    ids=["opted out", "made for a pod"],
)
async def test_claims_of_others_are_left_alone(cluster, operator, gpu, metadata):
    """No allocation, no annotation, no Event."""
    cluster.put(claim(**metadata))

    await cluster.stays(lambda: not cluster.devices() and cluster.annotation() is None)
    assert not cluster.events("claim")


async def test_a_claim_that_stops_being_ours_loses_our_annotation(cluster, operator):
    """A pod that names a waiting claim takes it, and what we said about it is no longer ours to say."""
    cluster.put(node(), CLASS, claim())
    await cluster.waits()
    cluster.put(pod(phase="Pending"))

    await cluster.until(lambda: cluster.annotation() is None)


async def test_devices_of_claims_of_pods_are_not_given_again(cluster, operator, gpu):
    """What kube-scheduler allocated is in use for us, too."""
    cluster.put(pod(uses="theirs"), claim("theirs"))
    cluster.change(
        "ResourceClaim", "theirs", lambda body: body.update(status={"allocation": allocation()}), "default"
    )
    await operator.settled()
    cluster.put(claim("ours"))

    assert "in use" in await cluster.waits("ours")


# --- the end of a claim
# ---------------------------------------------------------------------------------------------------


async def test_a_deleted_claim_is_deallocated_and_gone(cluster, operator, gpu):
    """Nobody else would let it go where kube-controller-manager does not run."""
    cluster.put(claim())
    await cluster.allocated()
    await cluster.delete()

    await cluster.until(lambda: cluster.server.get("ResourceClaim", "claim", "default") is None)


async def test_a_claim_that_opted_out_with_devices_can_be_deleted(cluster, operator, gpu):
    """The finalizer that we put on it is taken off."""
    label = {"dra-operator.io/allocate": "false"}
    cluster.put(claim())
    await cluster.allocated()
    cluster.change("ResourceClaim", "claim", lambda body: body["metadata"].update(labels=label), "default")
    await cluster.delete()

    await cluster.until(lambda: cluster.server.get("ResourceClaim", "claim", "default") is None)


async def test_a_reserved_allocation_is_never_cleared(cluster, operator, gpu):
    """A deleted claim that a pod still uses keeps its devices until the pod has ended."""
    cluster.put(claim())
    await cluster.allocated()
    consumer = {"resource": "pods", "name": "pod", "uid": "1"}
    cluster.change(
        "ResourceClaim", "claim", lambda body: body["status"].update(reservedFor=[consumer]), "default"
    )
    await cluster.delete()

    await cluster.stays(lambda: cluster.devices() == ["gpu-0"])
    cluster.change("ResourceClaim", "claim", lambda body: body["status"].pop("reservedFor"), "default")
    await cluster.until(lambda: cluster.server.get("ResourceClaim", "claim", "default") is None)


async def test_an_allocation_of_another_writer_stays_until_its_claim_is_deleted(cluster, operator, gpu):
    """Not ours to clear; but a deleted claim is of no use to anybody."""
    cluster.put(claim(finalizers=[FINALIZER]))
    cluster.change(
        "ResourceClaim", "claim", lambda body: body.update(status={"allocation": allocation()}), "default"
    )
    await cluster.stays(lambda: cluster.devices() == ["gpu-0"])
    await cluster.delete()

    await cluster.until(lambda: cluster.server.get("ResourceClaim", "claim", "default") is None)


async def test_deleted_claims_of_pods_are_left_to_the_claim_controller(cluster, operator, gpu):
    """A claim that was made for a pod ends as kube-controller-manager says."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
    cluster.put(claim(finalizers=[FINALIZER], ownerReferences=[owner]))
    cluster.change(
        "ResourceClaim", "claim", lambda body: body.update(status={"allocation": allocation()}), "default"
    )
    await cluster.delete()

    await cluster.stays(lambda: cluster.devices() == ["gpu-0"])


async def test_a_finalizer_without_allocation_is_taken_off_a_deleted_claim(cluster, operator):
    """An operator that died between finalizer and allocation leaves nothing behind."""
    cluster.put(claim(finalizers=[FINALIZER]))
    await cluster.delete()

    await cluster.until(lambda: cluster.server.get("ResourceClaim", "claim", "default") is None)


# --- what people are told
# -------------------------------------------------------------------------------------------------


async def test_one_event_for_each_change_of_the_reason(cluster, operator):
    """The numbers of a reason move without an Event; another reason is one."""
    cluster.put(node(), CLASS, claim())
    await cluster.waits()
    await cluster.until(lambda: len(cluster.events("claim")) == 1)
    cluster.put(resource_slice("gpu-0", taints=[TAINT]))
    await cluster.until(lambda: len(cluster.events("claim")) == 2)
    cluster.put(resource_slice("gpu-0", "gpu-1", taints=[TAINT]))

    await cluster.stays(lambda: len(cluster.events("claim")) == 2)
    assert set(cluster.reasons("claim")) == {"NoDevices", "DeviceTainted"}


async def test_a_broken_class_gets_an_event_of_its_own(cluster, operator, gpu):
    """Whoever made the class learns of it there, and other classes go on."""
    broken = {
        **CLASS,
        "metadata": {"name": "broken"},
        "spec": {"selectors": [{"cel": {"expression": "device.drive =="}}]},
    }
    cluster.put(broken, claim("bad", request={"deviceClassName": "broken"}), claim("good"))

    await cluster.allocated("good")
    assert await cluster.waits("bad")
    await cluster.until(lambda: cluster.events("broken", "DeviceClass"))
    await cluster.stays(lambda: len(cluster.events("broken", "DeviceClass")) == 1)


async def test_a_slice_that_cannot_be_read_gets_an_event_and_stops_nobody(cluster, operator, gpu):
    """The object that is wrong carries the message."""
    broken = resource_slice("gpu-9", name="broken", pool="other")
    broken["spec"]["devices"][0]["capacity"] = {"memory": {"value": "12 GB"}}
    # No API server stores such a slice; a newer one may store what looks as strange to us.
    operator.runtime._loop.put(Delta("ResourceSlice", "", "broken", broken))
    cluster.put(claim())

    await cluster.allocated()
    await cluster.until(lambda: cluster.events("broken", "ResourceSlice"))
    assert '"12 GB"' in cluster.events("broken", "ResourceSlice")[0]["message"]


async def test_a_device_that_two_claims_hold_is_told_on_both(cluster, operator, gpu):
    """The API server does not stop two allocators; the operator notices."""
    cluster.put(claim("one"), claim("two", labels={"dra-operator.io/allocate": "false"}))
    await cluster.allocated("one")
    status = {"allocation": allocation()}
    cluster.change("ResourceClaim", "two", lambda body: body.update(status=status), "default")

    for name in ("one", "two"):
        await cluster.until(lambda name=name: "DeviceAllocatedTwice" in cluster.reasons(name))
    assert b"dra_operator_device_collisions 1.0" in operator.runtime.metrics.text()


async def test_metrics_count_what_happened(cluster, operator, gpu):
    """Decisions, writes and waiting claims are there for graphs and alerts."""
    cluster.put(claim("first"), claim("second"))
    await cluster.allocated("first")
    await cluster.waits("second")
    await operator.settled()

    text = operator.runtime.metrics.text().decode()
    assert "dra_operator_allocations_total 1.0" in text
    assert 'dra_operator_pending_claims{reason="DeviceInUse"} 1.0' in text
    assert 'dra_operator_writes_total{kind="allocate",outcome="written"} 1.0' in text
    assert 'dra_operator_claims{standing="ours"} 2.0' in text
