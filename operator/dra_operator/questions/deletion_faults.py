"""Deletions that hang: objects that have been being deleted for minutes, and what they wait for.

Source: docs/dra-semantics 8.10, kube-controller-manager's `resourceclaim`; docs/operator.md, "Devices that are ours".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Metadata, Pod
from dra_operator.api.durations import human_duration
from dra_operator.api.names import FINALIZER, OWNED_FINALIZER
from dra_operator.api.text import listed
from dra_operator.api.types import ResourceClaim
from dra_operator.pods.claims import named_claims
from dra_operator.questions import fault_texts
from dra_operator.questions.findings import Finding, Sort, claim_names
from dra_operator.questions.holders import ConsumerIndex, Use
from dra_operator.questions.partial import AUDIT
from dra_operator.questions.state import ClusterState
from dra_operator.questions.times import seconds_of

HANGING_SECONDS: Final = 300
"""How long a deletion may take. The time of a pod's deletion includes its grace period."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """What a deletion waits for, what to do about it, and which other objects take part."""

    text: str
    action: str
    related: tuple[str, ...] = ()


def find_hanging_deletions(state: ClusterState) -> Iterator[Finding]:
    """Yield the objects whose deletion has been going on for longer than five minutes; of pods those with claims."""
    consumers = ConsumerIndex.build(state)
    for kind in AUDIT[Sort.DELETION_HANGS]:
        for record in state.objects.of_kind(kind):
            metadata: Metadata = record.obj.metadata
            since = seconds_of(metadata.deletion_timestamp)
            if since is None or state.now - since <= HANGING_SECONDS:
                continue
            if kind == "Pod" and not _has_claims(record.obj):
                continue
            cause = _find_cause(state, consumers, record.obj)
            text = f"has been being deleted for {human_duration(int(state.now - since))}: {cause.text}"
            names = metadata.namespace, metadata.name
            yield Finding(Sort.DELETION_HANGS, kind, *names, text, cause.action, cause.related)


_CONTROLLER: Final = "see whether kube-controller-manager runs, which takes such entries away within seconds"


def _has_claims(pod: Pod) -> bool:
    return bool(named_claims(pod)) or pod.status.extended_resource_claim_status is not None


def _find_cause(state: ClusterState, consumers: ConsumerIndex, obj: Any) -> _Cause:
    match obj:
        case ResourceClaim():
            return _cause_of_claim(state, consumers, obj)
        case Pod() if not obj.metadata.finalizers and obj.spec.node_name:
            node = obj.spec.node_name
            action = f"see whether node {node} is ready; if it is gone for good: kubectl delete pod --force"
            return _Cause(f"the kubelet of node {node} has not ended it", action)
    return _by_finalizers(obj.metadata.finalizers)


def _cause_of_claim(state: ClusterState, consumers: ConsumerIndex, claim: ResourceClaim) -> _Cause:
    if claim.status.reserved_for:
        users = [f"{entry.resource.removesuffix('s')} {entry.name}" for entry in claim.status.reserved_for]
        text = f"it is reserved for {listed(users)}"
        if consumers.find_use(claim) in (Use.ENDED, Use.GONE):
            return _Cause(text, f"no such pod runs: {_CONTROLLER}")
        return _Cause(text, "end what uses it")
    if others := sorted(state.ledger.other_holders(claim_key(claim))):
        text = f"its device is also held by {fault_texts.join_claims(others)}"
        return _Cause(text, fault_texts.END_BOTH, claim_names(others))
    return _by_finalizers(claim.metadata.finalizers)


def _by_finalizers(finalizers: tuple[str, ...]) -> _Cause:
    if not finalizers:
        return _Cause("nothing is seen that keeps it", "see whether kube-controller-manager runs")
    text = f"it has the finalizer {listed(finalizers)}"
    if OWNED_FINALIZER in finalizers:
        action = (
            "see whether the operator runs, which takes it off once no write of its own is under way; if none does, "
            "dra-operator disown says how to take it off"
        )
        return _Cause(text, action)
    if FINALIZER in finalizers:
        return _Cause(
            text, "see whether kube-controller-manager runs, which clears the claim and takes it off"
        )
    return _Cause(text, "see whether the controller runs that takes the finalizer off")
