"""Writes: a change of one claim, pod or rule as merge-patches, and the four things that can come of it.

Each patch carries `resourceVersion` and `uid` of the object that was decided on: optimistic concurrency, answered with
409 or 422 (docs/kopf.md). The finalizer comes before the allocation, and the allocation ends before the finalizer,
so that a claim with devices can never vanish (docs/dra-semantics.md, 8.2 and 8.3). Allocations have the same JSON in
all versions.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from dra_operator.api.names import (
    FINALIZER,
    GATE,
    GROUP,
    LET_GO_ANNOTATION,
    PENDING_ANNOTATION,
    RESERVATION_RESOURCE,
)
from dra_operator.api.types import AllocationResult, DeviceTaintRule, ResourceClaim
from dra_operator.api.write import allocation_to_wire, to_wire
from dra_operator.cluster.session import ApiError
from dra_operator.pods.gate import SchedulingPod

Body: TypeAlias = dict[str, Any]
"""An object, or a part of one, as on the wire."""
Key: TypeAlias = tuple[str, str]
"""Namespace and name."""
WriteKind: TypeAlias = Literal[
    "allocate", "deallocate", "withdraw", "reserve", "annotate", "fence", "gate", "nominate", "mark"
]
"""What a write does, as metrics and log lines call it."""
_RESOURCES: Mapping[WriteKind, str] = {"gate": "pods", "nominate": "pods", "mark": "devicetaintrules"}
"""What is written to that is no claim."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A merge-patch without its preconditions. `place` is the field that it is for, such as `status.allocation`.

    It replaces a list as a whole, so a patch of a list names all that stays. Source: RFC 7396.
    """

    place: str
    body: Mapping[str, Any]

    @property
    def subresource(self) -> str:
        """The subresource that is patched; empty for the object itself."""
        return "status" if self.place.startswith("status.") else ""

    @property
    def allocates(self) -> bool:
        """True if a claim gets devices by it."""
        return self.place == "status.allocation" and self.body["status"]["allocation"] is not None

    def to_wire(self, uid: str, version: str) -> Body:
        """Return the merge-patch with its preconditions."""
        metadata = {**self.body.get("metadata", {}), "resourceVersion": version, "uid": uid}
        return {**self.body, "metadata": metadata}

    def holds(self, body: Body) -> bool:
        """Return whether an object has in `place` what is set.

        Of lists that others share, that is our entry. Of an allocation it is each device with its request: other
        fields the API server may fill in or drop.
        """
        part, field = self.place.split(".")
        wanted, found = self.body[part][field], (body.get(part) or {}).get(field)
        match field:
            case "finalizers":
                return (FINALIZER in wanted) == (FINALIZER in (found or ()))
            case "annotations":
                return all((found or {}).get(name) == text for name, text in wanted.items())
            case "allocation":
                if wanted is None or found is None:
                    return found is wanted
                return _devices(found) == _devices(wanted)
            case "reservedFor":
                return any(each.get("uid") == wanted[-1]["uid"] for each in found or ())
            case "schedulingGates":
                return all(gate["name"] != GATE for gate in found or ())
            case _:
                return bool((found or None) == wanted)


@dataclass(frozen=True, slots=True)
class Write:
    """Patches of one version of an object, in their order; each but the first names the version that came before it."""

    kind: WriteKind
    key: Key
    uid: str
    version: str
    patches: tuple[Patch, ...]

    @property
    def resource(self) -> str:
        """What is written to, as RBAC names it."""
        return _RESOURCES.get(self.kind, "resourceclaims")

    @property
    def annotations(self) -> Mapping[str, str | None]:
        """The annotations that are set, or taken off (None)."""
        patches = [patch.body for patch in self.patches if patch.place == "metadata.annotations"]
        return patches[0]["metadata"]["annotations"] if patches else {}

    @property
    def allocation(self) -> Mapping[str, Any] | None:
        """The AllocationResult that a claim gets, as on the wire."""
        found = [patch.body for patch in self.patches if patch.place == "status.allocation"]
        return found[0]["status"]["allocation"] if found else None


@dataclass(frozen=True, slots=True)
class Consumer:
    """A pod that a claim is reserved for, or a DeviceReservation, in the claim's namespace."""

    name: str
    uid: str
    resource: str = "pods"
    api_group: str = ""

    def to_wire(self) -> dict[str, str]:
        """Return the entry of `status.reservedFor`."""
        entry = {"resource": self.resource, "name": self.name, "uid": self.uid}
        return {"apiGroup": self.api_group, **entry} if self.api_group else entry


