"""The texts of log lines and Events, each written once.

People search logs, alerts and Events by these words, so docs/operator.md lists them. A log line is one of the texts
below and its facts as fields; an Event is a reason in CamelCase and one sentence. What is logged of defects of our own
stands in `cluster.faults`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from dra_operator.api.names import GATE, OPT_OUT_LABEL
from dra_operator.api.quantity import format_beside
from dra_operator.api.text import listed, shown
from dra_operator.api.types import AllocationResult, ResourceClaim
from dra_operator.ledger import Breakage, Cause, Overcommitment, Resource

if TYPE_CHECKING:
    # Commands that need no cluster use these texts, and must not load a client.
    from dra_operator.cluster.session import ApiError

# Log texts: the life of the process.
LISTENING = "listening"
CANNOT_LISTEN = "cannot listen"
NOT_SOUND = "self-check not passed"
STARTING = "starting"
STOPPING = "stopping"
STOPPED = "stopped"
LEADING = "leading"
STANDING_BY = "standing by"
LEASE_REFUSED = "lease refused"
LEASE_LOST = "lease lost"
WENT_BACK = "lease went back"
CONNECTED = "connected"
API_UNAVAILABLE = "API server not available"
NOT_SERVED = "kind not served"
SERVED_ANEW = "kind served in another version"
WATCH_INTERRUPTED = "watch interrupted"
WATCHING_AGAIN = "watching again"
SYNCED = "all kinds listed, allocating"
FORBIDDEN = "forbidden"
PERMITTED = "permitted again"
EVENTS_WAIT = "events wait for the API server"
EVENTS_GO_ON = "events sent again"

# Log texts: decisions and writes.
ALLOCATED = "allocated"
PENDING = "pending"
DEALLOCATED = "deallocated"
RESERVED = "claim reserved"
WITHDRAWN = "allocation taken back"
HANDED_BACK = "handed back"
MOVING = "allocation is broken and is taken back"
WRITE_CONFLICT = "write conflict"
WRITE_REFUSED = "write refused"
WRITE_UNACCEPTED = "write not accepted"
FENCING = "earlier writes may be under way"
FENCED = "earlier writes fenced"
NOT_FENCED = "earlier writes not fenced in time"
PROBLEM = "object has a problem"
DRAINED = "writes left unfinished"
PASS_LATE = "pass left unfinished"  # noqa: S105

LET_GO = "gate taken off"

# Log texts: devices that are ours.
OWNERSHIP_FENCE = "policy for owned devices"
OWNERSHIP_UNFIT = "policy for owned devices does not fit"
OWNERSHIP_SETTLED = "owned devices settled"
RULE_LET_GO = "rule let go"
RULE_NOT_WRITTEN = "rule not written"
FOREIGN = "owned device allocated by another"
OWNS_NO_DEVICE = "owns no device"

# Reasons of Events that are not a reason of docs/reasons.md.
EVENT_ALLOCATED = "Allocated"
EVENT_COLLISION = "DeviceAllocatedTwice"
EVENT_FOREIGN = "OwnedDeviceAllocated"
EVENT_OWNS_NOTHING = "OwnsNoDevice"
EVENT_OVERCOMMITTED = "DeviceOvercommitted"
EVENT_BROKEN = "AllocationBroken"
EVENT_INVALID = "InvalidObject"
EVENT_FORBIDDEN = "Forbidden"
EVENT_REFUSED = "AllocationRefused"
EVENT_INTERNAL = "InternalError"
EVENT_GATE_REMOVED = "GateRemoved"
EVENT_CLAIM_NOT_GATED = "ClaimNotGated"
EVENT_LEADING = "LeaderElection"
EVENT_HANDED_BACK = "HandedBack"


def devices(allocation: AllocationResult) -> str:
    """Return the devices of an allocation, as `driver/pool/device`, each with the request it serves."""
    return ", ".join(
        f"{result.driver}/{result.pool}/{result.device} for {result.request}"
        for result in allocation.devices.results
    )


def allocated(allocation: AllocationResult, node: str) -> str:
    """Return the sentence of the Event of an allocated claim: where, and then what, of which many may be cut."""
    chosen = devices(allocation) or "no device"
    if allocation.node_selector is None:
        return f"allocated, usable on {everywhere(allocation)}: {chosen}"
    return f"allocated on node {node}: {chosen}" if node else f"allocated {chosen}"


def gate_removed(why: str) -> str:
    """Return the sentence of the Event of a pod that is let go without a decision."""
    return f"scheduling gate {GATE} taken off: {why}, so kube-scheduler decides about the pod"


def pod_refused(kind: str, why: str) -> str:
    """Return why a pod stays gated, to which something cannot be written."""
    what = f"the removal of the scheduling gate {GATE}" if kind == "gate" else "status.nominatedNodeName"
    return f"the API server does not accept {what}: {why}"


def not_gated(claim: ResourceClaim, pods: Sequence[str]) -> str:
    """Return why the claim of a gated pod is not decided with it: other pods name it, or it is reserved for others."""
    name = claim.metadata.name
    if not pods:
        return f'claim "{name}" is reserved for others: {shown(claim.status.reserved_for[0].name)}'
    return (
        f'claim "{name}" is also named by {listed([f"pod {pod}" for pod in pods])}, not all of which have the '
        f"scheduling gate {GATE}: kube-scheduler allocates it, and this pod goes on then; or gate all that share it"
    )


def template_in_vain(problem: str) -> str:
    """Return the sentence of the Event of a template of which no claim could be allocated."""
    return f"claims made of this template wait: {problem}"


def fitting(node: str, seconds: float) -> str:
    """Return the sentence of the Event of a pod that nothing keeps from a node that is known here."""
    return (
        f"its claims have fitted for {seconds:.0f} s, now on node {node}, and the scheduler has not placed it; pod "
        "affinity, topology spread, preemption, and volumes that are not bound yet, are not looked at here"
    )


def handed_back(why: str) -> str:
    """Return the sentence of the Event of a pod whose claims were taken back; `why` is what kube-scheduler says."""
    return f"handed back: {why.rstrip('. ')}; delete the pod to try again"


def everywhere(allocation: AllocationResult) -> str:
    """Return the nodes on which pods can use an allocation without a node selector."""
    return "every node that can skip node operations" if allocation.skips_node_operations else "every node"


def allocated_twice(device: tuple[str, str, str], owners: Sequence[tuple[str, str]]) -> str:
    """Return the line about a device (driver, pool and device) that several claims hold, for who may know of all."""
    return f"device {'/'.join(device)} is allocated to {_all(owners)}; {END_BOTH}"


def collision(
    device: tuple[str, str, str],
    claim: tuple[str, str],
    others: Sequence[tuple[str, str]],
    *,
    waits: bool = False,
) -> str:
    """Return the sentence of the Event of a claim that holds the same device as others.

    `device` is driver, pool and device; claims are namespace and name. `waits`: it is being deleted, and not cleared.
    """
    text = f"device {'/'.join(device)} is allocated to {'/'.join(claim)} and to {_known(others, claim[0])}; "
    if waits:
        return (
            f"{text}this claim is being deleted and keeps its allocation until no other claim has the device: "
            "kube-scheduler would give it to the next pod"
        )
    return text + END_BOTH


def overcommitted(case: Overcommitment, namespace: str) -> str:
    """Return the sentence of the Events of something of which more is allocated than there is.

    On claims it names no claim of another namespace than theirs; `namespace` is empty for slices.
    """
    if case.by_claims:
        return f"{too_much(case, namespace)}; two allocators serve this driver; nothing is taken back; {MAKE_ROOM}"
    if not case.parts:
        return f"{too_much(case)}; {room_for(case)}"
    return (
        f"{too_much(case)}; the driver publishes less than before, or another allocator allocated more before this "
        f"operator started; nothing is taken back; {MAKE_ROOM}"
    )


def too_much(case: Overcommitment, namespace: str = "") -> str:
    """Return of what more is allocated than there is, how much, and to whom; claims of other namespaces by number."""
    path = "/".join(case.pool)
    if case.resource is Resource.COUNTER:
        what = f"counter {case.owner}/{case.name} of pool {path}"
    else:
        what = f"capacity {case.name} of device {path}/{case.owner}"
    node = f" on node {case.node}" if case.node else ""
    total, used = format_beside(case.total, case.used)
    if not case.parts:
        # The API server admits amounts below zero.
        return f"{what}{node}: {total} published, nothing allocated"
    owners = listed(
        [
            f"{_known(part.claims, namespace)} ({format_beside(part.amount, case.total)[0]})"
            for part in case.parts
        ]
    )
    return f"{what}{node}: {total} published, {used} allocated, to {owners}"


def room_for(case: Overcommitment) -> str:
    """Return what to do about it."""
    return MAKE_ROOM if case.parts else "the driver must not publish less than nothing"


def _all(claims: Sequence[tuple[str, str]]) -> str:
    return " and ".join(f"{namespace}/{name}" for namespace, name in claims)


def _known(claims: Collection[tuple[str, str]], namespace: str) -> str:
    """Return some claims by name, but those of other namespaces than this one by number; empty: all by name."""
    known = sorted(claim for claim in claims if not namespace or claim[0] == namespace)
    texts = [_all([claim]) for claim in known]
    if foreign := len(claims) - len(known):
        texts.append(
            "a claim of another namespace" if foreign == 1 else f"{foreign} claims of other namespaces"
        )
    return " and ".join(texts)


def broken(breakages: Sequence[Breakage]) -> str:
    """Return the sentence about an allocation whose devices cannot be used any more."""
    return f"{_breakages(breakages)}; {DELETE_CLAIM}"


def broken_in_use(breakages: Sequence[Breakage]) -> str:
    """Return that sentence for a claim that pods name, with what becomes of them."""
    causes = {item.cause for item in breakages}
    if Cause.NODE_GONE in causes:
        fate = "kube-controller-manager deletes its pods that were on the node"
    elif Cause.TAINTED in causes:
        fate = "kube-controller-manager evicts its pods that have a node"
    else:
        fate = "nothing evicts its pods"
    return f"{_breakages(breakages)}; {fate}; {DELETE_CLAIM}"


def broken_unused(breakages: Sequence[Breakage]) -> str:
    """Return that sentence for a claim that no pod names, whose allocation is ours to take back."""
    is_for_sure = any(item.cause is not Cause.DEVICE_MISSING for item in breakages)
    when = "" if is_for_sure else " when that has lasted for five minutes"
    return f"{_breakages(breakages)}; no pod uses this claim, so it gets other devices{when}"


def broken_for_pod(claim: str, breakages: Sequence[Breakage], *, is_reserved: bool) -> str:
    """Return the sentence for a pod that names such a claim; `is_reserved` for this pod, as it has a node."""
    causes = {item.cause for item in breakages}
    if not is_reserved:
        fate = (
            "nothing evicts a pod without a node: delete this one, and then the claim, if it is still there"
        )
    elif Cause.NODE_GONE in causes:
        fate = "kube-controller-manager deletes this pod"
    elif Cause.TAINTED in causes:
        fate = "kube-controller-manager evicts this pod"
    else:
        fate = "nothing evicts this pod: delete it"
    return f'claim "{claim}": {_breakages(breakages)}; {fate}'


def _breakages(breakages: Sequence[Breakage]) -> str:
    return listed([_breakage(item) for item in breakages])


def _breakage(item: Breakage) -> str:
    if item.device is None:
        return f"node {item.node} is gone"
    device = f"device {'/'.join(item.device)}"
    if item.taint is None:
        return f"{device} is not in generation {item.generation} of its pool, which is complete"
    value = f"={item.taint.value}" if item.taint.value else ""
    rule = f" of DeviceTaintRule {item.rule}" if item.rule else ""
    return f"{device} has the taint {item.taint.key}{value}:{item.taint.effect}{rule}, which is not tolerated"


def odd_label(labels: Mapping[str, str]) -> str | None:
    """Return what is wrong with the label that keeps the operator away from a claim; None if nothing is."""
    value = labels.get(OPT_OUT_LABEL)
    if value in (None, "true", "false"):
        return None
    return f'label {OPT_OUT_LABEL} is {shown(value)}, neither "false" nor "true": the claim is allocated as without it'


def leading(identity: str) -> str:
    """Return the sentence of the Event of a change of leader, in the words of Kubernetes' own components."""
    return f"{identity} became leader"


