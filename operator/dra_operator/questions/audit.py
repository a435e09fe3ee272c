"""Audit: what is wrong in a cluster, by sorts of faults, each with the object and what to do.

What controllers mend by themselves is found once they have had the time. What cannot be judged, as a kind was not read,
is said and not found.
Source: docs/audit.md; docs/operator.md, "Two holders", "Gated pods", "Devices that are ours"; docs/dra-semantics 2.3, 4
and 8.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from dra_operator.allocator.decision import claim_key
from dra_operator.allocator.extended import CLASS_PREFIX
from dra_operator.api.core import Metadata, Node, Pod
from dra_operator.api.kinds import OWN_NAMES
from dra_operator.api.managed_fields import find_status_writes
from dra_operator.api.names import (
    ENDED_PHASES,
    FIELD_MANAGER,
    FINALIZER,
    GATE,
    LEASE_NAME,
    OPT_OUT_LABEL,
    OWNED_FINALIZER,
    OWNED_KEY,
    PENDING_ANNOTATION,
)
from dra_operator.api.quantity import read_quantity
from dra_operator.api.text import age_of, human_duration, listed, seconds_of
from dra_operator.api.types import AllocationResult, DeviceTaintRule, ResourceClaim
from dra_operator.inventory import Slice, Verdict, bits
from dra_operator.inventory.object_faults import describe_surplus
from dra_operator.inventory.ownership import counter_sets, is_owned_taint, owns, tolerance_problem
from dra_operator.inventory.taints import names_device, touches
from dra_operator.ledger import Cause, Overcommitments
from dra_operator.pods.claims import (
    can_use,
    find_unknown_entries,
    find_unknown_mappings,
    is_over,
    named_claims,
)
from dra_operator.pods.objects import ObjectRecord
from dra_operator.pods.workloads import part
from dra_operator.questions import fault_texts
from dra_operator.questions.answers import AUDIT, Conclusion, Sort, conclude
from dra_operator.questions.claims import (
    BINDING_SECONDS,
    Use,
    allocated_claims,
    device_path,
    find_unbound,
    is_pod,
    is_pod_group,
    is_reservation,
    results_of,
)
from dra_operator.questions.device_table import DeviceTable, devices_by_node
from dra_operator.questions.fault_texts import find_owners
from dra_operator.questions.operator_lease import describe_operator, find_lease, is_lease_known
from dra_operator.questions.state import ClusterState
from dra_operator.questions.usage import find_nodes_without_devices

UNRESERVED_SECONDS: Final = 24 * 3600
"""How long an allocation may be reserved for nobody."""
HANGING_SECONDS: Final = 300
"""How long a deletion may take. The time of a pod's deletion includes its grace period."""
GATED_SECONDS: Final = 600
"""How long a pod may have the gate although nothing is left to wait for, or nobody says what it waits for."""
_OBJECTS: Final = ("Node", "Pod")
"""Kinds that files may leave out: that there is none of them proves nothing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with an object, in one line, and what to do about it.

    `related` are the other objects that take part, as `ResourceClaim team-a/train-0`.
    """

    sort: Sort
    kind: str
    namespace: str
    name: str
    message: str
    action: str
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UncheckedSort:
    """A sort that could not be judged, and why."""

    sort: Sort
    why: str


