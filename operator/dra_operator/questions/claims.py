"""Claims: what each has, who uses it, and what keeps a pod from devices that are allocated.

A pod that is bound without kube-scheduler waits in its kubelet until somebody allocates and reserves its claims. One
whose claims are allocated waits for their binding conditions, or is evicted again if an allocation is broken.
Source: docs/audit.md; k8s.io/kubernetes/pkg/kubelet/cm/dra, PrepareResources; KEP-5007.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Pod
from dra_operator.api.names import BROKEN_ANNOTATION, ENDED_PHASES, PENDING_ANNOTATION
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.text import listed
from dra_operator.api.types import (
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import is_over, named_claims
from dra_operator.pods.objects import ObjectSet
from dra_operator.questions.state import ClusterState

if TYPE_CHECKING:
    from dra_operator.allocator import Explanation
    from dra_operator.pods.entries import ClaimLookup, TemplateLookup

_POD_GROUPS: Final = "scheduling.k8s.io"
_PENDING: Final = "Pending"
_BY_SCHEDULER: Final = (
    "kube-scheduler has that done for pods that it binds, and this one was bound without it; "
    "make the pod anew without spec.nodeName"
)

# --- as a list


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
    return ClaimList(tuple([_build_item(claim) for claim in sorted(claims, key=claim_key)]))


def _build_item(claim: ResourceClaim) -> ClaimItem:
    metadata, allocation, state = claim.metadata, claim.status.allocation, _find_state(claim)
    annotation = {ClaimState.PENDING: PENDING_ANNOTATION, ClaimState.BROKEN: BROKEN_ANNOTATION}.get(state, "")
    return ClaimItem(
        metadata.namespace,
        metadata.name,
        state,
        tuple(_requested(claim)),
        tuple([device_path(result) for result in results_of(claim)]),
        node_of_claim(claim),
        tuple([f"{consumer.resource}/{consumer.name}" for consumer in claim.status.reserved_for]),
        metadata.annotations.get(annotation, ""),
        metadata.creation_timestamp,
        allocation.allocation_timestamp if allocation is not None else None,
    )


def _find_state(claim: ResourceClaim) -> ClaimState:
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


def results_of(claim: ResourceClaim) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the results of the allocation of a claim, admin access included."""
    return claim.status.allocation.devices.results if claim.status.allocation is not None else ()


def device_path(result: DeviceRequestAllocationResult) -> str:
    """Return the device of a result as texts have it."""
    return f"{result.driver}/{result.pool}/{result.device}"


def node_of_claim(claim: ResourceClaim) -> str:
    """Return the node that an allocation is pinned to, or nothing."""
    allocation = claim.status.allocation
    return (pinned_to(allocation.node_selector) if allocation is not None else None) or ""


def allocated_claims(objects: ObjectSet) -> Iterator[ResourceClaim]:
    """Yield the claims with an allocation."""
    for record in objects.of_kind("ResourceClaim"):
        if record.obj.status.allocation is not None:
            yield record.obj


# --- who uses them


class Use(StrEnum):
    """What the consumers of an allocation do; anything but RUNNING and UNKNOWN leaves its devices idle."""

    RUNNING = "running"
    STARTING = "starting"
    WAITING = "waiting"
    ENDED = "ended"
    GONE = "gone"
    UNRESERVED = "unreserved"
    UNKNOWN = "unknown"

    @property
    def is_idle(self) -> bool | None:
        """Whether it leaves devices idle; None if that cannot be said."""
        return None if self is Use.UNKNOWN else self is not Use.RUNNING


_ORDER: Final = (Use.RUNNING, Use.UNKNOWN, Use.STARTING, Use.WAITING, Use.ENDED, Use.GONE)
"""Of several consumers the first of these counts."""


@dataclass(frozen=True, slots=True)
class Consumer:
    """Somebody a claim is reserved for, or a pod that only names it; `kind` is Pod, PodGroup or a resource."""

    kind: str
    name: str
    use: Use
    node: str = ""
    is_reserved: bool = True


