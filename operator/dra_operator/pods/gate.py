"""The scheduling gate by which a pod is ours until its devices are decided, and what of a pod matters to that.

A gate can be taken off at any time and added only at creation, and kube-scheduler does not look at a pod that has one:
so the gate is what hands a pod over. Source: core/v1 Pod, `spec.schedulingGates`; kube-scheduler's plugin
SchedulingGates.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

from dra_operator.api.core import Pod
from dra_operator.api.managed_fields import is_nominated_by_operator
from dra_operator.api.names import (
    CLAIMS_LABEL,
    DEFAULT_SCHEDULER,
    ENDED_PHASES,
    GATE,
    LET_GO_ANNOTATION,
    MANAGED,
    OPT_OUT_LABEL,
)
from dra_operator.api.text import listed, seconds_of, timestamp
from dra_operator.api.types import ResourceClaim
from dra_operator.pods.field_reader import FieldReader
from dra_operator.pods.objects import ObjectRecord, ObjectSet

Key: TypeAlias = tuple[str, str]
"""Namespace and name."""
CLAIM_NOT_GATED: Final = "ClaimNotGated"
"""The reason of a gated pod that shares a claim with pods which are not."""
HANDED_BACK: Final = "HandedBack"
"""The reason of a pod that was let go, and that kube-scheduler cannot place."""
_NOT_LOOKED_AT: Final = ("pod affinity rules", "anti-affinity rules", "topology spread constraints")
"""What kube-scheduler says of nodes that suit a pod by all that is looked at here."""


@dataclass(frozen=True, slots=True)
class LetGo:
    """The node that a pod was decided for, and the Unix time at which its gate came off."""

    node: str
    time: float


@dataclass(frozen=True, slots=True)
class SchedulingPod:
    """A pod that names claims, or has our gate, as far as its gate, its order and its hand-over depend on it.

    `creation` is as on the wire. `claims` are the names of the claims that it uses, those made of templates as far as
    they are made; `missing` are the entries of `spec.resourceClaims` whose claim has no name yet. `unschedulable` is
    what kube-scheduler says if it found no node for the pod, else None.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    priority: int
    creation: str
    gates: tuple[str, ...]
    node: str
    nominated_node: str
    claims: frozenset[str]
    missing: frozenset[str]
    unschedulable: str | None
    is_finished: bool
    is_deleted: bool
    is_nominated_by_operator: bool = False
    """Whether the nomination that the pod has was set by an operator, which an API server records."""
    let_go: LetGo | None = None
    """Set if an operator took the gate off after a decision."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def version(self) -> tuple[str, str, str, str]:
        """What each write names: namespace, name, uid and resourceVersion."""
        return self.namespace, self.name, self.uid, self.resource_version

    @property
    def is_gated(self) -> bool:
        """Whether our gate keeps the pod from kube-scheduler."""
        return GATE in self.gates

    @property
    def is_last_gate(self) -> bool:
        """Whether ours is the only gate that the pod has left: others may still change where it can run."""
        return self.gates == (GATE,)

    @property
    def is_active(self) -> bool:
        """Whether the pod may still be scheduled or run: it is neither finished nor being deleted."""
        return not (self.is_finished or self.is_deleted)

    @property
    def is_ours(self) -> bool:
        """Whether the pod is to be decided by us, now or when its other gates are off."""
        return self.is_gated and self.is_active and not self.node


class ClaimUser(Protocol):
    """A pod that names a claim."""

    @property
    def uid(self) -> str:
        """Its uid, where that is known."""

    @property
    def is_gated(self) -> bool:
        """Whether our gate holds it."""

    @property
    def is_finished(self) -> bool:
        """Whether it has run."""


def has_only_gated(claim: ResourceClaim, users: Iterable[ClaimUser]) -> bool:
    """Return whether unfinished pods name a claim, all of them gated, and it is reserved for nobody else."""
    unfinished = [user for user in users if not user.is_finished]
    if not unfinished or not all(user.is_gated for user in unfinished):
        return False
    uids = {user.uid for user in unfinished}
    return all(each.resource == "pods" and each.uid in uids for each in claim.status.reserved_for)


def not_gated(claim: ResourceClaim, pods: Sequence[str]) -> str:
    """Return why the claim of a gated pod is not decided with it: other pods name it, or it is reserved for others."""
    name = claim.metadata.name
    if (owner := claim.metadata.reservation) is not None:
        return (
            f'claim "{name}" is a copy of DeviceReservation "{owner.name}" and has no devices yet: the operator '
            "allocates it for the reservation, and this pod goes on then"
        )
    if claim.status.reserved_for:
        others = listed([each.name for each in claim.status.reserved_for])
        return f'claim "{name}" has no allocation and is reserved for {others}'
    if not pods:
        return f'claim "{name}" is not named by pods with the scheduling gate {GATE} alone'
    return (
        f'claim "{name}" is also named by {listed([f"pod {pod}" for pod in pods])}, not all of which have the '
        f"scheduling gate {GATE}: kube-scheduler allocates it, and this pod goes on then; or gate all that share it"
    )


def find_release(pod: SchedulingPod, claims: Iterable[ResourceClaim]) -> str:
    """Return why the gate of a pod comes off without a decision; empty if the pod is to be decided.

    `claims` are those of the pod that are there.
    """
    if not pod.claims and not pod.missing:
        return "the pod names no claim"
    for claim in claims:
        if claim.metadata.labels.get(OPT_OUT_LABEL) == "false":
            return f'claim "{claim.metadata.name}" has the label {OPT_OUT_LABEL}: "false"'
    return ""


def gets_gate(record: ObjectRecord, objects: ObjectSet) -> bool:
    """Return whether a new pod gets the gate from the policy of managed namespaces, as its namespace is one.

    Source: manifests/components/gates/managed-namespaces/policy.yaml.
    """
    pod: Pod = record.obj
    is_of_default = pod.spec.scheduler_name in ("", DEFAULT_SCHEDULER)
    is_new = not pod.metadata.uid and not pod.spec.node_name and is_of_default
    return is_new and bool(pod.spec.resource_claims) and is_managed(objects, pod.metadata.namespace)


def is_managed(objects: ObjectSet, namespace: str) -> bool:
    """Return whether the operator decides the claims of new pods of a namespace, as far as is known."""
    found = objects.records.get(("Namespace", "", namespace))
    return found is not None and found.obj.metadata.labels.get(CLAIMS_LABEL) == MANAGED


def handed_back(why: str, node: str) -> str:
    """Return the sentence about a pod that was let go for a node, and cannot be placed by kube-scheduler's words."""
    # That nobody else can be made to go says nothing of why.
    why = why.partition(" preemption: ")[0].rstrip(". ")
    if any(words in why for words in _NOT_LOOKED_AT):
        why += (
            f"; a new pod goes to node {node} again as long as that suits it by all else, since pod affinity, "
            "anti-affinity and topology spread are not looked at"
        )
    return f"handed back: {why}; delete the pod to try again"


