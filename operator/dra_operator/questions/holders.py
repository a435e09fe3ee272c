"""Holders: which claims hold a device, a pool, the devices of a node or of a class, for which pods, since when.

A claim holds the results of its allocation; admin access holds nothing and is listed on request. A device that is
published for one node belongs to that node; any other belongs to the node that the allocation is pinned to.
Source: docs/audit.md.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from dra_operator.allocator.decider import Decider
from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Pod
from dra_operator.api.likeness import near_object
from dra_operator.api.names import ENDED_PHASES
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.types import ResourceClaim, ResourceClaimConsumerReference
from dra_operator.inventory import Slice
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import is_over, named_claims
from dra_operator.pods.objects import ObjectSet
from dra_operator.questions.answers import Conclusion, conclude
from dra_operator.questions.errors import UnknownObjectError
from dra_operator.questions.partial import HOLDERS, OF_CLASS
from dra_operator.questions.published_devices import (
    PublishedDevices,
    devices_by_node,
    devices_in_class,
    node_of_device,
)
from dra_operator.questions.state import ClusterState
from dra_operator.questions.times import age_of

_POD_GROUPS: Final = "scheduling.k8s.io"


class Use(StrEnum):
    """What the consumers of an allocation do; anything but RUNNING and UNKNOWN leaves its devices idle."""

    RUNNING = "running"
    STARTING = "starting"
    WAITING = "waiting"
    ENDED = "ended"
    GONE = "gone"
    UNRESERVED = "unreserved"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """One result of an allocation. `consumed` are the amounts of a share, as `memory=10Gi`."""

    driver: str
    pool: str
    device: str
    request: str
    node: str = ""
    share_id: str = ""
    consumed: tuple[str, ...] = ()
    is_admin_access: bool = False
    is_published: bool = True

    @property
    def path(self) -> str:
        """The device as texts have it."""
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Consumer:
    """Somebody a claim is reserved for, or a pod that only names it; `kind` is Pod, PodGroup or a resource."""

    kind: str
    name: str
    use: Use
    node: str = ""
    is_reserved: bool = True


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that holds devices.

    `since` is when it was allocated; if that is not known, when it was created, and `is_since_creation` says so. `node`
    is the one that its allocation is pinned to. `is_idle`: no consumer runs; None if that cannot be said.
    """

    namespace: str
    name: str
    devices: tuple[HeldDevice, ...]
    consumers: tuple[Consumer, ...]
    use: Use
    is_idle: bool | None
    node: str = ""
    since: str | None = None
    is_since_creation: bool = False
    age_seconds: int | None = None
    is_being_deleted: bool = False


@dataclass(frozen=True, slots=True)
class HolderQuery:
    """What is asked about: what is set restricts, all of it together. Empty, it is everything.

    With `admin_access`, results of admin access are listed as well, which hold nothing.
    """

    driver: str = ""
    pool: str = ""
    device: str = ""
    node: str = ""
    device_class: str = ""
    namespace: str = ""
    admin_access: bool = False


