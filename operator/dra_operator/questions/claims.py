"""Claims: what each has, who uses it, and what keeps a pod from devices that are allocated.

A pod that is bound without kube-scheduler waits in its kubelet until somebody allocates and reserves its claims. One
whose claims are allocated waits for their binding conditions, or is evicted again if an allocation is broken.
Source: docs/audit.md; k8s.io/kubernetes/pkg/kubelet/cm/dra, PrepareResources; KEP-5007.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import OwnerReference, Pod
from dra_operator.api.names import (
    BROKEN_ANNOTATION,
    ENDED_PHASES,
    GROUP,
    PENDING_ANNOTATION,
    RANDOM_LETTERS,
    RESERVATION_KIND,
    RESERVATION_RESOURCE,
)
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.text import age_of, human_duration, listed
from dra_operator.api.types import (
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import can_use, find_unknown_mappings, is_over, named_claims
from dra_operator.pods.objects import ObjectRecord, ObjectSet
from dra_operator.pods.workloads import part
from dra_operator.questions.state import ClusterState

if TYPE_CHECKING:
    from dra_operator.allocator.decision import Explanation


_POD_GROUPS: Final = "scheduling.k8s.io"
_PENDING: Final = "Pending"
_FIRST_WITH_V1: Final = 34
"""The minor version of the first kubelet that fetches claims as v1."""
BINDING_SECONDS: Final = 600
"""Source: k8s.io/kubernetes/pkg/scheduler/apis/config, `DynamicResourcesArgs.BindingTimeout`."""
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


def find_classes(claim: ResourceClaim) -> set[str]:
    """Return the classes that the requests of a claim name, those of alternatives included."""
    return {name for request in _requested(claim) for name in request.classes}


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
        if is_reservation(entry):
            return Consumer(RESERVATION_KIND, entry.name, Use.WAITING)
        return Consumer(entry.resource, entry.name, Use.UNKNOWN)


def is_pod(entry: ResourceClaimConsumerReference) -> bool:
    """True if a reservation is for a pod."""
    return (entry.api_group, entry.resource) == ("", "pods")


def is_pod_group(entry: ResourceClaimConsumerReference) -> bool:
    """True if a reservation is for a PodGroup."""
    return (entry.api_group, entry.resource) == (_POD_GROUPS, "podgroups")


def is_reservation(entry: ResourceClaimConsumerReference) -> bool:
    """True if a reservation is for a DeviceReservation, which holds the devices for pods to come."""
    return (entry.api_group, entry.resource) == (GROUP, RESERVATION_RESOURCE)


def _use_of_pod(pod: Pod) -> Use:
    if pod.status.phase in ENDED_PHASES:
        return Use.ENDED
    if not pod.spec.node_name:
        return Use.WAITING
    # A pod of which the kubelet has gone silent has the phase Unknown, and runs as far as anybody knows.
    return Use.STARTING if pod.status.phase in ("", _PENDING) else Use.RUNNING


# --- what keeps a pod from them


def find_unprepared(state: ClusterState, record: ObjectRecord) -> "Explanation | str | None":
    """Return why the kubelet of a bound pod cannot prepare its claims; None if it can, or if the pod runs.

    A text where that is said by the claims themselves, whatever else could be read.
    """
    from dra_operator.pods.claims import resolve_entries  # noqa: PLC0415 - lists need none of it

    pod: Pod = record.obj
    if lines := list(find_unknown_mappings(record, state.find_claim)):
        return "; ".join(lines)
    if pod.status.phase not in ("", _PENDING):
        return None
    has_claims = False
    for entry in resolve_entries(pod, state.find_claim, state.has_template):
        if entry.claim is not None and (problem := _problem_of_use(state, pod, entry.claim)):
            return f'claim "{entry.claim.metadata.name}" is {problem}'
        if entry.claim is None and entry.problem is not None:
            return entry.problem
        has_claims = True
    return (_find_old_kubelet(state, pod.spec.node_name) or None) if has_claims else None


def _problem_of_use(state: ClusterState, pod: Pod, claim: ResourceClaim) -> str:
    """Return why a pod that has a node cannot use a claim there, or nothing."""
    allocation, name = claim.status.allocation, pod.spec.node_name
    if allocation is None:
        return f"not allocated: {_BY_SCHEDULER}"
    places = [each for each, node in state.inventory.nodes.items() if can_use(allocation, node)]
    if name in state.nodes and name not in places:
        where = listed(places) or "a node that is gone"
        return f"allocated on {where}, and cannot be used on {name}: make the pod anew without spec.nodeName"
    # A claim of a group of pods is reserved for the group.
    if any(each.uid == pod.metadata.uid or is_pod_group(each) for each in claim.status.reserved_for):
        return ""
    consumers = state.consumers
    gone = [
        each.name for each in consumers.find_consumers(claim) if each.is_reserved and each.use is Use.GONE
    ]
    stale = f"; it is reserved for pod {listed(gone)}, which is gone" if gone else ""
    return (
        "not reserved for it: kube-controller-manager does that within seconds for each pod that has a node, so see "
        f"whether it runs{stale}"
    )


def _find_old_kubelet(state: ClusterState, name: str) -> str:
    """Return that a kubelet fetches claims in a version that a server of today may not serve, or nothing."""
    record = state.find_record("Node", "", name)
    status = {} if record is None else record.body.get("status") or {}
    version = str((status.get("nodeInfo") or {}).get("kubeletVersion") or "")
    found = re.match(r"v1\.(\d+)\.", version)
    if found is None or int(found[1]) >= _FIRST_WITH_V1:
        return ""
    return (
        f"the kubelet there is {version}, which fetches claims as resource.k8s.io/v1beta1; API servers from 1.34 on "
        "serve that only if it is switched on: bring the kubelet to 1.34"
    )


def find_obstructed(claims: Iterable[ResourceClaim], state: ClusterState) -> tuple[str, str] | None:
    """Return what the first allocated claim that a pod cannot use yet comes to, and why: `broken` or `waits`."""
    for claim in claims:
        name = claim.metadata.name
        if (why := state.broken.get(claim_key(claim))) is not None:
            return "broken", f'claim "{name}": {why}'
        if why := ", ".join(find_unbound(claim, state.now)):
            return "waits", f'claim "{name}": {why}'
    return None


def find_unbound(claim: ResourceClaim, now: float) -> Iterator[str]:
    """Yield, for each device of an allocation, its binding conditions that are not met, or that its binding failed."""
    allocation = claim.status.allocation
    age = None if allocation is None else age_of(allocation.allocation_timestamp, now)
    for result in results_of(claim):
        conditions = dict(_conditions_of(claim, result))
        met = [name for name, each in conditions.items() if each.get("status") == "True"]
        path = device_path(result)
        if failed := [name for name in result.binding_failure_conditions if name in met]:
            texts = [_describe_condition(name, conditions[name]) for name in failed]
            yield f"binding device {path} failed ({listed(texts)}), so the claim is to be decided anew"
        elif left := [name for name in result.binding_conditions if name not in met]:
            texts = [_describe_condition(name, conditions.get(name, {})) for name in left]
            text = f"its driver is to say {listed(texts)} of device {path} before the pod is bound"
            if age is not None:
                text += f", {human_duration(age)} after the allocation"
            if age is not None and age > BINDING_SECONDS:
                text += f": kube-scheduler gives up after {BINDING_SECONDS} s and decides anew, so see whether it runs"
            yield text


def _describe_condition(name: str, condition: Mapping[str, Any]) -> str:
    """Return a condition with what its driver says of it."""
    return ": ".join(str(each) for each in (name, condition.get("reason"), condition.get("message")) if each)


def _conditions_of(
    claim: ResourceClaim, result: DeviceRequestAllocationResult
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the conditions of a device by type, as its driver wrote them."""
    for device in claim.status.devices:
        names = (
            [device.get(each) for each in ("driver", "pool", "device")] if isinstance(device, Mapping) else []
        )
        if names == [result.driver, result.pool, result.device]:
            conditions = device.get("conditions")
            for each in conditions if isinstance(conditions, list | tuple) else ():
                if isinstance(each, Mapping):
                    yield str(each.get("type")), each