# --- what can come of a write


@dataclass(frozen=True, slots=True)
class Stored:
    """It is done; `body` is the object as it is now."""

    result: ClassVar[str] = "written"
    write: Write
    body: Body


@dataclass(frozen=True, slots=True)
class Stale:
    """It is not done, since the object is gone or no longer what was decided on, or nothing was sent.

    `body` is the object as it is now, where that is known; it may be another one of the same name. `message` says what
    was in the way.
    """

    result: ClassVar[str] = "conflict"
    write: Write
    body: Body | None
    message: str


@dataclass(frozen=True, slots=True)
class Denied:
    """It is not done, though the object is as it was. `message` is the reason, in the API server's words.

    `missing` is set where the authorizer did not allow it, and names verb and resource.
    """

    result: ClassVar[str] = "refused"
    write: Write
    message: str
    missing: ApiError | None = None


@dataclass(frozen=True, slots=True)
class Unclear:
    """Nobody knows whether it is done: the writer was stopped, or the object may not be read (`missing`)."""

    result: ClassVar[str] = "unknown"
    write: Write
    missing: ApiError | None = None


WriteOutcome: TypeAlias = Stored | Stale | Denied | Unclear


# --- claims


def consumer_of(claim: ResourceClaim) -> Consumer | None:
    """Return the DeviceReservation that a claim is to be reserved for with its allocation, if it is one's."""
    owner = claim.metadata.reservation
    return None if owner is None else Consumer(owner.name, owner.uid, RESERVATION_RESOURCE, GROUP)


def allocate(claim: ResourceClaim, allocation: AllocationResult, consumer: Consumer | None = None) -> Write:
    """Give a claim its devices, by an AllocationResult with its allocationTimestamp.

    Before that it gets our finalizer, and loses our annotation. `consumer` is the pod that it is reserved for in the
    same patch, if it is for one, or the reservation that manages it.
    """
    finalizers = claim.metadata.finalizers
    is_told = PENDING_ANNOTATION in claim.metadata.annotations
    dropped: Body = {"annotations": {PENDING_ANNOTATION: None}} if is_told else {}
    patches = list[Patch]()
    if FINALIZER not in finalizers:
        body = {"metadata": {"finalizers": [*finalizers, FINALIZER], **dropped}}
        patches.append(Patch("metadata.finalizers", body))
    elif dropped:
        patches.append(Patch("metadata.annotations", {"metadata": dropped}))
    status: Body = {"allocation": allocation_to_wire(allocation)}
    if consumer is not None:
        status["reservedFor"] = [consumer.to_wire()]
    return _write("allocate", claim, *patches, Patch("status.allocation", {"status": status}))


def deallocate(claim: ResourceClaim) -> Write:
    """Let go of a claim that is being deleted: end its allocation, if it has one, and take our finalizer off."""
    return _release("deallocate", claim)


def withdraw(claim: ResourceClaim, *, unreserves: bool = False) -> Write:
    """Take back the allocation of a claim that lives on, if it has one, and then our finalizer.

    The claim waits again afterwards, for whoever allocates it. If somebody has reserved it since, that is a conflict.
    With `unreserves` the reservations end as well, which are for gated pods.
    """
    return _release("withdraw", claim, unreserves=unreserves)


def annotate(claim: ResourceClaim, name: str, text: str | None) -> Write:
    """Set an annotation of ours on a claim, or take it off (`text` None)."""
    body = {"metadata": {"annotations": {name: text}}}
    return _write("annotate", claim, Patch("metadata.annotations", body))


