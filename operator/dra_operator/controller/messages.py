"""The texts of log lines and Events, each written once.

People search logs, alerts and Events by these words, so docs/operator.md lists them. A log line is one of the texts
below and its facts as fields; an Event is a reason in CamelCase and one sentence. What is logged of defects of our own
stands in `cluster.faults`.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dra_operator.api.names import GATE
from dra_operator.api.text import listed
from dra_operator.api.types import AllocationResult
from dra_operator.ledger import Breakage, Cause, Overcommitment
from dra_operator.pods import gate
from dra_operator.questions.fault_texts import (
    DELETE_CLAIM,
    END_BOTH,
    MAKE_ROOM,
    describe_breakages,
    everywhere,
    known_claims,
    room_for,
    too_much,
)

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
OTHER_RULES = "API server of another version"
WATCH_INTERRUPTED = "watch interrupted"
WATCHING_AGAIN = "watching again"
SYNCED = "all kinds listed, allocating"
FORBIDDEN = "forbidden"
PERMITTED = "permitted again"

# Log texts: decisions and writes.
ALLOCATED = "allocated"
PENDING = "pending"
DEALLOCATED = "deallocated"
RESERVED = "claim reserved"
WITHDRAWN = "allocation taken back"
HANDED_BACK = "handed back"
NOT_HANDED_BACK = "not handed back"
WRITE_CONFLICT = "write conflict"
WRITE_REFUSED = "write refused"
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
OWNERSHIP_BREACHED = "owned devices not protected"
RULE_UNKNOWN = "rule not known to the API server"
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
EVENT_CLAIM_NOT_GATED = gate.CLAIM_NOT_GATED
EVENT_EARLIER_WRITES = "EarlierWrites"
CLAIM_FENCED = "an operator that ended may have sent a write to this claim; it fails now, and the pod goes on"
EVENT_LEADING = "LeaderElection"
EVENT_HANDED_BACK = gate.HANDED_BACK
EVENT_NOT_HANDED_BACK = "NotHandedBack"
EVENT_GANG_INCOMPLETE = "GangIncomplete"


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


def gang_broken(pod: str, size: int) -> str:
    """Return what heads the message about a pod that was handed back while others of its gang run."""
    return f"gang broken: {pod} of {size}: "


def earlier_writes(seconds: float) -> str:
    """Return why a pod stays gated that an earlier operator may still be writing to."""
    return (
        "an earlier operator may still be writing to this pod or its claims; the gate stays on until that cannot be "
        f"stored any more, {seconds:.0f} s from the start of this operator at most"
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


def not_handed_back(why: str, claims: Sequence[str]) -> str:
    """Return the sentence of the Event of a pod that shares its claims; `why` is what kube-scheduler says."""
    stay = "stays" if len(claims) == 1 else "stay"
    named = listed([f'claim "{name}"' for name in claims])
    return f"not handed back: {why.rstrip('. ')}; {named} {stay} until the pods that share it are deleted"


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
    text = f"device {'/'.join(device)} is allocated to {'/'.join(claim)} and to {known_claims(others, claim[0])}; "
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


def broken_in_use(breakages: Sequence[Breakage]) -> str:
    """Return that sentence for a claim that pods name, with what becomes of them."""
    causes = {item.cause for item in breakages}
    if Cause.NODE_GONE in causes:
        fate = "kube-controller-manager deletes its pods that were on the node"
    elif Cause.TAINTED in causes:
        fate = "kube-controller-manager evicts its pods that have a node"
    else:
        fate = "nothing evicts its pods"
    return f"{describe_breakages(breakages)}; {fate}; {DELETE_CLAIM}"


def broken_in_reservation(breakages: Sequence[Breakage], reservation: str) -> str:
    """Return that sentence for a claim that a reservation holds, and no pod names."""
    return f"{describe_breakages(breakages)}; kept or replaced as spec.ifLost of DeviceReservation {reservation} says"


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
    return f'claim "{claim}": {describe_breakages(breakages)}; {fate}'


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


OWNS_NOTHING = (
    "owns no device, so it allocates none: name some in an AllocationPolicy (docs/kinds.md), or set devices to all "
    "where nobody else allocates"
)
"""What the operator says as long as no taint makes a device its own."""


ALL_DEVICES = "allocates all devices"
BESIDE_SCHEDULER = (
    "kube-scheduler allocates the same devices for pods, and each gives out what the other is about to: devices get "
    "two holders, so use --devices all only where no pod of this cluster names a claim, or asks for an extended "
    "resource of a class; otherwise name its devices in an AllocationPolicy"
)
"""What `--devices all` means, which is said at the start."""


def held_twice(devices: Sequence[str]) -> str:
    """Return what is said of devices that more than one claim holds."""
    return f"more than one claim holds {listed(sorted(devices))}: the Events DeviceAllocatedTwice say which claims do"


def allocated_by_another(device: str, claim: str, quiet: float | None) -> str:
    """Return the sentence of the Event of a rule on whose devices somebody else has allocated one.

    `quiet` is for how many seconds no owned device is allocated then, or None.
    """
    said = (
        f"device {device} was allocated to claim {claim} by somebody else, although it is owned; see whether the "
        "policy dra-operator-owned is installed, and whom it exempts, or give the devices back: docs/operator.md"
    )
    return (
        said
        if quiet is None
        else f"{said}; no owned device is allocated before nobody else has for {quiet:g} s"
    )


def breached(device: str, quiet: float, left: float) -> str:
    """Return what is said after somebody else has allocated a device that the policy protects; times are in seconds."""
    return (
        f"somebody else has allocated {device} although the policy dra-operator-owned protects it; owned devices are "
        f"allocated again when that has not happened for {quiet:g} s, in {left:.0f} s at the earliest: "
        "see whom the policy exempts, and restart kube-apiserver if the policy was deleted and installed again"
    )


def unknown_rules(rules: Mapping[str, str]) -> str:
    """Return what is said of rules that the API server does not know, from the answer about each."""
    reasons = listed(sorted(set(rules.values())))
    names = listed(sorted(rules))
    return f"the policy dra-operator-owned does not protect devices of DeviceTaintRule {names}: {reasons}"


NOT_KNOWN = (
    "kube-apiserver does not follow new rules, as after the policy was deleted and installed again: "
    "restart kube-apiserver"
)
"""Why a policy does not protect what a rule owns."""


def not_asked(error: str) -> str:
    """Return why it is not known whether the API server knows a rule."""
    return f"a dry run does not show whether kube-apiserver knows the rule: {error}"


def not_guaranteed(pools: str, why: str, quiet: float, waiting: str) -> str:
    """Return what is said of pools that no policy protects; `waiting` are those that wait for `quiet` seconds."""
    said = f"not guaranteed that nobody else allocates owned devices of {pools}: {why or 'no policy protects them'}"
    if not waiting:
        return said
    return (
        f"{said}; those of {waiting} are not allocated before nobody else has allocated there for {quiet:g} s"
    )


def refuses_all(policy: str) -> str:
    """Return what is said of the policy on an API server that does not serve its parameters."""
    return (
        f"ValidatingAdmissionPolicy {policy} needs DeviceTaintRules, which this API server does not serve, so it "
        "refuses every allocation: delete it, or replace it by manifests/components/ownership/pools.yaml"
    )


def not_exempt(policy: str, username: str, own: str) -> str:
    """Return what is said of a policy that keeps this operator itself from owned devices."""
    return (
        f"ValidatingAdmissionPolicy {policy} lets only {username} allocate owned devices, and this operator is {own}: "
        "run it as that user, or change the policy"
    )


RESTORED = "an older version of it is stored than before: etcd was restored; what is known may not be stored any more"
"""Why an operator ends whose Lease went back."""
NOT_CONNECTED = "not connected yet"
UNREADABLE = "credentials cannot be read again; the log says why"
"""What may be behind requests that are refused. Anybody may ask /readyz, and a plugin complain of anything."""


def forbidden(error: "ApiError") -> str:
    """Return the sentence for a request that the API server does not permit."""
    sentence = f"not permitted to {error.verb} {error.resource}"
    return f"{sentence}: {error.message}" if error.message else sentence
