"""What has devices: when its claims were allocated, by whom, for whom, where they could be, and what is wrong now.

Where they could be is asked as of now, as if claims and pod were not there: nobody keeps what was free then.
Source: docs/kubectl.md, `explain`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dra_operator.allocator.decision import Allocated, Decider, claim_key
from dra_operator.api.managed_fields import find_status_writes
from dra_operator.api.names import FIELD_MANAGER, OWNED_KEY
from dra_operator.api.text import age_of
from dra_operator.api.types import ResourceClaim, ResourceClaimStatus
from dra_operator.pods.objects import ObjectRecord
from dra_operator.questions.audit import find_deletion_cause
from dra_operator.questions.claims import device_path, node_of_claim, results_of
from dra_operator.questions.device_table import PublishedDevices, taints_of
from dra_operator.questions.replacement import unbound
from dra_operator.questions.state import ClusterState

_SECONDS: Final = 2.0
"""How long it may take to find all nodes."""


@dataclass(frozen=True, slots=True)
class AllocatedClaim:
    """A claim that has devices. `claim` is the entry of the pod; `since` is RFC 3339, and unknown of old allocations.

    `manager` is the field manager of the allocation, where it was kept. `consumers` are those it is reserved for, and
    the pods that name it, each with what it does. `problems` are what is wrong with the allocation now.
    """

    claim: str
    name: str
    node: str
    since: str | None
    age_seconds: int | None
    manager: str
    consumers: tuple[str, ...]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocationOrigin:
    """The allocated claims of what is asked about, and the `nodes`, of so many, on which all of them would fit now.

    None: that is not known.
    """

    claims: tuple[AllocatedClaim, ...]
    nodes: tuple[str, ...] | None
    of_nodes: int


def describe_allocation(
    state: ClusterState, claims: Mapping[str, ObjectRecord], pod: ObjectRecord | None = None
) -> AllocationOrigin | None:
    """Return what is known of the allocations of some claims, by entry: those of a pod, if one is given."""
    found = {entry: each for entry, each in claims.items() if each.obj.status.allocation is not None}
    if not found:
        return None
    published = PublishedDevices(state.inventory)
    items = [_describe(state, published, *each) for each in found.items()]
    nodes = None
    if not state.unread.keys() & {"ResourceClaim", "ResourceSlice", "DeviceClass"}:
        nodes = _find_nodes(state, list(found.values()), pod)
    return AllocationOrigin(tuple(items), nodes, len(state.nodes))


def _describe(
    state: ClusterState,
    published: PublishedDevices,
    entry: str,
    record: ObjectRecord,
) -> AllocatedClaim:
    claim: ResourceClaim = record.obj
    allocation = claim.status.allocation
    since = None if allocation is None else allocation.allocation_timestamp
    return AllocatedClaim(
        entry,
        claim.metadata.name,
        node_of_claim(claim),
        since,
        age_of(since, state.now),
        _manager(record),
        tuple([f"{each.kind} {each.name} ({each.use})" for each in state.consumers.find_consumers(claim)]),
        tuple(_problems(state, published, claim)),
    )


def _manager(record: ObjectRecord) -> str:
    return next((each.manager for each in find_status_writes(record.body) if each.is_of_allocation), "")


def _problems(state: ClusterState, published: PublishedDevices, claim: ResourceClaim) -> Iterator[str]:
    if (why := state.broken.get(claim_key(claim))) is not None:
        yield f"its allocation is broken: {why}"
    if claim.metadata.deletion_timestamp:
        text, action, _ = find_deletion_cause(state, claim)
        yield f"it is being deleted: {text}; {action}"
    for result in results_of(claim):
        found = published.find(result.driver, result.pool, result.device)
        if found is None and "ResourceSlice" not in state.unread:
            yield f"device {device_path(result)} is not published"
        # That the operator owns a device is no fault.
        elif found is not None and (
            taints := [each for each in taints_of(*found) if not each.startswith(OWNED_KEY)]
        ):
            yield f"device {device_path(result)} is tainted: {', '.join(taints)}"


def _find_nodes(
    state: ClusterState, records: Sequence[ObjectRecord], pod: ObjectRecord | None
) -> tuple[str, ...] | None:
    """Return the nodes on which some claims would fit as if they and the pod were gone; None if it takes long."""
    names = ["/".join(claim_key(each.obj)) for each in records]
    owner = [] if pod is None else [f"{pod.obj.metadata.namespace}/{pod.obj.metadata.name}"]
    anew = state.without(claims=names, pods=owner)
    managers = {_manager(each) for each in records}
    decider = Decider.OPERATOR if managers == {FIELD_MANAGER} or pod is None else Decider.KUBE_SCHEDULER
    allocator = anew.allocators[decider]
    suitable = {name for name, node in anew.inventory.nodes.items() if node.unusable is None}
    if pod is not None:
        suitable -= anew.pods.find_obstacles(anew.placement.requirements(unbound(pod))).keys()
    claims = [replace(each.obj, status=ResourceClaimStatus()) for each in records]
    left, found = allocator.node_set(sorted(suitable)), list[str]()
    until = allocator.clock() + _SECONDS
    while allocator.clock() < until:
        decision = allocator.allocate(claims, left, decider=decider)
        if not isinstance(decision, Allocated):
            return tuple(found)
        found.append(decision.node)
        left &= ~allocator.node_set([decision.node])
    return None
