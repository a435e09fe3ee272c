"""Replacement: claims, and the pods that use them, begin anew all at once; what each comes to.

They are decided in the order in which kube-scheduler would decide their pods, and each decision counts for the next.
Nothing else that waits is decided.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from dra_operator.allocator import Explanation, Reason
from dra_operator.api.core import Pod
from dra_operator.api.names import OPT_OUT_LABEL
from dra_operator.api.types import ResourceClaim, ResourceClaimStatus
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claim_sets import decide, make_sets
from dra_operator.pods.claims import is_over, named_claims
from dra_operator.pods.nodes import usable
from dra_operator.pods.objects import Key, ObjectRecord
from dra_operator.pods.scheduler import Outcome, State, pending
from dra_operator.pods.workloads import part
from dra_operator.questions.errors import UnknownObjectError
from dra_operator.questions.holders import ConsumerIndex
from dra_operator.questions.removal import remove_objects
from dra_operator.questions.state import ClusterState

PodKey: TypeAlias = tuple[str, str]
"""Namespace and name of a pod."""


def decide_anew(
    state: ClusterState,
    claims: AbstractSet[ClaimKey],
    *,
    evicted: AbstractSet[PodKey] | None = None,
    drained: str = "",
) -> Mapping[ClaimKey, Outcome]:
    """Return what each of some allocated claims comes to when it begins anew, with the pods that use it.

    So do the other claims of these pods, unless other pods use them as well. If only some pods are `evicted`, a claim
    that others on nodes use keeps its devices, and waits if an evicted pod can use it nowhere. Why one still waits is
    said of the other nodes than the one that is drained.
    """
    consumers = ConsumerIndex.build(state)
    users = {key: find_users(state, consumers, key) for key in claims}
    pods = {
        _pod_key(pod)
        for each in users.values()
        for pod in each
        if evicted is None or _pod_key(pod) in evicted or not pod.spec.node_name
    }
    moved = {key: {_pod_key(pod) for pod in each} & pods for key, each in users.items()}
    begun_anew = {key for key, each in users.items() if len(moved[key]) == len(each)}
    begun_anew |= _claims_of_alone(state, consumers, pods)
    records: dict[Key, ObjectRecord] = dict(state.objects.records)
    for namespace, name in begun_anew:
        place = "ResourceClaim", namespace, name
        records[place] = _unallocated(records[place])
    for namespace, name in pods:
        records["Pod", namespace, name] = _unbound(records["Pod", namespace, name])
    objects = replace(state.objects, records=records, daemon_sets=[])
    replacement = _Replacement(claims, claims | begun_anew, moved)
    outcomes = replacement.decide(state.with_contents(objects))
    if drained and any(outcome.state is State.PENDING for outcome in outcomes.values()):
        with suppress(UnknownObjectError):
            # That the node is cordoned is no reason for anybody: it is the change.
            rest = state.with_contents(remove_objects(objects, nodes=(drained,)))
            elsewhere = replacement.decide(rest)
            outcomes |= {
                key: elsewhere[key]
                for key, outcome in outcomes.items()
                if outcome.state is State.PENDING
                and key in elsewhere
                and elsewhere[key].state is State.PENDING
            }
    return outcomes


@dataclass(frozen=True, slots=True)
class _Replacement:
    """What is decided anew: the `claims` that are asked about, `all_claims`, and the pods that use each anew."""

    claims: AbstractSet[ClaimKey]
    all_claims: AbstractSet[ClaimKey]
    pods: Mapping[ClaimKey, AbstractSet[PodKey]]

    def decide(self, state: ClusterState) -> dict[ClaimKey, Outcome]:
        """Return what the claims come to in a state in which those that begin anew are not allocated."""
        sets = [
            item
            for item in make_sets(state.objects, state.objects.of_kind("ResourceClaim"))
            if any(_record_key(record) in self.all_claims for record in item.claims)
        ]
        outcomes = decide(sets, state.scheduler)
        found = {key: outcome for outcome in outcomes if (key := _record_key(outcome.record)) in self.claims}
        return {key: self._check_use(state, key, outcome) for key, outcome in found.items()}

    def _check_use(self, state: ClusterState, key: ClaimKey, outcome: Outcome) -> Outcome:
        """Return what a claim comes to; one that kept its devices waits if a pod can use it nowhere."""
        if outcome.state is State.ALLOCATED or outcome.allocation is None:
            return outcome
        scheduler = state.scheduler
        for namespace, name in sorted(self.pods[key]):
            pod = state.objects.records["Pod", namespace, name]
            runnable = scheduler.placement.find_runnable(pod)
            names = scheduler.nodes if runnable is None else runnable.nodes
            if any(usable(scheduler.nodes, names, [outcome.allocation])):
                continue
            text = f"it keeps its devices, which pod {name} can use on no other node"
            why = "" if runnable is None else f": {runnable.why}"
            return pending(outcome.record, Explanation(Reason.NOT_SCHEDULED, f"{text}{why}"))
        return outcome


def find_users(state: ClusterState, consumers: ConsumerIndex, key: ClaimKey) -> list[Pod]:
    """Return the pods that use a claim and have not ended: those it is reserved for, and those that name it."""
    claim = state.find_claim(key)
    if claim is None:
        return []
    found = [consumers.find_pod(key[0], entry) for entry in claim.status.reserved_for]
    known = {_pod_key(pod): pod for pod in found if pod is not None and not is_over(pod)}
    known.update((_pod_key(pod), pod) for pod in consumers.users.get(key, ()))
    return [known[name] for name in sorted(known)]


def _claims_of_alone(
    state: ClusterState, consumers: ConsumerIndex, pods: AbstractSet[PodKey]
) -> set[ClaimKey]:
    """Return the allocated claims that some pods use, and no others."""
    named = {
        (namespace, claim)
        for namespace, name in pods
        for claim in named_claims(consumers.pods[namespace, name])
    }
    return {
        key
        for key in named
        if (claim := state.find_claim(key)) is not None
        and claim.status.allocation is not None
        and all(_pod_key(pod) in pods for pod in find_users(state, consumers, key))
    }


def _unallocated(record: ObjectRecord) -> ObjectRecord:
    """Return a claim as it would be made again. Whoever decided it does so again: the label that keeps us away goes."""
    claim: ResourceClaim = record.obj
    labels = {name: value for name, value in claim.metadata.labels.items() if name != OPT_OUT_LABEL}
    metadata = replace(claim.metadata, deletion_timestamp=None, labels=labels)
    body = {name: value for name, value in record.body.items() if name != "status"}
    return replace(record, body=body, obj=replace(claim, metadata=metadata, status=ResourceClaimStatus()))


def _unbound(record: ObjectRecord) -> ObjectRecord:
    """Return a pod as its controller would make it again, with the claims that are there."""
    pod: Pod = record.obj
    spec = {name: value for name, value in part(record.body, "spec").items() if name != "nodeName"}
    status = {
        name: value for name, value in part(record.body, "status").items() if name != "nominatedNodeName"
    }
    obj = replace(
        pod,
        spec=replace(pod.spec, node_name=""),
        status=replace(pod.status, nominated_node_name=""),
    )
    return replace(record, body={**record.body, "spec": spec, "status": status}, obj=obj)


def _pod_key(pod: Pod) -> PodKey:
    return pod.metadata.namespace, pod.metadata.name


def _record_key(record: ObjectRecord) -> ClaimKey:
    return record.obj.metadata.namespace, record.obj.metadata.name
