"""Writes: what can be done to a claim or a pod (`pod_writes`), as merge-patches, and what can come of it.

Each patch carries `resourceVersion` and `uid` of the object that was decided on: optimistic concurrency, answered with
409 or 422 (docs/kopf.md). The finalizer comes before the allocation, and the allocation ends before the finalizer,
so that a claim with devices can never vanish (docs/dra-semantics.md, 8.2 and 8.3). Allocations have the same JSON in
all versions. `kind` and `result` are what metrics and log lines call them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from dra_operator.api.names import FINALIZER, PENDING_ANNOTATION
from dra_operator.cluster.pod_writes import (
    ConditionalWrite,
    GateWrite,
    NoGate,
    NominateWrite,
    Nomination,
    steps_for_pod,
)
from dra_operator.cluster.session import ApiError

Body: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A pod that a claim is reserved for, in the claim's namespace."""

    name: str
    uid: str

    def to_wire(self) -> dict[str, str]:
        """Return the entry of `status.reservedFor`."""
        return {"resource": "pods", "name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class ClaimWrite(ConditionalWrite):
    """What each write to a claim names."""

    resource: ClassVar[str] = "resourceclaims"


@dataclass(frozen=True, slots=True)
class ReleaseWrite(ClaimWrite):
    """What each write that ends an allocation names. `consumers` is the length of the claim's `status.reservedFor`.

    Raises ValueError unless that is 0: what a pod uses is not taken away (docs/dra-semantics.md, 8.3).
    """

    finalizers: tuple[str, ...]
    allocated: bool
    consumers: int

    def __post_init__(self) -> None:
        if self.consumers:
            raise ValueError(f"claim {self.namespace}/{self.name} is reserved for {self.consumers} consumers")


@dataclass(frozen=True, slots=True)
class AllocateWrite(ClaimWrite):
    """Give a claim its devices.

    `resource_version`, `finalizers` (all of them) and `drop_annotation` (whether it carries ours) are those
    of the claim decided on. `allocation` is an AllocationResult as on the wire, with its allocationTimestamp.
    `consumer` is the pod that the claim is reserved for in the same patch, if it is for one.
    """

    kind: ClassVar[str] = "allocate"
    finalizers: tuple[str, ...]
    drop_annotation: bool
    allocation: Mapping[str, Any]
    consumer: Consumer | None = None


@dataclass(frozen=True, slots=True)
class DeallocateWrite(ReleaseWrite):
    """Let go of a claim that is being deleted: end its allocation, if `allocated`, and take our finalizer off."""

    kind: ClassVar[str] = "deallocate"


@dataclass(frozen=True, slots=True)
class WithdrawWrite(ReleaseWrite):
    """Take back the allocation of a claim that lives on, if it is `allocated`, and then our finalizer.

    The claim waits again afterwards, for whoever allocates it. If somebody has reserved it since, that is a conflict.
    With `unreserves` the reservations end as well, which are for gated pods and are not among `consumers`.
    """

    kind: ClassVar[str] = "withdraw"
    unreserves: bool = False


@dataclass(frozen=True, slots=True)
class AnnotateWrite(ClaimWrite):
    """Set an annotation of ours on a claim, by name, or take it off (`text` None). `current` is what it says now."""

    kind: ClassVar[str] = "annotate"
    annotation: str
    current: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class ReserveWrite(ClaimWrite):
    """Reserve an allocated claim for one more pod. `consumers` are all that it is reserved for, as on the wire."""

    kind: ClassVar[str] = "reserve"
    consumers: tuple[Mapping[str, str], ...]
    consumer: Consumer


@dataclass(frozen=True, slots=True)
class FenceWrite(ClaimWrite):
    """Take our finalizer off a claim without devices, so that what was sent on its present version fails.

    Why that is needed, and of which claims, says `controller.fencing`.
    """

    kind: ClassVar[str] = "fence"
    finalizers: tuple[str, ...]


Write: TypeAlias = (
    AllocateWrite
    | DeallocateWrite
    | WithdrawWrite
    | ReserveWrite
    | AnnotateWrite
    | FenceWrite
    | GateWrite
    | NominateWrite
)


@dataclass(frozen=True, slots=True)
class Written:
    """It is done; `body` is the object as it is now."""

    result: ClassVar[str] = "written"
    write: Write
    body: Body


@dataclass(frozen=True, slots=True)
class Conflict:
    """It is not done, since the claim is no longer what was decided on: look again.

    `body` is the claim as it is now, where that is known; it may be another claim of the same name. `message`
    says what was in the way.
    """

    result: ClassVar[str] = "conflict"
    write: Write
    body: Body | None
    message: str


@dataclass(frozen=True, slots=True)
class Unaccepted(Conflict):
    """It is not done, though the claim is as it was: the API server, or a webhook that it asks, failed each time."""

    result: ClassVar[str] = "unaccepted"


@dataclass(frozen=True, slots=True)
class Gone:
    """The claim no longer exists."""

    result: ClassVar[str] = "gone"
    write: Write


@dataclass(frozen=True, slots=True)
class Refused:
    """The API server says that this may not be written, or does not write it as sent; `message` is its reason."""

    result: ClassVar[str] = "refused"
    write: Write
    message: str


@dataclass(frozen=True, slots=True)
class Forbidden:
    """The authorizer does not allow it; `error` names verb and resource."""

    result: ClassVar[str] = "forbidden"
    write: Write
    error: ApiError

    @property
    def may_be_done(self) -> bool:
        """True if it was the reading back that is not allowed, after a patch without a clear answer."""
        return self.error.verb == "get"


@dataclass(frozen=True, slots=True)
class Unknown:
    """The writer was stopped before it could find out whether this is done."""

    result: ClassVar[str] = "unknown"
    write: Write


@dataclass(frozen=True, slots=True)
class Unsent:
    """No request was made: there is nothing to change, or the writer is stopping."""

    result: ClassVar[str] = "unsent"
    write: Write


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No patch of it got a clear answer for a while. This settles nothing: the write goes on."""

    result: ClassVar[str] = "unanswered"
    write: Write
    message: str


WriteOutcome: TypeAlias = (
    Written | Conflict | Unaccepted | Gone | Refused | Forbidden | Unknown | Unsent | Unanswered
)


@dataclass(frozen=True, slots=True)
class FinalizerAndAnnotation:
    """The patch that comes before an allocation."""

    finalizers: tuple[str, ...]
    drop_annotation: bool
    subresource: ClassVar[str] = ""
    place: ClassVar[str] = "metadata.finalizers"

    def patch(self) -> Body:
        """Return the merge-patch, without its preconditions. A merge-patch replaces a list as a whole."""
        metadata: Body = {"finalizers": list(self.finalizers)}
        if self.drop_annotation:
            metadata["annotations"] = {PENDING_ANNOTATION: None}
        return {"metadata": metadata}

    def holds(self, body: Body) -> bool:
        """Return whether this is so in a claim."""
        return FINALIZER in finalizers_of(body) and not (
            self.drop_annotation and annotation_of(body, PENDING_ANNOTATION) is not None
        )


@dataclass(frozen=True, slots=True)
class Allocation:
    """The patch that gives a claim its devices."""

    allocation: Mapping[str, Any]
    consumer: Consumer | None = None
    subresource: ClassVar[str] = "status"
    place: ClassVar[str] = "status.allocation"

    def patch(self) -> Body:
        """Return the merge-patch, without its preconditions."""
        status: Body = {"allocation": dict(self.allocation)}
        if self.consumer is not None:
            status["reservedFor"] = [self.consumer.to_wire()]
        return {"status": status}

    def holds(self, body: Body) -> bool:
        """Return whether a claim has these devices; other fields the API server may fill in or drop."""
        stored = allocation_of(body)
        return stored is not None and _devices(stored) == _devices(self.allocation)


@dataclass(frozen=True, slots=True)
class NoAllocation:
    """The patch that ends an allocation, with its reservations where `unreserves` says so."""

    unreserves: bool = False
    subresource: ClassVar[str] = "status"
    place: ClassVar[str] = "status.allocation"

    def patch(self) -> Body:
        """Return the merge-patch, without its preconditions."""
        return {"status": {"allocation": None, **({"reservedFor": None} if self.unreserves else {})}}

    def holds(self, body: Body) -> bool:
        """Return whether a claim has no allocation."""
        return allocation_of(body) is None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The patch that reserves a claim for one more pod."""

    consumers: tuple[Mapping[str, str], ...]
    consumer: Consumer
    subresource: ClassVar[str] = "status"
    place: ClassVar[str] = "status.reservedFor"

    def patch(self) -> Body:
        """Return the merge-patch, without its preconditions. A merge-patch replaces a list as a whole."""
        return {"status": {"reservedFor": [*map(dict, self.consumers), self.consumer.to_wire()]}}

    def holds(self, body: Body) -> bool:
        """Return whether a claim is reserved for the pod."""
        reserved = (body.get("status") or {}).get("reservedFor") or ()
        return any(each.get("uid") == self.consumer.uid for each in reserved)


@dataclass(frozen=True, slots=True)
class NoFinalizer:
    """The patch that takes our finalizer off and leaves those of others."""

    finalizers: tuple[str, ...]
    subresource: ClassVar[str] = ""
    place: ClassVar[str] = "metadata.finalizers"

    def patch(self) -> Body:
        """Return the merge-patch, without its preconditions."""
        return {"metadata": {"finalizers": [name for name in self.finalizers if name != FINALIZER]}}

    def holds(self, body: Body) -> bool:
        """Return whether a claim is without our finalizer."""
        return FINALIZER not in finalizers_of(body)


@dataclass(frozen=True, slots=True)
class Annotation:
    """The patch that sets an annotation, or takes it off."""

    annotation: str
    text: str | None
    subresource: ClassVar[str] = ""
    place: ClassVar[str] = "metadata.annotations"

    def patch(self) -> Body:
        """Return the merge-patch, without its preconditions."""
        return {"metadata": {"annotations": {self.annotation: self.text}}}

    def holds(self, body: Body) -> bool:
        """Return whether a claim says so."""
        return annotation_of(body, self.annotation) == self.text


Step: TypeAlias = (
    FinalizerAndAnnotation
    | Allocation
    | Reservation
    | NoAllocation
    | NoFinalizer
    | Annotation
    | NoGate
    | Nomination
)


def steps(write: Write) -> tuple[Step, ...]:
    """Return the patches of a write, in order; none if there is nothing to change."""
    match write:
        case AllocateWrite():
            protect = write.drop_annotation or FINALIZER not in write.finalizers
            finalizers = tuple(dict.fromkeys((*write.finalizers, FINALIZER)))
            first = (FinalizerAndAnnotation(finalizers, write.drop_annotation),) if protect else ()
            return (*first, Allocation(write.allocation, write.consumer))
        case ReserveWrite():
            return (Reservation(write.consumers, write.consumer),)
        case DeallocateWrite() | WithdrawWrite():
            unreserves = isinstance(write, WithdrawWrite) and write.unreserves
            clear = (NoAllocation(unreserves),) if write.allocated else ()
            release = (NoFinalizer(write.finalizers),) if FINALIZER in write.finalizers else ()
            return (*clear, *release)
        case FenceWrite():
            return (NoFinalizer(write.finalizers),) if FINALIZER in write.finalizers else ()
        case AnnotateWrite():
            return () if write.text == write.current else (Annotation(write.annotation, write.text),)
        case GateWrite() | NominateWrite():
            return steps_for_pod(write)


def finalizers_of(body: Body) -> tuple[str, ...]:
    """Return the finalizers of a claim as on the wire."""
    return tuple(body["metadata"].get("finalizers") or ())


def annotation_of(body: Body, name: str) -> str | None:
    """Return what an annotation of a claim says."""
    return (body["metadata"].get("annotations") or {}).get(name)


def allocation_of(body: Body) -> Body | None:
    """Return the allocation of a claim as on the wire."""
    return (body.get("status") or {}).get("allocation")


def _devices(allocation: Mapping[str, Any]) -> list[tuple[str, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        tuple(result.get(part, "") for part in ("request", "driver", "pool", "device")) for result in results
    ]
