"""Yielding: where claims have more than there is, a claim that nobody uses gives way to one in use.

Two allocators that decide at the same moment can give one device to two claims, or more of a counter or of a shared
device's capacity than there is, and the API server does not stop them: kube-scheduler to the claim of a pod, which it
reserves in the same write, and this operator to one that no pod uses. The allocation of a claim that is reserved for
nobody can be taken back as if it had never been, and the claim be decided again, now that the other one is known.
Whoever begins to use it meanwhile changes it first, and the write, which is for one version of the claim, comes to
nothing.

Of claims that nobody uses none gives way to another: which of them is right only a person can tell.

A device has room for one claim, so all that nobody uses give it back. A counter may have room for most of those that
draw on it. There as few give way as are needed, one after the other, and who comes next is asked when the one before is
gone. First comes what ends the matter at once, or else gives back most; of that what ends the most other matters, as a
partition draws on several counters; then what the fewest claims must give up, as a device that is shared is only free
when the last of them is gone; then the newest allocation: it is the one that was decided without knowing of the others,
and the one that people have relied on for the shortest time.

Nothing is taken back where a driver publishes less than it did (`ledger.overcommitment` tells how that is told
apart). It is nobody's collision: each of the claims fitted when it was allocated, the devices may still work, and to
take from some of them is for whoever knows why the slices shrank. Nor is it at the first look after a start, when
nobody knows what came last.
"""

from collections.abc import Collection, Mapping, Sequence

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import ReleaseWrite
from dra_operator.controller.claims import Key, Standing, version_of
from dra_operator.controller.desk import Desk
from dra_operator.ledger import Overcommitment


def yielding(desk: Desk, claims: Sequence[ResourceClaim]) -> list[ResourceClaim]:
    """Return which of the claims that hold one thing can give it back, since one that lasts is in use."""
    if not any(claim.status.reserved_for for claim in claims):
        return []
    return [claim for claim in claims if desk.book.standing(claim) is Standing.OURS and _is_decided(claim)]


def next_to_yield(
    case: Overcommitment, able: Mapping[Key, ResourceClaim], others: Collection[Overcommitment]
) -> Key | None:
    """Return which of the claims that are able to give way does so first; None if that would give nothing back.

    `others` are further cases for which nobody gives way yet.
    """
    groups = {part.claims for part in case.parts if part.claims <= able.keys()}
    if not groups:
        return None

    def newest(claims: Collection[Key]) -> tuple[str, Key]:
        return max((_allocated_at(able[key]), key) for key in claims)

    def ended(claims: Collection[Key]) -> int:
        return sum(other.returned(claims) >= other.excess for other in others)

    chosen = max(
        groups,
        key=lambda claims: (
            min(case.returned(claims), case.excess),
            ended(claims),
            -len(claims),
            newest(claims),
        ),
    )
    return newest(chosen)[1]


def release(desk: Desk, claim: ResourceClaim) -> None:
    """Have the allocation of a claim taken back, unless that was tried just now."""
    if not desk.is_put_off(claim):
        desk.launch(ReleaseWrite(*version_of(claim)))


def _is_decided(claim: ResourceClaim) -> bool:
    """True if the claim would be decided again: it is not being deleted, nor known only by what it holds."""
    return claim.metadata.deletion_timestamp is None and bool(claim.spec.devices.requests)


def _allocated_at(claim: ResourceClaim) -> str:
    allocation = claim.status.allocation
    return "" if allocation is None else allocation.allocation_timestamp or ""
