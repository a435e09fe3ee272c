"""Yielding: where a pod uses a device that another claim has as well, the claim that nobody uses gives way.

Two allocators that decide at the same moment can give one device to two claims, and the API server does not stop them:
kube-scheduler to the claim of a pod, which it reserves in the same write, and this operator to one that no pod uses.
The allocation of a claim that is reserved for nobody can be taken back as if it had never been, and the claim be
decided again, now that the other one is known. Whoever begins to use it meanwhile changes it first, and the write,
which is for one version of the claim, comes to nothing.

Of claims that nobody uses none gives way to another: which of them is right only a person can tell.
"""

from collections.abc import Sequence

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import ReleaseWrite
from dra_operator.controller.claims import Standing, is_released
from dra_operator.controller.desk import Desk


def yielding(desk: Desk, claims: Sequence[ResourceClaim]) -> list[ResourceClaim]:
    """Return which of the claims that hold one device give it back, since one that lasts is in use."""
    if not any(claim.status.reserved_for and not is_released(claim) for claim in claims):
        return []
    return [claim for claim in claims if desk.book.standing(claim) is Standing.OURS and _is_decided(claim)]


def release(desk: Desk, claim: ResourceClaim) -> None:
    """Have the allocation of a claim taken back, unless that was tried just now."""
    metadata = claim.metadata
    if (metadata.namespace, metadata.name) in desk.flights or desk.is_put_off(claim):
        return
    desk.launch(ReleaseWrite(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version))


def _is_decided(claim: ResourceClaim) -> bool:
    """True if the claim would be decided again: it is not being deleted, nor known only by what it holds."""
    return claim.metadata.deletion_timestamp is None and bool(claim.spec.devices.requests)