# --- Rolling updates that wait for themselves: the new pod waits for devices that an old pod of its owner holds.
# The old pod ends only once the new one is ready, if the update makes a new pod first and may not do without an old
# one. Source: k8s.io/kubernetes/pkg/controller, deployment (`reconcileOldReplicaSets`, `ResolveFenceposts`) and
# daemon.


_HASH: Final = re.compile(f"[{RANDOM_LETTERS}]+")
_PERCENT: Final = re.compile(r"(\d+)%")


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the owner that manages a pod, or None."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def deployment_of(replica_set: str) -> str:
    """Return the Deployment that a ReplicaSet is of by its name, which ends with a hash of the template, or nothing."""
    name, _, end = replica_set.rpartition("-")
    return name if _HASH.fullmatch(end) else ""


def _deployment(owner: OwnerReference) -> str:
    return deployment_of(owner.name) if owner.kind == "ReplicaSet" else ""


def find_own_holders(state: ClusterState, pod: Pod, claims: Iterable[ClaimKey]) -> str:
    """Return that some of the claims in a pod's way are those of older pods of its own owner, or an empty text.

    Then the text names what of the update's strategy ends that; where the owner is not known, under which condition.
    """
    owner = controller_of(pod)
    name = "" if owner is None else owner.name if owner.kind == "DaemonSet" else _deployment(owner)
    if owner is None or not name:
        return ""
    kind = "DaemonSet" if owner.kind == "DaemonSet" else "Deployment"
    old = sorted({each.metadata.name for each in _users(state, claims) if _is_older(pod, each, owner, name)})
    if not old:
        return ""
    body = state.objects.bodies.get((f"{kind.lower()}.apps", pod.metadata.namespace, name))
    if body is not None and not _waits_for_new(kind, part(body, "spec")):
        return ""
    remedy = "maxSurge: 0" if kind == "DaemonSet" else "strategy Recreate, or maxUnavailable: 1,"
    usual = "with maxSurge" if kind == "DaemonSet" else "with maxUnavailable 0, the default below 4 replicas,"
    condition = "" if body is not None else f" {usual}"
    return (
        f"pod {listed(old)} of the same {kind} {name} holds what it waits for: a rolling update{condition} ends the "
        f"old pod once the new one is ready, so each waits for the other; {remedy} ends that"
    )