@dataclass(frozen=True, slots=True)
class AuditReport:
    """All findings by sort, and by namespace and name of the object; and what could not be judged.

    `owned_without_policy` are the rules and slices that own devices, and are of no AllocationPolicy: nothing is wrong
    with them.
    """

    findings: tuple[Finding, ...]
    unchecked: tuple[UncheckedSort, ...] = ()
    owned_without_policy: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether nothing is wrong."""
        # What is found is wrong, whatever could not be checked.
        return conclude(is_yes=not self.findings, is_partial=bool(self.unchecked) and not self.findings)


def audit(state: ClusterState) -> AuditReport:
    """Return all that is wrong in a state, the most urgent first."""
    order = {sort: number for number, sort in enumerate(Sort)}
    view = _View(state)
    findings = sorted(
        (finding for check in _CHECKS for finding in check(view)),
        key=lambda item: (order[item.sort], item.kind, item.namespace, item.name, item.message),
    )
    missing = dict(state.unread)
    for kind in _OBJECTS:
        if not state.has_all(kind):
            missing.setdefault(kind, f"no {kind} is given")
    if is_lease_known(state) or not (view.gated or view.owners):
        missing.pop("Lease", None)
    else:
        missing.setdefault("Lease", "no Lease of an operator is given")
    causes = {
        sort: [f"{kind}: {missing[kind]}" for kind in kinds if kind in missing]
        for sort, kinds in AUDIT.items()
    }
    causes[Sort.SERVED_TWICE] += view.table.classes.partial
    unchecked = tuple([UncheckedSort(sort, "; ".join(each)) for sort, each in causes.items() if each])
    return AuditReport(tuple(findings), unchecked, tuple(find_owners(state.objects, without_policy=True)))


@dataclass
class _View:
    """What the checks look at."""

    state: ClusterState

    @cached_property
    def gated(self) -> list[Pod]:
        """The pods that wait with the operator's gate."""
        pods = [record.obj for record in self.state.objects.of_kind("Pod")]
        return [
            pod
            for pod in pods
            if not is_over(pod) and any(gate.name == GATE for gate in pod.spec.scheduling_gates)
        ]

    @cached_property
    def is_operator_dead(self) -> bool:
        """Whether no operator decides, as far as that is known."""
        lease = find_lease(self.state)
        return is_lease_known(self.state) and (lease is None or lease.is_stale)

    @cached_property
    def owners(self) -> list[str]:
        """The rules and slices by which devices are the operator's."""
        return find_owners(self.state.objects)

    @cached_property
    def table(self) -> DeviceTable:
        """The devices, with what is published of them and which classes select them."""
        return DeviceTable(self.state)

    @cached_property
    def on_nodes(self) -> Mapping[str, Sequence[tuple[Slice, int]]]:
        """The devices of each node, by slice."""
        found = defaultdict[str, list[tuple[Slice, int]]](list)
        for slice_ in self.table.published.slices():
            for name, devices in devices_by_node(slice_).items():
                found[name].append((slice_, devices))
        return found

    def has_ended_long_ago(self, pod: Pod) -> bool:
        """Return whether a pod ended so long ago that its claims should be free, as far as its status says when."""
        record = self.state.find_record("Pod", pod.metadata.namespace, pod.metadata.name)
        if record is None or pod.status.phase not in ENDED_PHASES:
            return False
        status = record.body.get("status") or {}
        states = [
            (each.get("state") or {}).get("terminated") or {}
            for each in status.get("containerStatuses") or ()
        ]
        times = [each.get("finishedAt") for each in states]
        times += [each.get("lastTransitionTime") for each in status.get("conditions") or ()]
        known = [time for each in times if (time := seconds_of(str(each or ""))) is not None]
        since = max(known, default=seconds_of(pod.metadata.creation_timestamp))
        return since is not None and self.state.now - since > HANGING_SECONDS

    def claims(self) -> Iterator[tuple[ObjectRecord, ResourceClaim]]:
        """Yield all claims."""
        for record in self.state.objects.of_kind("ResourceClaim"):
            yield record, record.obj


def _about(sort: Sort, obj: Any, message: str, action: str, related: Iterable[ResourceClaim] = ()) -> Finding:
    """Return a finding about an object, in which claims take part."""
    metadata: Metadata = obj.metadata
    names = _claim_names(claim_key(claim) for claim in related)
    return Finding(sort, type(obj).__name__, metadata.namespace, metadata.name, message, action, names)


def _about_slice(sort: Sort, slice_: Slice, message: str, action: str) -> Finding:
    return Finding(sort, "ResourceSlice", "", slice_.name, message, action)


