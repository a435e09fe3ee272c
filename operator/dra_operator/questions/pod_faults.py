"""Faults of pods: a gate or a nomination that the operator left behind.

Source: docs/operator.md, "Gated pods"; `status.nominatedNodeName` holds cpu and memory of a node against other pods.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from dra_operator.api.core import Pod
from dra_operator.api.durations import human_duration
from dra_operator.api.names import GATE, PENDING_ANNOTATION
from dra_operator.api.text import listed
from dra_operator.api.types import ResourceClaim
from dra_operator.inventory.nodes import OPTIONAL_NODE_OPERATIONS
from dra_operator.pods.claims import is_over, named_claims
from dra_operator.pods.nodes import can_use
from dra_operator.questions.findings import Finding, Sort, claim_names
from dra_operator.questions.state import ClusterState
from dra_operator.questions.times import seconds_of

GATED_SECONDS: Final = 600
"""How long a pod may have the gate although nothing is left to wait for, or nobody says what it waits for."""
_RELEASE: Final = (
    "see whether the operator runs with gates on; if it does not, take the gate off (docs/pods.md)"
)


def find_gates_left_behind(state: ClusterState) -> Iterator[Finding]:
    """Yield the pods that have the gate for nothing, or are nominated for a node that they cannot go to."""
    for record in state.objects.of_kind("Pod"):
        pod: Pod = record.obj
        if is_over(pod) or pod.spec.node_name:
            continue
        claims, missing = _find_claims(state, pod)
        if problem := _gate_problem(state, pod, claims, missing):
            yield _of_pod(pod, problem, _RELEASE, claims)
        elif problem := _nomination_problem(state, pod, claims):
            action = (
                "take the nomination back, as it holds cpu and memory of the node: kubectl patch pod "
                f"{pod.metadata.name} -n {pod.metadata.namespace} --subresource=status --type=merge "
                """-p '{"status":{"nominatedNodeName":""}}'"""
            )
            yield _of_pod(pod, problem, action, claims)


def _find_claims(state: ClusterState, pod: Pod) -> tuple[list[ResourceClaim], list[str]]:
    """Return the claims of a pod, and the names of those that are not there."""
    found: list[ResourceClaim] = []
    missing: list[str] = []
    for name in dict.fromkeys(named_claims(pod)):
        claim = state.find_claim((pod.metadata.namespace, name))
        if claim is None:
            missing.append(name)
        else:
            found.append(claim)
    return found, missing


def _gate_problem(
    state: ClusterState, pod: Pod, claims: Sequence[ResourceClaim], missing: Sequence[str]
) -> str | None:
    """Return why nobody will take the gate off a pod, or None. It is taken off last of several gates."""
    if (
        [gate.name for gate in pod.spec.scheduling_gates] != [GATE]
        or missing
        or "ResourceClaim" in state.unread
    ):
        return None
    since = seconds_of(pod.metadata.creation_timestamp)
    if since is None or state.now - since <= GATED_SECONDS:
        return None
    text = f"has the scheduling gate {GATE} for {human_duration(int(state.now - since))}, and "
    if not pod.spec.resource_claims and pod.status.extended_resource_claim_status is None:
        return f"{text}names no claim"
    times = [
        None if claim.status.allocation is None else seconds_of(claim.status.allocation.allocation_timestamp)
        for claim in claims
    ]
    if claims and all(time is not None and state.now - time > GATED_SECONDS for time in times):
        return f"{text}all its claims are allocated"
    open_claims = [claim for claim in claims if claim.status.allocation is None]
    if open_claims and not any(PENDING_ANNOTATION in claim.metadata.annotations for claim in open_claims):
        return f"{text}no operator says on its claims what they wait for"
    return None


def _nomination_problem(state: ClusterState, pod: Pod, claims: Sequence[ResourceClaim]) -> str | None:
    """Return why a pod cannot go to the node that it is nominated for, or None."""
    name = pod.status.nominated_node_name
    if not name or not state.has_all("Node"):
        return None
    text = f"is nominated for node {name}"
    node = state.nodes.get(name)
    if node is None:
        return f"{text}, which is gone" if name not in state.inventory.nodes else None
    skips = OPTIONAL_NODE_OPERATIONS in node.status.declared_features
    elsewhere = [
        claim.metadata.name
        for claim in claims
        if claim.status.allocation is not None
        and not can_use(claim.status.allocation, name, node.metadata.labels, skips_operations=skips)
    ]
    if elsewhere:
        return f"{text}, and cannot use claim {listed(elsewhere)} there"
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    open_claims = [claim.metadata.name for claim in claims if claim.status.allocation is None]
    if GATE in gates and open_claims:
        return f"{text} and gated, and claim {listed(open_claims)} has no allocation"
    return None


def _of_pod(pod: Pod, message: str, action: str, claims: Sequence[ResourceClaim]) -> Finding:
    metadata = pod.metadata
    related = claim_names((claim.metadata.namespace, claim.metadata.name) for claim in claims)
    return Finding(Sort.GATE_LEFT_BEHIND, "Pod", metadata.namespace, metadata.name, message, action, related)