def _users(state: ClusterState, claims: Iterable[ClaimKey]) -> Iterable[Pod]:
    """Yield the pods that some claims are reserved for."""
    for key in claims:
        claim = state.find_claim(key)
        for entry in claim.status.reserved_for if claim is not None else ():
            pod = state.consumers.find_pod(key[0], entry)
            if pod is not None and not is_over(pod):
                yield pod


def _is_older(pod: Pod, other: Pod, owner: OwnerReference, name: str) -> bool:
    """Return whether another pod is of an older template of the same owner."""
    found = controller_of(other)
    if found is None or other.metadata.namespace != pod.metadata.namespace or other is pod:
        return False
    if owner.kind == "DaemonSet":
        return (found.kind, found.name) == ("DaemonSet", name)
    return _deployment(found) == name and found.name != owner.name


def _waits_for_new(kind: str, spec: Mapping[str, Any]) -> bool:
    """Return whether an update ends no old pod before a new one is ready."""
    if kind == "DaemonSet":
        return part(spec, "updateStrategy", "rollingUpdate").get("maxSurge", 0) not in (0, "0%")
    strategy, replicas = part(spec, "strategy"), spec.get("replicas", 1)
    rolling = part(strategy, "rollingUpdate")
    surge = _resolve(rolling.get("maxSurge", "25%"), replicas, ceil)
    unavailable = _resolve(rolling.get("maxUnavailable", "25%"), replicas, floor)
    return strategy.get("type") != "Recreate" and unavailable == 0 and surge != 0


def _resolve(value: Any, replicas: Any, round_to: Any) -> int:
    """Return a number of pods that is given as such, or as a percentage of the replicas."""
    if isinstance(value, int):
        return value
    found = _PERCENT.fullmatch(str(value))
    return round_to(int(found[1]) * replicas / 100) if found and isinstance(replicas, int) else 0
