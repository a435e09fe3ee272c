"""The end of a claim: who lets go of its devices and takes the finalizer off, and who must not."""

from cluster import FINALIZER, allocation, claim


async def test_a_deleted_claim_is_deallocated_and_gone(cluster, operator, gpu):
    """Nobody else would let it go where kube-controller-manager does not run."""
    cluster.put(claim())
    await cluster.allocated()
    await cluster.delete()

    await cluster.until(lambda: cluster.server.get("ResourceClaim", "claim", "default") is None)


async def test_a_reserved_allocation_is_never_cleared(cluster, operator, gpu):
    """A deleted claim that a pod still uses keeps its devices until the pod has ended."""
    cluster.put(claim())
    await cluster.allocated()
    cluster.reserve()
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
