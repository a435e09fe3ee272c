"""Faults of allocations: devices held twice or beyond what there is, or that nobody can use, or nobody uses.

Source: docs/operator.md, "Two holders" and "Allocations that cannot be used any more"; docs/dra-semantics 4 and 8.
"""

from collections.abc import Iterator
from typing import Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import PodGroup
from dra_operator.api.durations import human_duration
from dra_operator.api.names import FIELD_MANAGER, OPT_OUT_LABEL, OWNED_KEY
from dra_operator.api.text import listed
from dra_operator.api.types import DeviceTaintRule, ResourceClaim
from dra_operator.inventory import Slice
from dra_operator.inventory.ownership import is_owned_taint, owns, tolerance_problem
from dra_operator.inventory.taints import names_device, touches
from dra_operator.ledger import BrokenAllocations, Cause, Overcommitments
from dra_operator.pods.objects import ObjectRecord
from dra_operator.questions import fault_texts
from dra_operator.questions.findings import Finding, Sort, claim_names
from dra_operator.questions.holders import ConsumerIndex, allocated_claims, is_pod, is_pod_group
from dra_operator.questions.managers import find_status_writes
from dra_operator.questions.published_devices import PublishedDevices
from dra_operator.questions.state import ClusterState
from dra_operator.questions.times import seconds_of

UNRESERVED_SECONDS: Final = 24 * 3600
"""How long an allocation may be reserved for nobody."""


def find_collisions(state: ClusterState) -> Iterator[Finding]:
    """Yield the devices that a claim holds for itself alone beside other claims."""
    for item in state.ledger.collisions():
        driver, pool, device = item.device
        exclusive = sorted(state.ledger.held((driver, pool)).get(device, ()))
        shares = state.ledger.shared((driver, pool)).get(device)
        sharing = sorted({*shares.claims} - {*exclusive}) if shares is not None else []
        path = "/".join(item.device)
        names, alone = claim_names(item.claims), fault_texts.join_claims(exclusive)
        if len({*exclusive}) > 1:
            text = f"is held by {alone}, each for itself alone"
            yield Finding(Sort.TWO_HOLDERS, "Device", "", path, text, fault_texts.END_BOTH, names)
        if sharing:
            text = f"is held by {alone} alone, and shared by {fault_texts.join_claims(sharing)}"
            yield Finding(Sort.EXCLUSIVE_BESIDE_SHARES, "Device", "", path, text, fault_texts.END_BOTH, names)


def find_overdrawn(state: ClusterState) -> Iterator[Finding]:
    """Yield the slices of which more is allocated than they publish."""
    for case in Overcommitments(state.inventory, state.ledger).find():
        yield Finding(
            Sort.OVERDRAWN,
            "ResourceSlice",
            "",
            case.slice_name,
            fault_texts.too_much(case),
            fault_texts.room_for(case),
            claim_names(case.claims),
        )


def find_lost_nodes(state: ClusterState) -> Iterator[Finding]:
    """Yield the claims whose allocation can be used only on nodes that are gone."""
    for claim, lost, _ in _broken(state):
        if lost:
            text = f"is allocated on node {listed(lost)}, which is gone"
            yield _of_claim(Sort.NODE_GONE, claim, text, fault_texts.DELETE_CLAIM)


def find_unpublished(state: ClusterState) -> Iterator[Finding]:
    """Yield the claims with devices that no slice publishes; where the node is gone, that is told instead."""
    for claim, lost, missing in _broken(state):
        if missing and not lost:
            text = f"holds {listed(missing)}"
            is_driver_away = not {*missing} - {*_without_pool(claim, state)}
            action = fault_texts.DRIVER_FIRST if is_driver_away else fault_texts.DELETE_CLAIM
            yield _of_claim(Sort.NOT_PUBLISHED, claim, text, action)


def _broken(state: ClusterState) -> Iterator[tuple[ResourceClaim, list[str], list[str]]]:
    """Yield allocated claims, each with the nodes that are gone, and what is not published, in words."""
    allocations = BrokenAllocations(state.inventory, missing_seconds=0)
    claims = list(allocated_claims(state.objects))
    for claim in claims:
        allocations.put(claim_key(claim), claim.status.allocation)
    allocations.refresh(0.0, state.now)
    are_nodes_known = state.has_all("Node")
    are_slices_known = "ResourceSlice" not in state.unread
    for claim in claims:
        breakages = allocations.found.get(claim_key(claim), ())
        lost = [item.node for item in breakages if item.cause is Cause.NODE_GONE] if are_nodes_known else []
        missing: list[str] = []
        if are_slices_known:
            missing += [
                f"device {'/'.join(item.device)}, which is not in generation {item.generation} of its pool"
                for item in breakages
                if item.cause is Cause.DEVICE_MISSING and item.device is not None
            ]
            missing += _without_pool(claim, state)
        yield claim, lost, missing


