"""The whole operator, in this process, against the API server in memory: which claims, and what people are told."""

from cluster import CLASS, claim, node, pod


async def test_a_claim_that_stops_being_ours_loses_our_annotation(cluster, operator):
    """A pod that names a waiting claim takes it, and what we said about it is no longer ours to say."""
    cluster.put(node(), CLASS, claim())
    await cluster.waits()
    cluster.put(pod(phase="Pending"))

    await cluster.until(lambda: cluster.annotation() is None)


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
