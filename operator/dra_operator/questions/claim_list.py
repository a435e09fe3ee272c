"""Claims as a list: what each has, or why it waits, as far as the claims themselves say it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dra_operator.api.names import BROKEN_ANNOTATION, PENDING_ANNOTATION
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import ResourceClaim


class ClaimState(StrEnum):
    """What state a claim is in; the first that is true, in kubectl's words but for `broken`."""

    DELETED = "deleted"
    """It is being deleted; its finalizer holds it."""
    BROKEN = "broken"
    """It is allocated, and the operator says that this cannot be used any more."""
    RESERVED = "reserved"
    """It is allocated, and pods or others use it."""
    ALLOCATED = "allocated"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class RequestedDevices:
    """What one request asks for: its class, or those of its alternatives, and how many devices; 0 stands for all."""

    request: str
    classes: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class ClaimItem:
    """A claim. `devices` are `driver/pool/device`; `consumers` those it is reserved for, as `pods/train-0`.

    `message` is what the operator wrote on it: why it waits, or why its allocation is broken. Times are RFC 3339.
    """

    namespace: str
    name: str
    state: ClaimState
    requests: tuple[RequestedDevices, ...]
    devices: tuple[str, ...] = ()
    node: str = ""
    consumers: tuple[str, ...] = ()
    message: str = ""
    created: str | None = None
    allocated: str | None = None


@dataclass(frozen=True, slots=True)
class ClaimList:
    """Claims by namespace and name."""

    items: tuple[ClaimItem, ...]


def list_claims(claims: Iterable[ResourceClaim]) -> ClaimList:
    """Return some claims as a list, sorted."""
    found = sorted(claims, key=lambda claim: (claim.metadata.namespace, claim.metadata.name))
    return ClaimList(tuple(_item(claim) for claim in found))


def _item(claim: ResourceClaim) -> ClaimItem:
    metadata, allocation = claim.metadata, claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    node = (
        pinned_to(allocation.node_selector) if allocation is not None and allocation.node_selector else None
    )
    state = _state(claim)
    annotation = {ClaimState.PENDING: PENDING_ANNOTATION, ClaimState.BROKEN: BROKEN_ANNOTATION}.get(state, "")
    return ClaimItem(
        metadata.namespace,
        metadata.name,
        state,
        tuple(_requested(claim)),
        tuple(f"{result.driver}/{result.pool}/{result.device}" for result in results),
        node or "",
        tuple(f"{consumer.resource}/{consumer.name}" for consumer in claim.status.reserved_for),
        metadata.annotations.get(annotation, ""),
        metadata.creation_timestamp,
        allocation.allocation_timestamp if allocation is not None else None,
    )


def _state(claim: ResourceClaim) -> ClaimState:
    if claim.metadata.deletion_timestamp:
        return ClaimState.DELETED
    if claim.status.allocation is None:
        return ClaimState.PENDING
    if BROKEN_ANNOTATION in claim.metadata.annotations:
        return ClaimState.BROKEN
    return ClaimState.RESERVED if claim.status.reserved_for else ClaimState.ALLOCATED


def _requested(claim: ResourceClaim) -> Iterator[RequestedDevices]:
    for request in claim.spec.devices.requests:
        choices = (request.exactly,) if request.exactly is not None else request.first_available
        classes = tuple(dict.fromkeys(choice.device_class_name for choice in choices))
        first = choices[0] if choices else None
        count = 0 if first is None or first.allocation_mode == "All" else first.count
        yield RequestedDevices(request.name, classes, count)
