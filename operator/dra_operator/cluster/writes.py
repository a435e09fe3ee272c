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
from dra_operator.cluster.patches import Body, Patch
from dra_operator.cluster.pod_writes import ConditionalWrite, GateWrite, NominateWrite, steps_for_pod
from dra_operator.cluster.session import ApiError


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


def steps(write: Write) -> tuple[Patch, ...]:
    """Return the patches of a write, in order; none if there is nothing to change."""
    match write:
        case AllocateWrite():
            return (*_protect(write), _allocate(write))
        case ReserveWrite():
            reserved = [*map(dict, write.consumers), write.consumer.to_wire()]
            return (Patch("status.reservedFor", {"status": {"reservedFor": reserved}}),)
        case DeallocateWrite() | WithdrawWrite():
            unreserves = isinstance(write, WithdrawWrite) and write.unreserves
            status = {"allocation": None, **({"reservedFor": None} if unreserves else {})}
            clear = (Patch("status.allocation", {"status": status}),) if write.allocated else ()
            return (*clear, *_unprotect(write.finalizers))
        case FenceWrite():
            return _unprotect(write.finalizers)
        case AnnotateWrite():
            body = {"metadata": {"annotations": {write.annotation: write.text}}}
            return () if write.text == write.current else (Patch("metadata.annotations", body),)
        case GateWrite() | NominateWrite():
            return steps_for_pod(write)


def _protect(write: AllocateWrite) -> tuple[Patch, ...]:
    """Return the patch that comes before an allocation, if it takes one: our finalizer, and no annotation of ours."""
    dropped = {"annotations": {PENDING_ANNOTATION: None}} if write.drop_annotation else {}
    if FINALIZER not in write.finalizers:
        body = {"metadata": {"finalizers": [*write.finalizers, FINALIZER], **dropped}}
        return (Patch("metadata.finalizers", body),)
    return (Patch("metadata.annotations", {"metadata": dropped}),) if dropped else ()


def _allocate(write: AllocateWrite) -> Patch:
    status: Body = {"allocation": dict(write.allocation)}
    if write.consumer is not None:
        status["reservedFor"] = [write.consumer.to_wire()]
    return Patch("status.allocation", {"status": status})


def _unprotect(finalizers: tuple[str, ...]) -> tuple[Patch, ...]:
    """Return the patch that takes our finalizer off, if it is on, and leaves those of others."""
    others = [name for name in finalizers if name != FINALIZER]
    patch = Patch("metadata.finalizers", {"metadata": {"finalizers": others}})
    return (patch,) if FINALIZER in finalizers else ()