def _without_pool(claim: ResourceClaim, state: ClusterState) -> Iterator[str]:
    """Yield the devices of a claim of whose pool there is no slice at all."""
    assert claim.status.allocation is not None
    for result in claim.status.allocation.devices.results:
        if (result.driver, result.pool) not in state.inventory.pools:
            yield f"device {result.driver}/{result.pool}/{result.device}, of whose pool no slice is published"


def find_lost_consumers(state: ClusterState) -> Iterator[Finding]:
    """Yield the claims that are reserved for pods, or groups of pods, that are gone."""
    consumers = ConsumerIndex.build(state)
    groups: set[tuple[str, str]] = set()
    for record in state.objects.of_kind("PodGroup") if "PodGroup" not in state.unread else ():
        group: PodGroup = record.obj
        groups.add((group.metadata.namespace, group.metadata.name))
    if not state.has_all("Pod"):
        return
    for record in state.objects.of_kind("ResourceClaim"):
        claim: ResourceClaim = record.obj
        namespace = claim.metadata.namespace
        gone = [
            f"pod {entry.name}"
            for entry in claim.status.reserved_for
            if is_pod(entry) and consumers.find_pod(namespace, entry) is None
        ]
        gone += [
            f"PodGroup {entry.name}"
            for entry in claim.status.reserved_for
            if groups and is_pod_group(entry) and (namespace, entry.name) not in groups
        ]
        if gone:
            text = f"is reserved for {listed(gone)}, which {'is' if len(gone) == 1 else 'are'} gone"
            if (allocation := claim.status.allocation) is not None and allocation.devices.results:
                held = [f"{each.pool}/{each.device}" for each in allocation.devices.results]
                text += f", and holds {listed(held)}"
            action = (
                "see whether kube-controller-manager runs, which takes such entries away within seconds; if it runs, "
                "see its log for this claim, or delete the claim if nobody needs it any more"
            )
            yield _of_claim(Sort.CONSUMER_GONE, claim, text, action)


def find_unreserved(state: ClusterState) -> Iterator[Finding]:
    """Yield the claims that hold devices and have been reserved for nobody for longer than a day."""
    consumers = ConsumerIndex.build(state)
    for record in state.objects.of_kind("ResourceClaim"):
        claim: ResourceClaim = record.obj
        allocation = claim.status.allocation
        if allocation is None or claim.status.reserved_for or claim.metadata.deletion_timestamp:
            continue
        held = [item for item in allocation.devices.results if not item.admin_access]
        since = _last_change(record)
        if not held or since is None or state.now - since <= UNRESERVED_SECONDS:
            continue
        devices = "a device" if len(held) == 1 else f"{len(held)} devices"
        duration = human_duration(int(state.now - since))
        text = f"holds {devices} and has been reserved for nobody for {duration}"
        waiting = [pod.metadata.name for pod in consumers.users.get(claim_key(claim), ())]
        if waiting:
            action = f"see why pod {listed(waiting)}, which names it, does not run; or delete the claim"
        else:
            action = "delete the claim if nobody needs it any more"
        yield _of_claim(Sort.UNRESERVED, claim, text, action)


def _last_change(record: ObjectRecord) -> float | None:
    """Return when a claim was allocated or its reservations were written; if that is not known, when it was created."""
    claim: ResourceClaim = record.obj
    allocation = claim.status.allocation
    writes = find_status_writes(record.body)
    allocated = None if allocation is None else seconds_of(allocation.allocation_timestamp)
    times = [write.time for write in writes if write.is_of_reservations]
    times += [write.time for write in writes if write.is_of_allocation] if allocated is None else [allocated]
    known = [time for time in times if time is not None]
    return max(known) if known else seconds_of(claim.metadata.creation_timestamp)


# --- devices that the operator owns


_BEFORE: Final = "it was allocated before the device was owned"
_WHEN_IT_ENDS: Final = "nothing: the operator has the device when the claim ends"
_POLICY: Final = "see whether the policy dra-operator-owned is installed, and whom it exempts"


