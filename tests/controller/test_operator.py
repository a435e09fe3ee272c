"""The whole operator, in this process, against the API server in memory: which claims, and what people are told."""

from cluster import CLASS, FINALIZER, claim, node, pod

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


# --- which claims
# ---------------------------------------------------------------------------------------------------------


async def test_a_claim_that_stops_being_ours_loses_our_annotation(cluster, operator):
    """A pod that names a waiting claim takes it, and what we said about it is no longer ours to say."""
    cluster.put(node(), CLASS, claim())
    await cluster.waits()
    cluster.put(pod(phase="Pending"))

    await cluster.until(lambda: cluster.annotation() is None)


# --- what people are told
# -------------------------------------------------------------------------------------------------


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