def _claim_names(claims: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple([f"ResourceClaim {namespace}/{name}" for namespace, name in claims])


def _are(names: Sequence[str]) -> str:
    """Return some names as the subject of "gone"."""
    return f"{listed(names)}, which {'is' if len(names) == 1 else 'are'} gone"


# --- what is allocated


def _find_collisions(view: _View) -> Iterator[Finding]:
    """Yield the devices that a claim holds for itself alone beside other claims."""
    ledger = view.state.ledger
    for item in ledger.collisions():
        driver, pool, device = item.device
        exclusive = sorted(ledger.held((driver, pool)).get(device, ()))
        shares = ledger.shared((driver, pool)).get(device)
        sharing = sorted({*shares.claims} - {*exclusive}) if shares is not None else []
        alone, names = fault_texts.join_claims(exclusive), _claim_names(item.claims)
        texts = {}
        if len({*exclusive}) > 1:
            texts[Sort.TWO_HOLDERS] = f"is held by {alone}, each for itself alone"
        if sharing:
            shared = fault_texts.join_claims(sharing)
            texts[Sort.EXCLUSIVE_BESIDE_SHARES] = f"is held by {alone} alone, and shared by {shared}"
        for sort, text in texts.items():
            yield Finding(sort, "Device", "", "/".join(item.device), text, fault_texts.END_BOTH, names)


def _find_overdrawn(view: _View) -> Iterator[Finding]:
    """Yield the slices of which more is allocated than they publish."""
    for case in Overcommitments(view.state.inventory, view.state.ledger).find():
        texts = fault_texts.too_much(case), fault_texts.room_for(case)
        yield Finding(Sort.OVERDRAWN, "ResourceSlice", "", case.slice_name, *texts, _claim_names(case.claims))


def _find_broken(view: _View) -> Iterator[Finding]:
    """Yield the claims on nodes that are gone, and else those with devices that no slice publishes."""
    state = view.state
    for claim in allocated_claims(state.objects):
        breakages = state.breakages.get(claim_key(claim), ())
        lost = [item.node for item in breakages if item.cause is Cause.NODE_GONE]
        if lost:
            text = f"is allocated on node {listed(lost)}, which is gone"
            yield _about(Sort.NODE_GONE, claim, text, fault_texts.DELETE_CLAIM)
            continue
        without_pool = [
            f"device {device_path(each)}, of whose pool no slice is published"
            for each in results_of(claim)
            if (each.driver, each.pool) not in state.inventory.pools
        ]
        missing = [
            f"device {'/'.join(item.device)}, which is not in generation {item.generation} of its pool"
            for item in breakages
            if item.cause is Cause.DEVICE_MISSING and item.device is not None
        ]
        if (missing or without_pool) and "ResourceSlice" not in view.state.unread:
            action = fault_texts.DELETE_CLAIM if missing else fault_texts.DRIVER_FIRST
            yield _about(Sort.NOT_PUBLISHED, claim, f"holds {listed([*missing, *without_pool])}", action)


def _find_lost_consumers(view: _View) -> Iterator[Finding]:
    """Yield the claims that are reserved for pods or groups that are gone, or for pods that ended, or made for such."""
    if not view.state.has_all("Pod"):
        return
    groups = {claim_key(record.obj) for record in view.state.objects.of_kind("PodGroup")}
    for _, claim in view.claims():
        namespace, entries = claim.metadata.namespace, claim.status.reserved_for
        gone = [
            f"pod {entry.name}"
            for entry in entries
            if is_pod(entry) and view.state.consumers.find_pod(namespace, entry) is None
        ]
        if groups and "PodGroup" not in view.state.unread:
            gone += [
                f"PodGroup {entry.name}"
                for entry in entries
                if is_pod_group(entry) and (namespace, entry.name) not in groups
            ]
        text = f"is reserved for {_are(gone)}" if gone else _outlived(view, claim)
        if not text:
            continue
        if held := [f"{each.pool}/{each.device}" for each in results_of(claim)]:
            text += f", and holds {listed(held)}"
        action = (
            "see whether kube-controller-manager runs, which takes such entries away within seconds; if it runs, "
            "see its log for this claim, or delete the claim if nobody needs it any more"
        )
        yield _about(Sort.CONSUMER_GONE, claim, text, action)


def _outlived(view: _View, claim: ResourceClaim) -> str:
    """Return that a claim is still there for a pod that ended long ago, or nothing."""
    namespace, entries = claim.metadata.namespace, claim.status.reserved_for
    pods = [pod for entry in entries if (pod := view.state.consumers.find_pod(namespace, entry)) is not None]
    if ended := [pod.metadata.name for pod in pods if view.has_ended_long_ago(pod)]:
        return f"is reserved for pod {listed(ended)}, which {'has' if len(ended) == 1 else 'have'} ended"
    if entries or claim.metadata.deletion_timestamp:
        return ""
    for owner in claim.metadata.owner_references:
        pod = view.state.consumers.pods.get((namespace, owner.name)) if owner.kind == "Pod" else None
        if pod is not None and owner.uid == pod.metadata.uid and view.has_ended_long_ago(pod):
            return f"was made for pod {owner.name}, which has ended"
    return ""


def _find_unreserved(view: _View) -> Iterator[Finding]:
    """Yield the claims that hold devices and have been reserved for nobody for longer than a day."""
    for record, claim in view.claims():
        allocation, now = claim.status.allocation, view.state.now
        if allocation is None or claim.status.reserved_for or claim.metadata.deletion_timestamp:
            continue
        held = [item for item in allocation.devices.results if not item.admin_access]
        since = _last_change(record, allocation)
        if not held or since is None or now - since <= UNRESERVED_SECONDS:
            continue
        devices = "a device" if len(held) == 1 else f"{len(held)} devices"
        text = f"holds {devices} and has been reserved for nobody for {human_duration(int(now - since))}"
        action = "delete the claim if nobody needs it any more"
        if waiting := [pod.metadata.name for pod in view.state.consumers.users.get(claim_key(claim), ())]:
            action = f"see why pod {listed(waiting)}, which names it, does not run; or delete the claim"
        yield _about(Sort.UNRESERVED, claim, text, action)


def _last_change(record: ObjectRecord, allocation: AllocationResult) -> float | None:
    """Return when a claim was allocated or its reservations were written; if that is not known, when it was created."""
    allocated, writes = seconds_of(allocation.allocation_timestamp), find_status_writes(record.body)
    times = [
        write.time
        for write in writes
        if write.is_of_reservations or (allocated is None and write.is_of_allocation)
    ]
    known = [time for time in (*times, allocated) if time is not None]
    return max(known) if known else seconds_of(record.obj.metadata.creation_timestamp)


# --- devices that the operator owns

_BEFORE: Final = "before the device was owned"
_WHEN_IT_ENDS: Final = "nothing: the operator has the device when the claim ends"
_POLICY: Final = "see whether the policy dra-operator-owned is installed, and whom it exempts"
_TOLERATE_OTHERS: Final = (
    f"create it anew with tolerations that name the keys of other taints, and not {OWNED_KEY}; the policy "
    "dra-operator-owned-tolerations refuses such objects"
)


def _find_foreign_allocations(view: _View) -> Iterator[Finding]:
    """Yield the claims with devices that the operator owns and somebody else allocated.

    Who allocated is known by the field manager of the allocation, where that is kept. Else it was not the operator if
    the claim opted out, if the allocation has no time, which the operator always writes, or one from before the device
    was owned.
    """
    if "DeviceTaintRule" in view.state.unread:
        # Since when a device is owned is not known then.
        return
    rules = [rule for _, rule in sorted(view.state.inventory.rules.items()) if owns(rule)]
    for record, claim in view.claims():
        owned = {
            device_path(result): _owned_since(*found, rules)
            for result in results_of(claim)
            if not result.admin_access
            if (found := view.table.published.find(result.driver, result.pool, result.device)) is not None
            if found[0].taints and any(map(is_owned_taint, found[0].taints[found[1]]))
        }
        if not owned or (other := _find_foreign(record, owned.values())) is None:
            continue
        why, is_older = other
        text = f"holds device {listed([*owned])}, which the operator owns: {why}"
        yield _about(Sort.FOREIGN_ALLOCATION, claim, text, _WHEN_IT_ENDS if is_older else _POLICY)


def _owned_since(slice_: Slice, index: int, rules: Sequence[DeviceTaintRule]) -> float | None:
    """Return since when a device is owned, as far as that is known: the first taint counts."""
    times = [
        rule.metadata.creation_timestamp
        for rule in rules
        if touches(rule, *slice_.key) and names_device(rule, slice_.names[index])
    ]
    taints = slice_.device_fields[index].taints
    times += [taint.time_added for taint in taints if is_owned_taint(taint)]
    known = [time for time in map(seconds_of, times) if time is not None]
    return min(known) if known and len(known) == len(times) else None


def _find_foreign(record: ObjectRecord, owned_since: Iterable[float | None]) -> tuple[str, bool] | None:
    """Return by what one knows that it was not the operator who allocated a claim; None if it may have been.

    And whether that was before the device was owned.
    """
    claim: ResourceClaim = record.obj
    assert claim.status.allocation is not None
    writes = [write for write in find_status_writes(record.body) if write.is_of_allocation]
    managers = [write.manager for write in writes]
    # The last write of what is allocated is not older than that.
    times = [write.time for write in writes if write.time is not None]
    allocated = seconds_of(claim.status.allocation.allocation_timestamp)
    latest = max(times, default=None) if allocated is None else allocated
    is_older = latest is not None and any(since is not None and latest < since for since in owned_since)
    if managers:
        if FIELD_MANAGER in managers:
            return None
        return f"{managers[0]} allocated it{f' {_BEFORE}' if is_older else ''}", is_older
    if claim.metadata.labels.get(OPT_OUT_LABEL) == "false":
        return f'it has the label {OPT_OUT_LABEL}: "false", so the operator did not allocate it', False
    if allocated is None:
        return "its allocation has no allocationTimestamp, which the operator always writes", False
    return (f"it was allocated {_BEFORE}", True) if is_older else None


def _find_tolerant(view: _View) -> Iterator[Finding]:
    """Yield the templates, and the claims without allocation, that tolerate our taint without admin access."""
    if view.state.inventory.settlement is None:
        return
    templates = (record.obj for record in view.state.objects.of_kind("ResourceClaimTemplate"))
    specs = [(template, template.spec.spec) for template in templates]
    specs += [
        (claim, claim.spec)
        for _, claim in view.claims()
        if claim.status.allocation is None and not claim.metadata.deletion_timestamp
    ]
    for obj, spec in specs:
        if text := tolerance_problem(spec):
            yield _about(Sort.TOLERATES_OWNED, obj, text, _TOLERATE_OTHERS)


def _find_half_owned(view: _View) -> Iterator[Finding]:
    """Yield the slices of whose devices the operator owns some, and not all that draw on the same counters."""
    # The others may be owned by a rule.
    slices = () if "DeviceTaintRule" in view.state.unread else view.table.published.slices()
    for slice_ in slices:
        if not (half := slice_.half_owned):
            continue
        sets = sorted({name for index, names in counter_sets(slice_) if half >> index & 1 for name in names})
        devices = [slice_.names[index] for index in bits.each(half)]
        text = (
            f"devices {listed(devices)} are owned, but not all that draw on counter set {listed(sets)}, so the "
            "operator allocates none of them"
        )
        action = (
            "own all of these devices, or none: name the whole pool in an AllocationPolicy, or none of it"
        )
        yield _about_slice(Sort.COUNTERS_HALF_OWNED, slice_, text, action)


# --- deletions

_CONTROLLER: Final = "see whether kube-controller-manager runs, which takes such entries away within seconds"


def _find_hanging_deletions(view: _View) -> Iterator[Finding]:
    """Yield the objects whose deletion has been going on for longer than five minutes; of pods those with claims."""
    for kind in AUDIT[Sort.DELETION_HANGS]:
        for record in view.state.objects.of_kind(kind):
            obj = record.obj
            since = seconds_of(obj.metadata.deletion_timestamp)
            if since is None or view.state.now - since <= HANGING_SECONDS:
                continue
            if isinstance(obj, Pod) and not (
                named_claims(obj) or obj.status.extended_resource_claim_status is not None
            ):
                continue
            text, action, others = find_deletion_cause(view.state, obj)
            text = f"has been being deleted for {human_duration(int(view.state.now - since))}: {text}"
            names = obj.metadata.namespace, obj.metadata.name
            yield Finding(Sort.DELETION_HANGS, kind, *names, text, action, _claim_names(others))


_RESERVATION_LEFT: Final = (
    "see whether the operator runs, which takes that entry off; if the reservation was deleted by force, take it off: "
    'kubectl patch resourceclaim NAME --subresource=status --type=merge -p \'{"status":{"reservedFor":null}}\''
)


def find_deletion_cause(state: ClusterState, obj: Any) -> tuple[str, str, Sequence[tuple[str, str]]]:
    """Return what the deletion of an object waits for, what to do, and the other claims that take part."""
    if isinstance(obj, ResourceClaim):
        if obj.status.reserved_for:
            users = [f"{entry.resource.removesuffix('s')} {entry.name}" for entry in obj.status.reserved_for]
            is_gone = state.consumers.find_use(obj) in (Use.ENDED, Use.GONE)
            action = f"no such pod runs: {_CONTROLLER}" if is_gone else "end what uses it"
            if all(map(is_reservation, obj.status.reserved_for)):
                action = _RESERVATION_LEFT
            return f"it is reserved for {listed(users)}", action, ()
        if others := sorted(state.ledger.other_holders(claim_key(obj))):
            text = f"its device is also held by {fault_texts.join_claims(others)}"
            return text, fault_texts.END_BOTH, others
    finalizers = obj.metadata.finalizers
    if isinstance(obj, Pod) and not finalizers and (node := obj.spec.node_name):
        action = f"see whether node {node} is ready; if it is gone for good: kubectl delete pod --force"
        return f"the kubelet of node {node} has not ended it", action, ()
    if not finalizers:
        return "nothing is seen that keeps it", "see whether kube-controller-manager runs", ()
    action = "see whether the controller runs that takes the finalizer off"
    if OWNED_FINALIZER in finalizers:
        action = (
            "see whether the operator runs, which takes it off once no write of its own is under way; if none does, "
            "docs/kinds.md, Uninstall, says how to take it off"
        )
    elif FINALIZER in finalizers:
        action = "see whether kube-controller-manager runs, which clears the claim and takes it off"
    return f"it has the finalizer {listed(finalizers)}", action, ()


# --- gates and nominations of pods


def _find_nobody_deciding(view: _View) -> Iterator[Finding]:
    """Yield that no operator decides, though pods have its gate, or devices are for it alone."""
    state, gated, owners = view.state, view.gated, view.owners
    lease = find_lease(state)
    if not view.is_operator_dead or not (gated or owners):
        return
    waiting = [f"{len(gated)} pod{'s have' if len(gated) > 1 else ' has'} its gate"] if gated else []
    waiting += [f"devices are owned (by {listed(owners)})"] if owners else []
    text = f"{describe_operator(state)}, though {' and '.join(waiting)}"
    action = (
        "see whether the operator runs (with leader_election off it has no Lease); if it is gone for good, take the "
        "gates off (docs/pods.md), and give the devices back (docs/kinds.md, Uninstall)"
    )
    namespace = "" if lease is None else lease.namespace
    related = tuple([f"Pod {pod.metadata.namespace}/{pod.metadata.name}" for pod in gated])
    yield Finding(Sort.NOBODY_DECIDES, "Lease", namespace, LEASE_NAME, text, action, related)


_RELEASE: Final = (
    "see whether the operator runs with gates on; if it does not, take the gate off (docs/pods.md)"
)


def _find_gates_left_behind(view: _View) -> Iterator[Finding]:
    """Yield the pods that have the gate for nothing, or are nominated for a node that they cannot go to."""
    for record in view.state.objects.of_kind("Pod"):
        pod: Pod = record.obj
        if is_over(pod) or pod.spec.node_name:
            continue
        keys = [(pod.metadata.namespace, name) for name in dict.fromkeys(named_claims(pod))]
        claims = [claim for key in keys if (claim := view.state.find_claim(key)) is not None]
        problem, action = _gate_problem(view, pod, claims, are_all=len(claims) == len(keys)), _RELEASE
        if not problem:
            problem = _nomination_problem(view.state, pod, claims)
            action = (
                "take the nomination back, as it holds cpu and memory of the node: kubectl patch pod "
                f"{pod.metadata.name} -n {pod.metadata.namespace} --subresource=status --type=merge "
                """-p '{"status":{"nominatedNodeName":""}}'"""
            )
        if problem:
            yield _about(Sort.GATE_LEFT_BEHIND, pod, problem, action, claims)


def _gate_problem(view: _View, pod: Pod, claims: Sequence[ResourceClaim], *, are_all: bool) -> str:
    """Return why nobody will take the gate off a pod, or nothing. It is taken off last of several gates."""
    gates, now = [gate.name for gate in pod.spec.scheduling_gates], view.state.now
    since = seconds_of(pod.metadata.creation_timestamp)
    if gates != [GATE] or not are_all or "ResourceClaim" in view.state.unread:
        return ""
    if since is None or now - since <= GATED_SECONDS:
        return ""
    text = f"has the scheduling gate {GATE} for {human_duration(int(now - since))}, and "
    if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
        return f"{text}names no claim"
    allocations = [claim.status.allocation for claim in claims]
    times = [None if each is None else seconds_of(each.allocation_timestamp) for each in allocations]
    if claims and all(time is not None and now - time > GATED_SECONDS for time in times):
        return f"{text}all its claims are allocated"
    open_claims = [claim for claim in claims if claim.status.allocation is None]
    created = [seconds_of(claim.metadata.creation_timestamp) for claim in open_claims]
    if not open_claims or any(time is None or now - time <= GATED_SECONDS for time in created):
        return ""
    if view.is_operator_dead:
        # What was written on them once says nothing of now.
        return f"{text}{describe_operator(view.state)}"
    if any(PENDING_ANNOTATION in claim.metadata.annotations for claim in open_claims):
        return ""
    return f"{text}no operator says on its claims what they wait for"


def _nomination_problem(state: ClusterState, pod: Pod, claims: Sequence[ResourceClaim]) -> str:
    """Return why a pod cannot go to the node that it is nominated for, or nothing."""
    name = pod.status.nominated_node_name
    if not name or not state.has_all("Node"):
        return ""
    text, node = f"is nominated for node {name}", state.inventory.nodes.get(name)
    if node is None:
        return f"{text}, which is gone"
    elsewhere = [
        claim.metadata.name
        for claim in claims
        if (allocation := claim.status.allocation) is not None and not can_use(allocation, node)
    ]
    if elsewhere:
        return f"{text}, and cannot use claim {listed(elsewhere)} there"
    open_claims = [claim.metadata.name for claim in claims if claim.status.allocation is None]
    if open_claims and any(gate.name == GATE for gate in pod.spec.scheduling_gates):
        return f"{text} and gated, and claim {listed(open_claims)} has no allocation"
    return ""


# --- what is published


def _find_incomplete_pools(view: _View) -> Iterator[Finding]:
    """Yield the pools whose newest generation is not complete or contradicts itself, at their first slice."""
    for pool in view.table.published.pools.values():
        verdict, first = pool.judgement.verdict, pool.slices[0] if pool.slices else None
        if verdict is Verdict.COMPLETE or first is None:
            continue
        ledger = view.state.ledger
        held = {*ledger.held(pool.key), *ledger.shared(pool.key)}
        text = f"pool {pool.path} is {verdict.value}: {pool.judgement.reason}; "
        text += f"{len(held)} of its devices are allocated" if held else "none of its devices is allocated"
        if verdict is not Verdict.INCOMPLETE:
            action = "the driver contradicts itself: give each device of the pool its own name, and counters that exist"
        elif len(pool.slices) > first.slice_count:
            action = describe_surplus(view.state.inventory.pools[pool.key])
        else:
            where = f" on node {first.nodes.node_name}" if first.nodes.node_name else ""
            action = f"see whether the driver {first.driver} runs{where}: it has not published all slices"
        yield _about_slice(Sort.POOL_NOT_COMPLETE, first, text, action)


def _find_slices_without_node(view: _View) -> Iterator[Finding]:
    """Yield the slices that are for nodes which are gone, or some of whose devices are."""
    if not view.state.has_all("Node"):
        return
    nodes = {record.obj.metadata.name for record in view.state.objects.of_kind("Node")}
    for pool in view.state.inventory.pools.values():
        for slice_ in pool.slices.values():
            named = {slice_.nodes.node_name}
            action = f"if the node does not come back: kubectl delete resourceslice {slice_.name}"
            if slice_.per_device_nodes:
                named = {fields.nodes.node_name for fields in slice_.device_fields}
                action = f"have the driver {slice_.driver} publish devices of nodes that exist"
            if gone := sorted(name for name in named if name is not None and name not in nodes):
                yield _about_slice(Sort.SLICE_WITHOUT_NODE, slice_, f"is for node {_are(gone)}", action)


def _find_nodes_without_devices(view: _View) -> Iterator[Finding]:
    """Yield the nodes that can be used and lack devices that others of their kind publish."""
    if not view.state.has_all("Node"):
        return
    for item in find_nodes_without_devices(view.state).items:
        if item.is_certain and not item.condition:
            text = f"publishes no devices of driver {item.driver}: {item.why}"
            action = "see whether the pod of the driver runs there, and its log"
            yield Finding(Sort.NODE_WITHOUT_DEVICES, "Node", "", item.node, text, action)


def _find_served_twice(view: _View) -> Iterator[Finding]:
    """Yield the nodes that offer, by a device plugin, a resource that a class serves with devices of the same node."""
    state = view.state
    resources = [
        (resource, name)
        for name, item in sorted(state.inventory.classes.items())
        for resource in (item.spec.extended_resource_name, CLASS_PREFIX + name)
        if resource
    ]
    for record in state.objects.of_kind("Node"):
        node: Node = record.obj
        allocatable = node.status.allocatable
        for resource, name in resources:
            if resource not in allocatable or not _is_positive(allocatable[resource]):
                continue
            here = view.on_nodes.get(node.metadata.name, ())
            count = sum((view.table.classes.find(name, each) & mask).bit_count() for each, mask in here)
            text = (
                f"offers {allocatable[resource]} {resource} by a device plugin, and publishes {count} devices of "
                f"DeviceClass {name}, which serves the same resource: one device may be given to two pods"
            )
            action = (
                "run the device plugin or the DRA driver on this node, not both; the kubelet offers what a plugin "
                "had for five minutes after it left"
            )
            if count:
                related = (f"DeviceClass {name}",)
                yield Finding(Sort.SERVED_TWICE, "Node", "", node.metadata.name, text, action, related)


def _is_positive(amount: object) -> bool:
    try:
        return read_quantity(amount).nano > 0
    except ValueError:
        return False


def _find_overdue_bindings(view: _View) -> Iterator[Finding]:
    """Yield the claims for whose pods the devices were not bound in the time that kube-scheduler gives them."""
    now = view.state.now
    action = "see whether kube-scheduler runs, which decides such a claim anew, and the log of the driver"
    for _, claim in view.claims():
        allocation = claim.status.allocation
        if allocation is None or view.state.consumers.find_use(claim) is not Use.WAITING:
            continue
        age = age_of(allocation.allocation_timestamp, now)
        if age is not None and age > BINDING_SECONDS and (texts := [*find_unbound(claim, now)]):
            yield _about(Sort.BINDING_OVERDUE, claim, "; ".join(texts), action)


def _find_unknown_requests(view: _View) -> Iterator[Finding]:
    """Yield the pods that have a node and name requests which their claims lack."""
    state = view.state
    action = (
        "name a request of the claim, and make the pod anew; of an extended resource see who wrote its status"
    )
    for record in state.objects.of_kind("Pod"):
        if is_over(record.obj) or not record.obj.spec.node_name:
            continue
        of_containers = find_unknown_entries(state.objects, record)
        for text in (*of_containers, *find_unknown_mappings(record, state.find_claim)):
            yield _about(Sort.UNKNOWN_REQUEST, record.obj, text, action)


# --- the project's own kinds


_STUCK: Final = (
    ("AllocationPolicy", "Fenced", "False", 0, "do that; without the policy install the component ownership"),
    ("AllocationPolicy", "Settled", "False", HANGING_SECONDS, "see what Fenced says of its rules"),
    ("AllocationPolicy", "Releasing", "True", UNRESERVED_SECONDS, "end these claims"),
    ("DeviceReservation", "Lost", "True", 0, "delete the claim, or set spec.ifLost to Replace"),
    ("DeviceReservation", "Ready", "False", HANGING_SECONDS, "free what it asks for, or delete the reservation"),
    ("DeviceMaintenance", "Blocked", "True", HANGING_SECONDS, "finish the other one, or free what must still fit"),
    ("DeviceMaintenance", "Drained", "False", UNRESERVED_SECONDS, "end what holds the card"),
    ("DeviceMaintenance", "Resolved", "False", HANGING_SECONDS, "correct the name, or see whether the driver runs"),
)  # fmt: skip
"""What of an object waits for people: kind, condition, its status, for how many seconds, and what to do."""
_ENDED: Final = ("Expiring", "Expired")


def _find_stuck_objects(view: _View) -> Iterator[Finding]:
    """Yield the objects of the project's own kinds that wait for something which does not come by itself."""
    state = view.state
    for (kind, namespace, name), body in sorted(state.objects.bodies.items()):
        if kind not in OWN_NAMES:
            continue
        metadata, status = part(body, "metadata"), part(body, "status")
        age = age_of(metadata.get("creationTimestamp"), state.now)
        if not status and age is not None and age > HANGING_SECONDS:
            text = f"nobody has looked at it for {human_duration(age)}"
            action = "see whether the operator runs and has the component of this kind (docs/kinds.md)"
            yield Finding(Sort.OBJECT_STUCK, kind, namespace, name, text, action)
        for condition in status.get("conditions") or ():
            since = age_of(condition.get("lastTransitionTime"), state.now)
            for of_kind, sort, value, seconds, action in _STUCK:
                if (
                    (kind, condition.get("type"), condition.get("status")) == (of_kind, sort, value)
                    and condition.get("reason") not in _ENDED
                    and since is not None
                    and since >= seconds
                ):
                    text = f"{sort} is {value} for {human_duration(since)}: {condition.get('message')}"
                    yield Finding(Sort.OBJECT_STUCK, kind, namespace, name, text, action)


_CHECKS: Final[tuple[Callable[[_View], Iterator[Finding]], ...]] = (
    _find_collisions,
    _find_overdrawn,
    _find_broken,
    _find_lost_consumers,
    _find_hanging_deletions,
    _find_incomplete_pools,
    _find_slices_without_node,
    _find_nodes_without_devices,
    _find_served_twice,
    _find_overdue_bindings,
    _find_unknown_requests,
    _find_nobody_deciding,
    _find_gates_left_behind,
    _find_foreign_allocations,
    _find_half_owned,
    _find_tolerant,
    _find_unreserved,
    _find_stuck_objects,
)
