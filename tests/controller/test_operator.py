"""The whole operator, in this process, against the API server in memory: which claims, and what people are told."""

import pytest

from cluster import CLASS, FINALIZER, TAINT, allocation, claim, node, pod, resource_slice

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
    assert event["message"] == "allocated on node node-1: gpu.example.com/pool-1/gpu-0 for gpu"


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


async def test_a_pool_that_stays_incomplete_gets_an_event_although_nothing_else_happens(
    cluster, operator, monkeypatch
):
    """The time alone wakes a pass; a pool that is completed meanwhile gets none."""
    monkeypatch.setattr("dra_operator.controller.object_problems.INCOMPLETE_SECONDS", 2.0)
    cluster.put(resource_slice("a", name="half", pool="half", count=2))
    cluster.put(resource_slice("a", name="whole-1", count=2))
    await operator.settled()
    cluster.put(resource_slice("b", name="whole-2", count=2))
    await operator.settled()
    assert cluster.events("half", "ResourceSlice") == []

    await cluster.until(lambda: cluster.events("half", "ResourceSlice"))
    (event,) = cluster.events("half", "ResourceSlice")
    assert (
        event["message"] == "pool gpu.example.com/half is incomplete: 1 of 2 slices of generation 1 missing"
    )
    assert cluster.events("whole-1", "ResourceSlice") == []


async def test_metrics_count_what_happened(cluster, operator, gpu):
    """Decisions, writes and waiting claims are there for graphs and alerts."""
    cluster.put(claim("first"), claim("second"))
    await cluster.allocated("first")
    await cluster.waits("second")
    await operator.settled()
    # One for each claim, and one on the Lease.
    created = b'dra_operator_events_total{outcome="created"} 3.0'
    await cluster.until(lambda: created in operator.manager.metrics.text(), "the Events")

    text = operator.manager.metrics.text().decode()
    assert "dra_operator_allocations_total 1.0" in text
    assert 'dra_operator_pending_claims{reason="DeviceInUse"} 1.0' in text
    assert 'dra_operator_writes_total{kind="allocate",outcome="written"} 1.0' in text
    assert 'dra_operator_claims{standing="ours"} 2.0' in text