def reserve(claim: ResourceClaim, consumer: Consumer) -> Write:
    """Reserve an allocated claim for one more pod."""
    reserved = [*map(to_wire, claim.status.reserved_for), consumer.to_wire()]
    return _write("reserve", claim, Patch("status.reservedFor", {"status": {"reservedFor": reserved}}))


def fence(key: Key, uid: str, version: str, finalizers: tuple[str, ...]) -> Write:
    """Take our finalizer off a claim without devices, so that what was sent on this version of it fails.

    Why that is needed, and of which claims, says `controller.fencing`.
    """
    return Write("fence", key, uid, version, _unprotect(finalizers))


def _write(kind: WriteKind, claim: ResourceClaim, *patches: Patch) -> Write:
    metadata = claim.metadata
    key = metadata.namespace, metadata.name
    return Write(kind, key, metadata.uid, metadata.resource_version, patches)


def _release(kind: WriteKind, claim: ResourceClaim, *, unreserves: bool = False) -> Write:
    """Return the end of an allocation. Raises ValueError where a pod may use it (docs/dra-semantics.md, 8.3)."""
    metadata, status = claim.metadata, claim.status
    if status.reserved_for and not unreserves:
        count = len(status.reserved_for)
        raise ValueError(f"claim {metadata.namespace}/{metadata.name} is reserved for {count} consumers")
    cleared = {"allocation": None, **({"reservedFor": None} if status.reserved_for else {})}
    clear = () if status.allocation is None else (Patch("status.allocation", {"status": cleared}),)
    return _write(kind, claim, *clear, *_unprotect(metadata.finalizers))


def _unprotect(finalizers: tuple[str, ...]) -> tuple[Patch, ...]:
    """Return the patch that takes our finalizer off, if it is on, and leaves those of others."""
    others = [name for name in finalizers if name != FINALIZER]
    patch = Patch("metadata.finalizers", {"metadata": {"finalizers": others}})
    return (patch,) if FINALIZER in finalizers else ()


# --- pods


def open_gate(pod: SchedulingPod, mark: str = "") -> Write:
    """Take our gate off a pod, which hands it over to kube-scheduler. Gates of others stay.

    `mark` is the annotation by which it is known later that the pod was decided; empty for one that was not.
    """
    body: Body = {"spec": {"schedulingGates": [{"name": name} for name in pod.gates if name != GATE]}}
    if mark:
        body["metadata"] = {"annotations": {LET_GO_ANNOTATION: mark}}
    patch = Patch("spec.schedulingGates", body)
    return Write("gate", pod.key, pod.uid, pod.resource_version, (patch,))


def nominate(pod: SchedulingPod, node: str | None) -> Write:
    """Set `status.nominatedNodeName` of a pod, or clear it (None)."""
    patch = Patch("status.nominatedNodeName", {"status": {"nominatedNodeName": node}})
    return Write("nominate", pod.key, pod.uid, pod.resource_version, (patch,))


# --- rules that own devices


def mark_rule(
    rule: DeviceTaintRule, finalizers: tuple[str, ...] | None, annotations: Mapping[str, str | None]
) -> Write:
    """Change the metadata of a rule: `finalizers` are all that it is to have, None leaves them."""
    metadata: Body = {} if finalizers is None else {"finalizers": list(finalizers)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    place = "metadata.annotations" if annotations else "metadata.finalizers"
    patch = Patch(place, {"metadata": metadata})
    return Write(
        "mark", ("", rule.metadata.name), rule.metadata.uid, rule.metadata.resource_version, (patch,)
    )


# --- objects as on the wire


def finalizers_of(body: Body) -> tuple[str, ...]:
    """Return the finalizers of a claim as on the wire."""
    return tuple(body["metadata"].get("finalizers") or ())


def allocation_of(body: Body) -> Body | None:
    """Return the allocation of a claim as on the wire."""
    return (body.get("status") or {}).get("allocation")


def _devices(allocation: Mapping[str, Any]) -> list[tuple[str, ...]]:
    results = (allocation.get("devices") or {}).get("results") or ()
    return [
        tuple(result.get(part, "") for part in ("request", "driver", "pool", "device")) for result in results
    ]
