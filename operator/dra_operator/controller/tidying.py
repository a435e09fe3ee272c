"""Tidying: what a claim needs that takes no decision.

A deleted claim of ours is deallocated and its finalizer removed, so that it can go: nobody else does so where
kube-controller-manager does not run its claim controller. So is one that opted out, perhaps after we had
allocated it: what opts out of being allocated need not stay for ever. An allocation that is reserved is never
cleared, nor one of a device that another claim holds as well.
And our annotation is taken off every claim that has its devices or is no longer ours: it would be a lie
there.
"""

from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import AnnotateWrite, DeallocateWrite
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, annotation, is_released, version_of
from dra_operator.controller.desk import Desk


def tidy(desk: Desk, key: Key) -> None:
    """Do for one claim what needs no decision."""
    claim = desk.book.get(key)
    if claim is None:
        _forget(desk, key)
        return
    if desk.book.is_waiting(key):
        desk.telling.look_again(key)
        return
    if not is_released(claim):
        _allow(desk, key)
    desk.telling.waits_no_more(key)
    if not desk.flights.allocating(key):
        desk.since.pop(key, None)
    desk.uncleared.discard(key)
    if desk.is_put_off(claim):
        return
    if is_released(claim) and desk.book.is_free(claim):
        if _is_held_twice(desk, key):
            desk.uncleared.add(key)
        else:
            desk.launch(_deallocate(claim))
    elif annotation(claim) is not None and claim.metadata.deletion_timestamp is None:
        metadata = claim.metadata
        if not desk.lingering.waits(key, metadata.uid, metadata.resource_version):
            desk.launch(annotate(claim, None))


def keep_annotation(desk: Desk, key: Key) -> None:
    """Bring the annotation of a claim that waits up to date."""
    claim = desk.book.get(key)
    if claim is None or key in desk.flights:
        return
    text = desk.telling.annotation_due(claim)
    if text is not None:
        desk.telling.written(key)
        desk.launch(annotate(claim, text))


def annotate(claim: ResourceClaim, text: str | None) -> AnnotateWrite:
    """Return the write that sets our annotation, or removes it."""
    return AnnotateWrite(
        *version_of(claim), annotation=PENDING_ANNOTATION, current=annotation(claim), text=text
    )


def _is_held_twice(desk: Desk, key: Key) -> bool:
    """Return whether another claim holds a device of this one, and may still be used.

    kube-scheduler keeps the devices in use as a set, and forgets one when any claim that holds it is cleared.
    """
    others = [desk.book.get(other) for other in desk.ledger.other_holders(key)]
    return any(
        other is None or not other.metadata.deletion_timestamp or other.status.reserved_for
        for other in others
    )


def _deallocate(claim: ResourceClaim) -> DeallocateWrite:
    return DeallocateWrite(
        *version_of(claim),
        finalizers=claim.metadata.finalizers,
        allocated=claim.status.allocation is not None,
        consumers=len(claim.status.reserved_for),
    )


def _allow(desk: Desk, key: Key) -> None:
    """Forget that a write to the claim was not permitted: none is wanted that could not wait."""
    desk.rights.forget(key)
    desk.reports.clear((messages.EVENT_FORBIDDEN, key))


def _forget(desk: Desk, key: Key) -> None:
    _allow(desk, key)
    desk.uncleared.discard(key)
    desk.telling.waits_no_more(key)
    desk.putoffs.forget(key)
    desk.lingering.forget(key)
    if key not in desk.flights:
        desk.since.pop(key, None)
        desk.nodes.pop(key, None)