@dataclass(frozen=True, slots=True)
class HolderReport:
    """The claims that hold something, by namespace and name, and how many devices were asked about.

    `unread` has a line for each kind that could not be read, `partial` for each without which holders may be missing,
    or listed that hold no such device.
    """

    query: HolderQuery
    holders: tuple[Holder, ...]
    devices: int
    unread: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether somebody holds one."""
        return conclude(is_yes=bool(self.holders), is_partial=bool(self.partial))

    def idle(self) -> "HolderReport":
        """Return the report of those alone that are idle; of some that may not be known."""
        found = tuple([item for item in self.holders if item.is_idle])
        is_unknown = any(item.is_idle is None for item in self.holders)
        partial = (
            (*self.partial, "of some claims it is not known whether pods use them")
            if is_unknown
            else self.partial
        )
        return replace(self, holders=found, partial=partial)


_ORDER: Final = (Use.RUNNING, Use.UNKNOWN, Use.STARTING, Use.WAITING, Use.ENDED, Use.GONE)
"""Of several consumers the first of these counts."""


def find_holders(state: ClusterState, query: HolderQuery = HolderQuery()) -> HolderReport:
    """Return the claims that hold devices of a query, by namespace and name, with these devices alone.

    Raises UnknownObjectError if the query names what is not there, QuestionError for a class where none could be read.
    """
    partial = HOLDERS.find_missing(
        state.unread, ("ResourceSlice",) if query.device_class or query.node else ()
    )
    if query.device_class:
        OF_CLASS.check(state.unread)
    published = PublishedDevices(state.inventory)
    matcher = _QueryMatcher(state, query, published)
    matcher.check()
    consumers = ConsumerIndex.build(state)
    holders = [
        consumers.build_holder(claim, devices)
        for claim in allocated_claims(state.objects)
        if query.namespace in ("", claim.metadata.namespace)
        if (devices := [item for item in held_devices(claim, published) if matcher.matches(claim, item)])
    ]
    holders.sort(key=lambda item: (item.namespace, item.name))
    return HolderReport(
        query,
        tuple(holders),
        matcher.count(),
        unread_lines(state),
        partial,
    )


def unread_lines(state: ClusterState) -> tuple[str, ...]:
    """Return a line for each kind that could not be read."""
    return tuple(f"{kind}: {why}" for kind, why in sorted(state.unread.items()))


def allocated_claims(objects: ObjectSet) -> Iterator[ResourceClaim]:
    """Yield the claims with an allocation."""
    for record in objects.of_kind("ResourceClaim"):
        if record.obj.status.allocation is not None:
            yield record.obj


def held_devices(claim: ResourceClaim, published: PublishedDevices) -> Iterator[HeldDevice]:
    """Yield the results of the allocation of a claim, admin access included."""
    allocation = claim.status.allocation
    if allocation is None:
        return
    pinned = pinned_to(allocation.node_selector) or ""
    for result in allocation.devices.results:
        found = published.find(result.driver, result.pool, result.device)
        yield HeldDevice(
            result.driver,
            result.pool,
            result.device,
            result.request,
            (node_of_device(*found) if found is not None else "") or pinned,
            result.share_id or "",
            tuple(f"{name}={amount}" for name, amount in sorted(result.consumed_capacity.items())),
            bool(result.admin_access),
            found is not None,
        )


@dataclass(slots=True)
class ConsumerIndex:
    """The pods of a state: by name, by group, and those that have not ended by the claims that they name."""

    now: float
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
            if not is_over(pod):
                for name in dict.fromkeys(named_claims(pod)):
                    users.setdefault((namespace, name), []).append(pod)
        return cls(state.now, pods, groups, users, state.has_all("Pod"))

    def build_holder(self, claim: ResourceClaim, devices: Iterable[HeldDevice]) -> Holder:
        """Return a claim that holds some devices, with its consumers."""
        metadata, allocation = claim.metadata, claim.status.allocation
        assert allocation is not None
        use = self.find_use(claim)
        since = allocation.allocation_timestamp or metadata.creation_timestamp
        return Holder(
            metadata.namespace,
            metadata.name,
            tuple(devices),
            tuple(self.find_consumers(claim)),
            use,
            None if use is Use.UNKNOWN else use is not Use.RUNNING,
            node=pinned_to(allocation.node_selector) or "",
            since=since,
            is_since_creation=allocation.allocation_timestamp is None,
            age_seconds=age_of(since, self.now),
            is_being_deleted=metadata.deletion_timestamp is not None,
        )

    def find_use(self, claim: ResourceClaim) -> Use:
        """Return what the consumers do that a claim is reserved for."""
        namespace = claim.metadata.namespace
        uses = {self._find_consumer(namespace, entry).use for entry in claim.status.reserved_for}
        return next((use for use in _ORDER if use in uses), Use.UNRESERVED)

    def find_consumers(self, claim: ResourceClaim) -> Iterator[Consumer]:
        """Yield whom a claim is reserved for, and then the pods that name it and have no reservation."""
        reserved = set[str]()
        for entry in claim.status.reserved_for:
            yield self._find_consumer(claim.metadata.namespace, entry)
            if is_pod(entry):
                reserved.add(entry.name)
        for pod in self.users.get(claim_key(claim), ()):
            if pod.metadata.name not in reserved:
                yield Consumer(
                    "Pod", pod.metadata.name, _use_of_pod(pod), pod.spec.node_name, is_reserved=False
                )

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
    return Use.STARTING if pod.status.phase in ("", "Pending") else Use.RUNNING


@dataclass(slots=True)
class _QueryMatcher:
    """Says which results of allocations a query is about."""

    state: ClusterState
    query: HolderQuery
    published: PublishedDevices

    def check(self) -> None:
        """Raise UnknownObjectError if the query names what is not there, though all of that kind was read."""
        query, unread = self.query, self.state.unread
        if query.device_class and "DeviceClass" not in unread:
            _check("DeviceClass", query.device_class, self.state.inventory.classes)
        # What is gone may still be held.
        held = [
            result
            for claim in allocated_claims(self.state.objects)
            for result in held_devices(claim, self.published)
        ]
        if query.node and "Node" not in unread:
            named = {item.node for item in held}
            _check("Node", query.node, {*self.state.nodes, *self.published.nodes(), *named} - {""})
        if "ResourceSlice" in unread:
            return
        here = [(item.driver, item.pool, item.device) for item in held]
        here += [(*pool.key, name) for pool, item in self.published.slices() for name in item.names]
        wanted = (("driver", query.driver), ("pool", query.pool), ("device", query.device))
        for position, (kind, name) in enumerate(wanted):
            if name:
                _check(kind, name, {each[position] for each in here})
                here = [each for each in here if each[position] == name]

    def matches(self, claim: ResourceClaim, item: HeldDevice) -> bool:
        """Return whether the query is about a result of a claim."""
        query = self.query
        return (
            query.driver in ("", item.driver)
            and query.pool in ("", item.pool)
            and query.device in ("", item.device)
            and query.node in ("", item.node)
            and (query.admin_access or not item.is_admin_access)
            and (not query.device_class or self._is_of_class(claim, item))
        )

    def count(self) -> int:
        """Return how many published devices the query is about."""
        query, found = self.query, 0
        for pool, slice_ in self.published.slices():
            if query.driver not in ("", pool.key[0]) or query.pool not in ("", pool.key[1]):
                continue
            chosen = slice_.every
            if query.device_class:
                chosen &= self._class_devices(slice_)
            if query.device:
                index = slice_.indexes.get(query.device)
                chosen &= 0 if index is None else 1 << index
            if query.node:
                chosen &= devices_by_node(slice_).get(query.node, 0)
            found += chosen.bit_count()
        return found

    def _is_of_class(self, claim: ResourceClaim, item: HeldDevice) -> bool:
        """Return whether a device is in the class; of one that is not published, what its request names counts."""
        found = self.published.find(item.driver, item.pool, item.device)
        if found is None:
            return self.query.device_class in classes_of_request(claim, item.request)
        slice_, index = found
        return bool(self._class_devices(slice_) >> index & 1)

    def _class_devices(self, slice_: Slice) -> int:
        return devices_in_class(self.state.allocators[Decider.OPERATOR], self.query.device_class, slice_)


def classes_of_request(claim: ResourceClaim, name: str) -> set[str]:
    """Return the classes that a request of a claim names, or one of its alternatives, `request/alternative`."""
    first, _, alternative = name.partition("/")
    return {
        each.device_class_name
        for request in claim.spec.devices.requests
        if request.name == first
        for each in (
            *((request.exactly,) if request.exactly is not None else ()),
            *(item for item in request.first_available if item.name == alternative),
        )
    }


def _check(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise unknown_object(kind, name, known)


def unknown_object(kind: str, name: str, known: Iterable[str]) -> UnknownObjectError:
    """Return that something of this name is not there, and the name that was probably meant."""
    near = near_object(name, known)
    hint = f'; did you mean "{near}"?' if near else ""
    return UnknownObjectError(f'there is no {kind} "{name}"{hint}')