def standing_by(lease: str, holder: str) -> str:
    """Return why an operator does not decide: another one holds the Lease."""
    return f"standing by: {holder or 'nobody yet'} holds the Lease {lease}"


def no_namespace(namespace: str) -> str:
    """Return why an operator ends that cannot have a Lease, and what to do."""
    return (
        f'there is no namespace "{namespace}" for the Lease; create it: kubectl create namespace {namespace}'
    )


def overdue(lease: str, seconds: float, why: str) -> str:
    """Return why an operator that decides does not write."""
    return (
        f"the Lease {lease} could not be renewed ({why}); nothing has been written for {seconds:.0f} s, "
        "so that another operator may take over"
    )


def defect(error: Exception) -> str:
    """Return what the Event of a claim says that met a defect of ours."""
    return f"the operator has a defect: {type(error).__name__}: {error}"


END_BOTH = (
    "two allocators serve this driver; nothing is taken back: let no new pod start there, end what uses any of these "
    "claims, and then restart kube-scheduler (docs/operator.md, Two holders)"
)
"""What to do where several claims hold a device, in this order."""
DELETE_CLAIM = "end what uses this claim, and delete it: a new claim gets other devices"
"""What to do about an allocation that is broken."""
REPLACED = (
    "the policy dra-operator-owned was deleted and installed again, which kube-apiserver applies to new rules only "
    "after its restart: restart it, and then this operator"
)
"""Why a policy protects nothing that looks as it should."""
OWNS_NOTHING = (
    "owns no device, so it allocates none: take some with dra-operator own --driver DRIVER --pool POOL, or set devices "
    "to all where nobody else allocates"
)
"""What the operator says as long as no taint makes a device its own."""