def let_go_mark(time: datetime, node: str, uid: str) -> str:
    """Return the annotation of a pod that is let go now, at a time in UTC. A copy of the pod has another uid."""
    return f"{timestamp(time)} {node} {uid}"


def read_mark(mark: str, uid: str) -> LetGo | None:
    """Return what the annotation of a pod of this uid says; None if that is nothing, or about another pod."""
    parts = mark.split(" ")
    time = seconds_of(parts[0])
    if time is None or len(parts) != len(("time", "node", "uid")) or parts[2] != uid:
        return None
    return LetGo(parts[1], time)


def order(pod: SchedulingPod) -> tuple[int, str, str, str]:
    """Return what pods are sorted by: the highest priority first, then the oldest, by namespace and name."""
    return -pod.priority, pod.creation, pod.namespace, pod.name


def read_scheduling_pod(body: Mapping[str, Any]) -> SchedulingPod | None:
    """Return what matters of a pod as on the wire; None for one that neither names claims nor has, or had, our gate.

    What cannot be read counts as absent: `pods.cluster_pods` reports it.
    """
    spec = body.get("spec") or {}
    is_marked = LET_GO_ANNOTATION in ((body.get("metadata") or {}).get("annotations") or {})
    if not (spec.get("resourceClaims") or spec.get("schedulingGates") or is_marked):
        # Nearly all pods: of these nothing is read.
        return None
    reader = FieldReader("Pod", body)
    gates = tuple(
        [reader.text(item, "name", path) for path, item in reader.parts(spec, "schedulingGates", "spec")]
    )
    if not spec.get("resourceClaims") and GATE not in gates and not is_marked:
        return None
    metadata, status = reader.part(body, "metadata", ""), reader.part(body, "status", "")
    uid = reader.text(metadata, "uid", "metadata")
    mark = reader.texts(metadata, "annotations", "metadata").get(LET_GO_ANNOTATION, "")
    claims, missing = _read_claims(reader, spec, status)
    return SchedulingPod(
        namespace=reader.namespace,
        name=reader.name,
        uid=uid,
        resource_version=reader.text(metadata, "resourceVersion", "metadata"),
        priority=reader.whole(spec, "priority", "spec") or 0,
        creation=reader.text(metadata, "creationTimestamp", "metadata"),
        gates=gates,
        node=reader.text(spec, "nodeName", "spec"),
        nominated_node=reader.text(status, "nominatedNodeName", "status"),
        claims=claims,
        missing=missing,
        unschedulable=_read_unschedulable(reader, status),
        is_finished=reader.text(status, "phase", "status") in ENDED_PHASES,
        is_deleted=bool(metadata.get("deletionTimestamp")),
        is_nominated_by_operator=is_nominated_by_operator(body),
        let_go=read_mark(mark, uid),
    )


def _read_claims(
    reader: FieldReader, spec: Mapping[str, Any], status: Mapping[str, Any]
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the claims of a pod, and the entries that have none yet.

    An entry of the status without a name says that no claim is needed.
    """
    made: dict[str, str] = {}
    for path, item in reader.parts(status, "resourceClaimStatuses", "status"):
        made[reader.text(item, "name", path)] = reader.text(item, "resourceClaimName", path)
    claims, missing = set[str](), set[str]()
    for path, item in reader.parts(spec, "resourceClaims", "spec"):
        entry = reader.text(item, "name", path)
        name = reader.text(item, "resourceClaimName", path) or made.get(entry)
        if name:
            claims.add(name)
        elif name is None:
            missing.add(entry)
    return frozenset(claims), frozenset(missing)


def _read_unschedulable(reader: FieldReader, status: Mapping[str, Any]) -> str | None:
    for path, item in reader.parts(status, "conditions", "status"):
        if item.get("type") == "PodScheduled":
            is_so = (item.get("status"), item.get("reason")) == ("False", "Unschedulable")
            return reader.text(item, "message", path) if is_so else None
    return None
