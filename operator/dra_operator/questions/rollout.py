"""Rolling updates that wait for themselves: the new pod waits for devices that an old pod of its owner holds.

The old pod ends only once the new one is ready, if the update makes a new pod first and may not do without an old one.
Source: k8s.io/kubernetes/pkg/controller, deployment (`reconcileOldReplicaSets`, `ResolveFenceposts`) and daemon.
"""

import re
from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import Any, Final

from dra_operator.api.core import OwnerReference, Pod
from dra_operator.api.names import RANDOM_LETTERS
from dra_operator.api.text import listed
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import is_over
from dra_operator.pods.workloads import part
from dra_operator.questions.state import ClusterState

_HASH: Final = re.compile(f"[{RANDOM_LETTERS}]+")
_PERCENT: Final = re.compile(r"(\d+)%")


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the owner that manages a pod, or None."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)


def deployment_of(replica_set: str) -> str:
    """Return the Deployment that a ReplicaSet is of by its name, which ends with a hash of the template, or nothing."""
    name, _, end = replica_set.rpartition("-")
    return name if _HASH.fullmatch(end) else ""


def _deployment(owner: OwnerReference) -> str:
    return deployment_of(owner.name) if owner.kind == "ReplicaSet" else ""


def find_own_holders(state: ClusterState, pod: Pod, claims: Iterable[ClaimKey]) -> str:
    """Return that some of the claims in a pod's way are those of older pods of its own owner, or an empty text.

    Then the text names what of the update's strategy ends that; where the owner is not known, under which condition.
    """
    owner = controller_of(pod)
    name = "" if owner is None else owner.name if owner.kind == "DaemonSet" else _deployment(owner)
    if owner is None or not name:
        return ""
    kind = "DaemonSet" if owner.kind == "DaemonSet" else "Deployment"
    old = sorted({each.metadata.name for each in _users(state, claims) if _is_older(pod, each, owner, name)})
    if not old:
        return ""
    body = state.objects.bodies.get((f"{kind.lower()}.apps", pod.metadata.namespace, name))
    if body is not None and not _waits_for_new(kind, part(body, "spec")):
        return ""
    remedy = "maxSurge: 0" if kind == "DaemonSet" else "strategy Recreate, or maxUnavailable: 1,"
    usual = "with maxSurge" if kind == "DaemonSet" else "with maxUnavailable 0, the default below 4 replicas,"
    condition = "" if body is not None else f" {usual}"
    return (
        f"pod {listed(old)} of the same {kind} {name} holds what it waits for: a rolling update{condition} ends the "
        f"old pod once the new one is ready, so each waits for the other; {remedy} ends that"
    )


def _users(state: ClusterState, claims: Iterable[ClaimKey]) -> Iterable[Pod]:
    """Yield the pods that some claims are reserved for."""
    for namespace, name in claims:
        claim = state.find_claim((namespace, name))
        for entry in claim.status.reserved_for if claim is not None else ():
            record = state.find_record("Pod", namespace, entry.name)
            if record is not None and record.obj.metadata.uid == entry.uid and not is_over(record.obj):
                yield record.obj


def _is_older(pod: Pod, other: Pod, owner: OwnerReference, name: str) -> bool:
    """Return whether another pod is of an older template of the same owner."""
    found = controller_of(other)
    if found is None or other.metadata.namespace != pod.metadata.namespace or other is pod:
        return False
    if owner.kind == "DaemonSet":
        return (found.kind, found.name) == ("DaemonSet", name)
    return _deployment(found) == name and found.name != owner.name


def _waits_for_new(kind: str, spec: Mapping[str, Any]) -> bool:
    """Return whether an update ends no old pod before a new one is ready."""
    if kind == "DaemonSet":
        return part(spec, "updateStrategy", "rollingUpdate").get("maxSurge", 0) not in (0, "0%")
    strategy, replicas = part(spec, "strategy"), spec.get("replicas", 1)
    rolling = part(strategy, "rollingUpdate")
    surge = _resolve(rolling.get("maxSurge", "25%"), replicas, ceil)
    unavailable = _resolve(rolling.get("maxUnavailable", "25%"), replicas, floor)
    return strategy.get("type") != "Recreate" and unavailable == 0 and surge != 0


def _resolve(value: Any, replicas: Any, round_to: Any) -> int:
    """Return a number of pods that is given as such, or as a percentage of the replicas."""
    if isinstance(value, int):
        return value
    found = _PERCENT.fullmatch(str(value))
    return round_to(int(found[1]) * replicas / 100) if found and isinstance(replicas, int) else 0