def allocated_by_another(device: str, claim: str) -> str:
    """Return the sentence of the Event of a rule on whose devices somebody else has allocated one."""
    return (
        f"device {device} was allocated to claim {claim} by somebody else, although it is owned; see whether the "
        "policy dra-operator-owned is installed, and whom it exempts"
    )


def not_guaranteed(pools: str, why: str) -> str:
    """Return what is said of pools that no policy protects."""
    return f"not guaranteed that nobody else allocates owned devices of {pools}: {why or 'no policy protects them'}"


def refuses_all(policy: str) -> str:
    """Return what is said of the policy on an API server that does not serve its parameters."""
    return (
        f"ValidatingAdmissionPolicy {policy} needs DeviceTaintRules, which this API server does not serve, so it "
        "refuses every allocation: delete it, or replace it by the output of dra-operator own --print-policy"
    )


def not_exempt(policy: str, username: str, own: str) -> str:
    """Return what is said of a policy that keeps this operator itself from owned devices."""
    return (
        f"ValidatingAdmissionPolicy {policy} lets only {username} allocate owned devices, and this operator is {own}: "
        "run it as that user, or change the policy"
    )


MAKE_ROOM = "delete claims until the others fit, or have the driver publish more"
"""What to do where more is allocated than there is, and slices are the cause."""
RESTORED = "an older version of it is stored than before: etcd was restored; what is known may not be stored any more"
"""Why an operator ends whose Lease went back."""
NOT_REACHED = "the claim was allocated before such a device was reached; kube-scheduler would refuse it"
"""What a selector that fails on some devices comes to, of a claim that is allocated."""
NOT_CONNECTED = "not connected yet"
UNREADABLE = "credentials cannot be read again; the log says why"
"""What may be behind requests that are refused. Anybody may ask /readyz, and a plugin complain of anything."""


def forbidden(error: "ApiError") -> str:
    """Return the sentence for a request that the API server does not permit."""
    sentence = f"not permitted to {error.verb} {error.resource}"
    return f"{sentence}: {error.message}" if error.message else sentence
