"""What waits for devices in a cluster: pods, and claims that no pod uses, each with its reason.

The reason is that of `explain`, found once for pods and claims that ask for the same: copies of a template, which
only their names tell apart. Source: docs/kubectl.md, `waiting`.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.allocator.decision import claim_key
from dra_operator.allocator.extended import classes_by_resource, extended_resources
from dra_operator.api.core import Pod
from dra_operator.api.names import GATE, OPT_OUT_LABEL
from dra_operator.api.types import DeviceClass, ResourceClaim
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import is_over, named_claims
from dra_operator.pods.objects import ObjectRecord
from dra_operator.questions.answers import WAITING, Conclusion, conclude
from dra_operator.questions.claims import find_classes
from dra_operator.questions.copies import find_gates
from dra_operator.questions.explain import ExplainAnswer, explain
from dra_operator.questions.state import ClusterState

_PENDING: Final = ("", "Pending")
_TOKEN: Final = "kube-api-access-"  # noqa: S105 - the prefix of a volume's name
_DOES_NOT_WAIT: Final = "does not wait"


@dataclass(frozen=True, slots=True)
class WaitingItem:
    """A pod or a claim that waits. `state` and `reason` are those of `explain`; `created` is RFC 3339.

    `classes` are those that its claims ask for.
    """

    kind: str
    namespace: str
    name: str
    state: str
    reason: str
    message: str
    classes: tuple[str, ...]
    created: str | None = None


@dataclass(frozen=True, slots=True)
class WaitingList:
    """All that waits, the oldest first. `partial` has a line for each thing that the answer lacks."""

    items: tuple[WaitingItem, ...]
    partial: tuple[str, ...] = ()

    @property
    def conclusion(self) -> Conclusion:
        """Whether nothing waits."""
        return conclude(is_yes=not self.items, is_partial=bool(self.partial))


def find_waiting(state: ClusterState, namespace: str = "") -> WaitingList:
    """Return what waits in a namespace, or in all if it is empty.

    That is each pod without devices which are asked for by claims, by extended resources that classes serve, or by the
    gate of the operator; a pod that has a node, if its kubelet cannot prepare its claims; and each claim without an
    allocation that no such pod uses. A pod that nothing about devices keeps is no such. Raises QuestionError.
    """
    known: dict[str, ExplainAnswer] = {}
    items = []
    partial = dict.fromkeys(WAITING.find_missing(state.unread))
    served = classes_by_resource(record.obj for record in state.objects.of_kind("DeviceClass"))
    for record in _find_candidates(state, namespace, served):
        metadata = record.obj.metadata
        kind = type(record.obj).__name__
        # Two of one key differ in nothing that `explain` looks at but their names.
        name = f"{kind}/{metadata.namespace}/{metadata.name}"
        key = find_shape(state, record) or name
        if key not in known:
            known[key] = explain(state, name, None)
        found = known[key]
        if found.state in (_DOES_NOT_WAIT, "allocated"):
            continue
        partial |= dict.fromkeys(found.partial)
        items.append(
            WaitingItem(
                kind,
                metadata.namespace,
                metadata.name,
                found.state,
                found.reason,
                found.message,
                tuple(sorted(_find_classes(state, record, served))),
                metadata.creation_timestamp,
            )
        )
    items.sort(key=lambda item: (item.created or "", item.namespace, item.kind, item.name))
    return WaitingList(tuple(items), tuple(partial))


def _find_candidates(
    state: ClusterState, namespace: str, served: Mapping[str, DeviceClass]
) -> Iterator[ObjectRecord]:
    """Yield the pods that may wait for devices, and the claims that none of them uses; `served` is by resource name."""
    used = set[ClaimKey]()
    for record in state.objects.of_kind("Pod"):
        pod: Pod = record.obj
        if is_over(pod):
            continue
        used.update((pod.metadata.namespace, name) for name in named_claims(pod))
        if pod.status.phase not in _PENDING or namespace not in ("", pod.metadata.namespace):
            continue
        is_served = any(name in served for name in extended_resources(pod))
        if pod.spec.resource_claims or is_served or GATE in find_gates(record):
            yield record
    for record in state.objects.of_kind("ResourceClaim"):
        claim: ResourceClaim = record.obj
        is_free = claim.status.allocation is None and not claim.metadata.deletion_timestamp
        if is_free and claim_key(claim) not in used and namespace in ("", claim.metadata.namespace):
            yield record


def find_shape(state: ClusterState, record: ObjectRecord) -> str:
    """Return what a waiting object asks for, without names of its own; empty where its name may matter.

    That is where it names a claim that others may use, or one that has been decided already.
    """
    if isinstance(record.obj, ResourceClaim):
        return json.dumps([record.obj.metadata.namespace, _claim_body(record)], sort_keys=True)
    pod: Pod = record.obj
    if pod.spec.node_name or any(entry.resource_claim_name for entry in pod.spec.resource_claims):
        return ""
    claims = {}
    for status in pod.status.resource_claim_statuses:
        made = state.find_record("ResourceClaim", pod.metadata.namespace, status.resource_claim_name or "")
        if made is None or made.obj.status.allocation is not None or made.obj.metadata.deletion_timestamp:
            return ""
        claims[status.name] = _claim_body(made)
    if claims.keys() != {entry.name for entry in pod.spec.resource_claims}:
        return ""
    metadata = pod.metadata
    spec = record.body.get("spec") or {}
    own = [metadata.namespace, metadata.labels, metadata.annotations, _without_token(spec), claims]
    return json.dumps([*own, pod.status.nominated_node_name], sort_keys=True, default=str)


def _claim_body(record: ObjectRecord) -> list[Any]:
    return [record.body.get("spec"), record.obj.metadata.labels.get(OPT_OUT_LABEL)]


def _without_token(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the spec of a pod without what the API server and controllers name after the pod."""
    text = json.dumps({name: value for name, value in spec.items() if name not in ("hostname", "volumes")})
    volumes = [each for each in spec.get("volumes") or () if _TOKEN not in str(each.get("name"))]
    tokens = [str(each["name"]) for each in spec.get("volumes") or () if _TOKEN in str(each.get("name"))]
    for token in tokens:
        text = text.replace(token, _TOKEN)
    return {"rest": text, "volumes": volumes}


def _find_classes(state: ClusterState, record: ObjectRecord, served: Mapping[str, DeviceClass]) -> set[str]:
    """Return the classes that a claim, or the claims of a pod, ask for."""
    if isinstance(record.obj, ResourceClaim):
        return find_classes(record.obj)
    pod: Pod = record.obj
    found = set[str]()
    for name in named_claims(pod):
        if (claim := state.find_claim((pod.metadata.namespace, name))) is not None:
            found |= find_classes(claim)
    return found | {served[name].metadata.name for name in extended_resources(pod) if name in served}