_TOLERATE_OTHERS: Final = (
    f"create it anew with tolerations that name the keys of other taints, and not {OWNED_KEY}; the policy "
    "dra-operator-owned-tolerations refuses such objects"
)


def find_foreign_allocations(state: ClusterState) -> Iterator[Finding]:
    """Yield the claims with devices that the operator owns and somebody else allocated.

    Who allocated is known by the field manager of the allocation, where that is kept. Else it was not the operator if
    the claim opted out, if the allocation has no time, which the operator always writes, or one from before the device
    was owned.
    """
    if "DeviceTaintRule" in state.unread:
        # Since when a device is owned is not known then.
        return
    published = PublishedDevices(state.inventory)
    rules = [rule for _, rule in sorted(state.inventory.rules.items()) if owns(rule)]
    for record in state.objects.of_kind("ResourceClaim"):
        claim: ResourceClaim = record.obj
        allocation = claim.status.allocation
        if allocation is None:
            continue
        owned = [
            (f"{result.driver}/{result.pool}/{result.device}", _owned_since(*found, rules))
            for result in allocation.devices.results
            if not result.admin_access
            if (found := published.find(result.driver, result.pool, result.device)) is not None
            if _is_owned(*found)
        ]
        if not owned or (why := _why_foreign(record, [since for _, since in owned])) is None:
            continue
        text = f"holds device {listed([path for path, _ in owned])}, which the operator owns: {why}"
        action = _WHEN_IT_ENDS if why == _BEFORE else _POLICY
        yield _of_claim(Sort.FOREIGN_ALLOCATION, claim, text, action)


def find_tolerant(state: ClusterState) -> Iterator[Finding]:
    """Yield the templates, and the claims without allocation, that tolerate our taint without admin access."""
    if state.inventory.settlement is None:
        return
    specs = [
        ("ResourceClaimTemplate", record.obj.metadata, record.obj.spec.spec)
        for record in state.objects.of_kind("ResourceClaimTemplate")
    ]
    specs += [
        ("ResourceClaim", record.obj.metadata, record.obj.spec)
        for record in state.objects.of_kind("ResourceClaim")
        if record.obj.status.allocation is None and not record.obj.metadata.deletion_timestamp
    ]
    for kind, metadata, spec in specs:
        if text := tolerance_problem(spec):
            yield Finding(
                Sort.TOLERATES_OWNED, kind, metadata.namespace, metadata.name, text, _TOLERATE_OTHERS
            )


def _is_owned(slice_: Slice, index: int) -> bool:
    return bool(slice_.taints) and any(map(is_owned_taint, slice_.taints[index]))


def _owned_since(slice_: Slice, index: int, rules: list[DeviceTaintRule]) -> float | None:
    """Return since when a device is owned, as far as that is known: the first taint counts."""
    times = [
        seconds_of(rule.metadata.creation_timestamp)
        for rule in rules
        if touches(rule, *slice_.key) and names_device(rule, slice_.names[index])
    ]
    times += [
        seconds_of(taint.time_added) for taint in slice_.device_fields[index].taints if is_owned_taint(taint)
    ]
    known = [time for time in times if time is not None]
    return min(known) if known and len(known) == len(times) else None


def _why_foreign(record: ObjectRecord, owned_since: list[float | None]) -> str | None:
    """Return by what one knows that it was not the operator who allocated a claim; None if it may have been."""
    claim: ResourceClaim = record.obj
    assert claim.status.allocation is not None
    managers = [write.manager for write in find_status_writes(record.body) if write.is_of_allocation]
    if managers:
        return None if FIELD_MANAGER in managers else f"{managers[0]} allocated it"
    if claim.metadata.labels.get(OPT_OUT_LABEL) == "false":
        return f'it has the label {OPT_OUT_LABEL}: "false", so the operator did not allocate it'
    allocated = seconds_of(claim.status.allocation.allocation_timestamp)
    if allocated is None:
        return "its allocation has no allocationTimestamp, which the operator always writes"
    if any(since is not None and allocated < since for since in owned_since):
        return _BEFORE
    return None


def _of_claim(sort: Sort, claim: ResourceClaim, message: str, action: str) -> Finding:
    metadata = claim.metadata
    return Finding(sort, "ResourceClaim", metadata.namespace, metadata.name, message, action)