@dataclass(slots=True)
class ConsumerIndex:
    """The pods of a state: by name, by group, and those that have not ended by the claims that they name."""

    pods: Mapping[tuple[str, str], Pod]
    groups: Mapping[tuple[str, str], Sequence[Pod]]
    users: Mapping[ClaimKey, Sequence[Pod]]
    are_pods_known: bool

    @classmethod
    def build(cls, state: ClusterState) -> "ConsumerIndex":
        """Return the index of a state."""
        pods: dict[tuple[str, str], Pod] = {}
        groups: dict[tuple[str, str], list[Pod]] = {}
        users: dict[ClaimKey, list[Pod]] = {}
        for record in state.objects.of_kind("Pod"):
            pod: Pod = record.obj
            namespace = pod.metadata.namespace
            pods[namespace, pod.metadata.name] = pod
            if pod.spec.scheduling_group is not None and pod.spec.scheduling_group.pod_group_name:
                groups.setdefault((namespace, pod.spec.scheduling_group.pod_group_name), []).append(pod)
            for name in () if is_over(pod) else dict.fromkeys(named_claims(pod)):
                users.setdefault((namespace, name), []).append(pod)
        return cls(pods, groups, users, state.has_all("Pod"))

    def find_use(self, claim: ResourceClaim) -> Use:
        """Return what the consumers do that a claim is reserved for."""
        namespace = claim.metadata.namespace
        uses = {self._find_consumer(namespace, entry).use for entry in claim.status.reserved_for}
        return next((use for use in _ORDER if use in uses), Use.UNRESERVED)

    def find_consumers(self, claim: ResourceClaim) -> Iterator[Consumer]:
        """Yield whom a claim is reserved for, and then the pods that name it and have no reservation."""
        entries = claim.status.reserved_for
        for entry in entries:
            yield self._find_consumer(claim.metadata.namespace, entry)
        reserved = {entry.name for entry in entries if is_pod(entry)}
        for pod in self.users.get(claim_key(claim), ()):
            if pod.metadata.name not in reserved:
                use = _use_of_pod(pod)
                yield Consumer("Pod", pod.metadata.name, use, pod.spec.node_name, is_reserved=False)

    def find_users(self, claim: ResourceClaim) -> list[Pod]:
        """Return the pods that use a claim and have not ended: those it is reserved for, and those that name it."""
        namespace = claim.metadata.namespace
        found = [self.find_pod(namespace, entry) for entry in claim.status.reserved_for]
        known = {pod.metadata.name: pod for pod in found if pod is not None and not is_over(pod)}
        known.update((pod.metadata.name, pod) for pod in self.users.get(claim_key(claim), ()))
        return [known[name] for name in sorted(known)]

    def find_pod(self, namespace: str, entry: ResourceClaimConsumerReference) -> Pod | None:
        """Return the pod that a reservation is for; None if it is gone, also if there is another one of its name."""
        pod = self.pods.get((namespace, entry.name)) if is_pod(entry) else None
        # Pods of files may have no uid.
        return pod if pod is not None and pod.metadata.uid in ("", entry.uid) else None

    def _find_consumer(self, namespace: str, entry: ResourceClaimConsumerReference) -> Consumer:
        if is_pod(entry):
            pod = self.find_pod(namespace, entry)
            if pod is not None:
                return Consumer("Pod", entry.name, _use_of_pod(pod), pod.spec.node_name)
            return Consumer("Pod", entry.name, Use.GONE if self.are_pods_known else Use.UNKNOWN)
        if is_pod_group(entry):
            uses = {_use_of_pod(pod) for pod in self.groups.get((namespace, entry.name), ())}
            use = next((use for use in _ORDER if use in uses), Use.WAITING)
            return Consumer("PodGroup", entry.name, use if self.are_pods_known else Use.UNKNOWN)
        return Consumer(entry.resource, entry.name, Use.UNKNOWN)


def is_pod(entry: ResourceClaimConsumerReference) -> bool:
    """True if a reservation is for a pod."""
    return (entry.api_group, entry.resource) == ("", "pods")


def is_pod_group(entry: ResourceClaimConsumerReference) -> bool:
    """True if a reservation is for a PodGroup."""
    return (entry.api_group, entry.resource) == (_POD_GROUPS, "podgroups")


def _use_of_pod(pod: Pod) -> Use:
    if pod.status.phase in ENDED_PHASES:
        return Use.ENDED
    if not pod.spec.node_name:
        return Use.WAITING
    # A pod of which the kubelet has gone silent has the phase Unknown, and runs as far as anybody knows.
    return Use.STARTING if pod.status.phase in ("", _PENDING) else Use.RUNNING


# --- what keeps a pod from them


def find_unprepared(
    pod: Pod, find_claim: "ClaimLookup", has_template: "TemplateLookup"
) -> "Explanation | str | None":
    """Return why the kubelet of a bound pod cannot prepare its claims; None if it can, or if the pod runs.

    A text where that is said by the claims themselves, whatever else could be read.
    """
    from dra_operator.pods.entries import resolve_entries  # noqa: PLC0415 - lists need none of it

    if pod.status.phase not in ("", _PENDING):
        return None
    for entry in resolve_entries(pod, find_claim, has_template):
        claim = entry.claim
        if claim is None and entry.problem is not None:
            return entry.problem
        if claim is None:
            continue
        # A claim of a group of pods is reserved for the group.
        reserved = (each.uid == pod.metadata.uid or is_pod_group(each) for each in claim.status.reserved_for)
        problem = (
            "allocated" if claim.status.allocation is None else "" if any(reserved) else "reserved for it"
        )
        if problem:
            return f'claim "{claim.metadata.name}" is not {problem}: {_BY_SCHEDULER}'
    return None


def find_obstructed(
    claims: Iterable[ResourceClaim], broken: Mapping[ClaimKey, str]
) -> tuple[str, str] | None:
    """Return what the first allocated claim that a pod cannot use yet comes to, and why: `broken` or `waits`."""
    for claim in claims:
        name = claim.metadata.name
        if (why := broken.get(claim_key(claim))) is not None:
            return "broken", f'claim "{name}": {why}'
        if why := ", ".join(find_unbound(claim)):
            return "waits", f'claim "{name}": {why}'
    return None


def find_unbound(claim: ResourceClaim) -> Iterator[str]:
    """Yield, for each device of an allocation, its binding conditions that are not met, or that its binding failed."""
    for result in results_of(claim):
        conditions = dict(_conditions_of(claim, result))
        path = device_path(result)
        if failed := [name for name in result.binding_failure_conditions if conditions.get(name) == "True"]:
            yield f"binding device {path} failed ({listed(failed)}), so the claim is to be decided anew"
        elif left := [name for name in result.binding_conditions if conditions.get(name) != "True"]:
            yield f"its driver is to say {listed(left)} of device {path} before the pod is bound"


def _conditions_of(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> Iterator[tuple[str, str]]:
    """Yield type and status of the conditions of a device, as its driver wrote them."""
    for device in claim.status.devices:
        if isinstance(device, Mapping) and _key(device) == (result.driver, result.pool, result.device):
            conditions = device.get("conditions")
            for each in conditions if isinstance(conditions, list | tuple) else ():
                if isinstance(each, Mapping):
                    yield str(each.get("type")), str(each.get("status"))


def _key(device: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return device.get("driver"), device.get("pool"), device.get("device")
