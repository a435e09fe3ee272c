"""The whole operator, in this process, against the API server in memory."""

from cluster import CLASS, claim, node, resource_slice


async def test_a_claim_gets_a_device(cluster, operator):
    """The main job: class, slice and claim in, allocation out."""
    cluster.put(node(), CLASS, resource_slice("gpu-0"), claim())

    assert await cluster.allocated() == ["gpu-0"]
