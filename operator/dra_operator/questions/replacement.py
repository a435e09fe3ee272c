"""Replacement: claims, and the pods that use them, begin anew all at once; what each comes to.

They are decided in the order in which kube-scheduler would decide their pods, and each decision counts for the next.
Nothing else that waits is decided.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import TypeAlias

from dra_operator.allocator.decision import Explanation, claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod
from dra_operator.api.names import OPT_OUT_LABEL
from dra_operator.api.types import ResourceClaim, ResourceClaimStatus
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claim_sets import Outcome, State, decide, make_sets, pending
from dra_operator.pods.claims import named_claims
from dra_operator.pods.objects import Key, ObjectRecord
from dra_operator.pods.workloads import part
from dra_operator.questions.contents import LoadResult, remove_objects
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
    that others on nodes use keeps its devices, and waits if an evicted pod can use it nowhere. The node that is
    `drained` is no other node, also for who tolerates its cordon; why one waits is said of the other nodes.
    """
    users = {
        key: state.consumers.find_users(claim)
        for key in claims
        if (claim := state.find_claim(key)) is not None
    }
    pods = {
        pod_key(pod)
        for each in users.values()
        for pod in each
        if evicted is None or pod_key(pod) in evicted or not pod.spec.node_name
    }
    moved = {key: {pod_key(pod) for pod in each} & pods for key, each in users.items()}
    begun_anew = {key for key, each in users.items() if len(moved[key]) == len(each)}
    begun_anew |= _claims_of_alone(state, pods)
    records: dict[Key, ObjectRecord] = dict(state.objects.records)
    for claim_place in (("ResourceClaim", *key) for key in begun_anew):
        records[claim_place] = _unallocated(records[claim_place])
    for pod_place in (("Pod", *key) for key in pods):
        records[pod_place] = unbound(records[pod_place])
    objects = replace(state.objects, records=records, daemon_sets=[])

    def decide_in(contents: LoadResult) -> dict[ClaimKey, Outcome]:
        return _decide(state.with_contents(contents), claims, claims | begun_anew, moved)

    if not drained or ("Node", "", drained) not in objects.records:
        return decide_in(objects)
    return _decide_elsewhere(decide_in, objects, drained)


def _decide_elsewhere(
    decide_in: Callable[[LoadResult], dict[ClaimKey, Outcome]], objects: LoadResult, drained: str
) -> Mapping[ClaimKey, Outcome]:
    """Return what claims come to on the other nodes than a drained one; of those that wait, whether they come back."""
    # Its pods of DaemonSets go on there, so only the node goes: nobody else can go to it.
    records = {key: each for key, each in objects.records.items() if key != ("Node", "", drained)}
    listed = objects.listed | {"Node"}
    outcomes = decide_in(replace(objects, records=records, listed=listed))
    waiting = {key for key, each in outcomes.items() if each.state is State.PENDING}
    if waiting:
        # Neither that it is cordoned nor that it is gone is a reason for anybody: that is the change.
        rest = decide_in(remove_objects(objects, nodes=(drained,)))
        outcomes |= {key: rest[key] for key in waiting & rest.keys() if rest[key].state is State.PENDING}
        cordoned = decide_in(objects)
        for key in waiting:
            each = outcomes[key]
            if cordoned[key].node == drained:
                text = (
                    f"it comes back to node {drained}, whose cordon it tolerates; elsewhere: {each.message}"
                )
                outcomes[key] = replace(each, message=text)
    return outcomes


def _decide(
    state: ClusterState,
    asked: AbstractSet[ClaimKey],
    claims: AbstractSet[ClaimKey],
    pods: Mapping[ClaimKey, AbstractSet[PodKey]],
) -> dict[ClaimKey, Outcome]:
    """Return what those of some claims come to that are asked about, where they begin anew; `pods` are of each of them.

    One that kept its devices waits if such a pod can use it nowhere.
    """
    sets = [
        item
        for item in make_sets(state.objects, state.objects.of_kind("ResourceClaim"))
        if any(claim_key(record.obj) in claims for record in item.claims)
    ]
    found = decide(sets, state.new_decider(), state.broken)
    outcomes: dict[ClaimKey, Outcome] = {}
    for outcome in found.outcomes:
        key = claim_key(outcome.claim)
        is_kept = outcome.state is not State.ALLOCATED and outcome.allocation is not None
        stuck = min(pods[key] & found.stuck.keys(), default=None) if is_kept and key in asked else None
        if stuck is not None:
            text = (
                f"it keeps its devices, which pod {stuck[1]} can use on no other node: {found.stuck[stuck]}"
            )
            outcome = pending(outcome.record, Explanation(Reason.NOT_SCHEDULED, text))  # noqa: PLW2901
        outcomes[key] = outcome
    return {key: outcomes[key] for key in asked & outcomes.keys()}


def _claims_of_alone(state: ClusterState, pods: AbstractSet[PodKey]) -> set[ClaimKey]:
    """Return the allocated claims that some pods use, and no others."""
    named = {(key[0], name) for key in pods for name in named_claims(state.consumers.pods[key])}
    return {
        key
        for key in named
        if (claim := state.find_claim(key)) is not None
        and claim.status.allocation is not None
        and all(pod_key(pod) in pods for pod in state.consumers.find_users(claim))
    }


def _unallocated(record: ObjectRecord) -> ObjectRecord:
    """Return a claim as it would be made again. Whoever decided it does so again: the label that keeps us away goes."""
    claim: ResourceClaim = record.obj
    labels = {name: value for name, value in claim.metadata.labels.items() if name != OPT_OUT_LABEL}
    metadata = replace(claim.metadata, deletion_timestamp=None, labels=labels)
    body = {name: value for name, value in record.body.items() if name != "status"}
    return replace(record, body=body, obj=replace(claim, metadata=metadata, status=ResourceClaimStatus()))


def unbound(record: ObjectRecord) -> ObjectRecord:
    """Return a pod as its controller would make it again, with the claims that are there."""
    pod: Pod = record.obj
    spec, status = ({**part(record.body, name)} for name in ("spec", "status"))
    spec.pop("nodeName", None)
    status.pop("nominatedNodeName", None)
    obj = replace(
        pod,
        spec=replace(pod.spec, node_name=""),
        status=replace(pod.status, nominated_node_name=""),
    )
    return replace(record, body={**record.body, "spec": spec, "status": status}, obj=obj)


def pod_key(pod: Pod) -> PodKey:
    """Return namespace and name of a pod."""
    return pod.metadata.namespace, pod.metadata.name
