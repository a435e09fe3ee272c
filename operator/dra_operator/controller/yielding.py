"""Yielding: of two claims that hold one device, one that nobody uses gives way.

Two allocators that decide at the same moment can give one device to two claims, and the API server does not stop them:
kube-scheduler to the claim of a pod, and this operator to one that no pod uses. The pod is about to run. Our claim is
reserved for nobody, so its allocation can be taken back as if it had never been, and the claim be decided again, now
that the other one is known. Whoever begins to use it meanwhile changes it first, and the write, which is for one
version of the claim, comes to nothing.
"""

from collections.abc import Sequence

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import ReleaseWrite
from dra_operator.controller.claims import Standing, is_released, order
from dra_operator.controller.desk import Desk


def yielding(desk: Desk, claims: Sequence[ResourceClaim]) -> list[ResourceClaim]:
    """Return which of the claims that hold one device give it back; if all could, the one that had it first keeps it.

    None does where all others are being deleted and about to give it back themselves.
    """
    lasting = [claim for claim in claims if not is_released(claim)]
    if len(lasting) < 2:
        return []
    able = [claim for claim in lasting if desk.book.standing(claim) is Standing.OURS]
    if len(able) == len(lasting):
        able.remove(min(able, key=_had_first))
    return able


def release(desk: Desk, claim: ResourceClaim) -> None:
    """Have the allocation of a claim taken back, unless that was tried just now."""
    metadata = claim.metadata
    if (metadata.namespace, metadata.name) in desk.flights or desk.is_put_off(claim):
        return
    desk.launch(ReleaseWrite(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version))


def _had_first(claim: ResourceClaim) -> tuple[str, tuple[str, str, str]]:
    allocation = claim.status.allocation
    assert allocation is not None
    return allocation.allocation_timestamp or "", order(claim)
