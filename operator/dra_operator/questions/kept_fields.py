"""Kept fields: what a snapshot, and a record of what happened, keep of each object.

What allocation depends on, and no more: of nodes their labels, taints and whether they can be used, of pods which
claims they name and what they ask of a node. Source: docs/cli.md.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from dra_operator.allocator.extended import is_extended
from dra_operator.api.convert import Body
from dra_operator.api.kinds import OWN_NAMES
from dra_operator.api.managed_fields import trim_managed_fields
from dra_operator.api.names import (
    ENDED_PHASES,
    GANG_ANNOTATION,
    GANG_MATCH_ANNOTATION,
    GANG_TOPOLOGY_ANNOTATION,
    LEASE_NAME,
)
from dra_operator.pods.workloads import GANG_LABELS

TAKEN = (
    "Namespace", "Node", "DeviceClass", "DeviceTaintRule", "ResourceSlice", "ResourceClaimTemplate",
    "PodGroup", "Pod", "ResourceClaim", "Lease", "ResourceQuota", *OWN_NAMES,
)  # fmt: skip
"""The kinds, in the order in which they are listed: what claims depend on before the claims."""
NEEDED = ("Node", "DeviceClass", "ResourceSlice", "ResourceClaim")
"""The kinds without which there is nothing to decide."""
RARE = ("PodGroup", "ResourceQuota", *OWN_NAMES)
"""Kinds that not every API server has, which is not worth a note."""

_Kept = Mapping[str, Any]
"""What is kept of a mapping: by the name of a field what is kept of it, None for all of it, or what a function says."""
REST: Final = "*"
"""With it, fields that are not named are kept as they are; without it they are left out."""


def _all(*names: str) -> _Kept:
    return dict.fromkeys(names)


_NAME: Final = _all("name", "namespace", "uid")
_IDENTITY: Final = {**_NAME, **_all("creationTimestamp", "deletionTimestamp")}
_OF_GANG: Final = {
    **_IDENTITY,
    "annotations": _all(GANG_ANNOTATION, GANG_MATCH_ANNOTATION, GANG_TOPOLOGY_ANNOTATION),
    "labels": _all(*GANG_LABELS),
}
_MARKS: Final = frozenset((GANG_ANNOTATION, *GANG_LABELS))
"""Annotation and labels of pods that a gang is known by, whether they have claims or not."""
_CONTAINER: Final = {
    **_all("name", "restartPolicy"),
    "resources": _all("requests", "limits", "claims"),
    "ports": _all("containerPort", "hostPort", "hostIP", "protocol"),
}
_CONTAINERS: Final = {"initContainers": _CONTAINER, "containers": _CONTAINER}
_BESIDE: Final = {"requiredDuringSchedulingIgnoredDuringExecution": _all("topologyKey")}
"""Of affinity to other pods that it is there, without their labels."""
_NODE: Final = {
    "metadata": _all("name", "labels", "deletionTimestamp"),
    "spec": _all("unschedulable", "taints"),
    "status": {
        "conditions": _all("type", "status"),
        "nodeInfo": _all("kubeletVersion"),
        **_all("declaredFeatures", "allocatable"),
    },
}
_NAMESPACE: Final = {"metadata": _all("name", "labels")}
_GROUP: Final = {
    "metadata": _OF_GANG,
    "spec": _all(
        *("resourceClaims", "schedulingPolicy", "schedulingConstraints", "parentCompositePodGroupName")
    ),
    "status": _all("resourceClaimStatuses"),
}
_QUOTA: Final = {
    "metadata": _NAME,
    "spec": _all("hard", "scopes", "scopeSelector"),
    "status": _all("hard", "used"),
}
_OWN_KIND: Final = {"metadata": {**_IDENTITY, **_all("generation")}, **_all("spec", "status")}
_POD: Final = {
    "metadata": {**_OF_GANG, **_all("ownerReferences")},
    "spec": {
        **_all(
            *("nodeName", "resourceClaims", "schedulingGroup", "priority", "schedulingGates"),
            *("nodeSelector", "schedulerName"),
        ),
        **_all("tolerations", "resources", "overhead", "hostNetwork", "hostUsers"),
        "affinity": {**_all("nodeAffinity"), "podAffinity": _BESIDE, "podAntiAffinity": _BESIDE},
        "topologySpreadConstraints": _all("maxSkew", "topologyKey", "whenUnsatisfiable"),
        **_CONTAINERS,
    },
    "status": {
        **_all("phase", "resourceClaimStatuses", "nominatedNodeName"),
        "extendedResourceClaimStatus": _all("resourceClaimName", "requestMappings"),
        "conditions": _all("type", "status", "reason", "lastTransitionTime"),
        "containerStatuses": {"state": {"terminated": _all("finishedAt")}},
    },
}
_OF_DAEMON: Final = {**_NAME, "ownerReferences": _all("apiVersion", "kind", "name", "uid", "controller")}
_RESIDENT: Final = {
    "metadata": _NAME,
    "spec": {**_all("nodeName", "resources", "overhead", "hostNetwork"), **_CONTAINERS},
    "status": _all("phase"),
}
"""What nobody else can have of a node: kube-scheduler counts requests, ports, and the pod."""

_OPERATOR_LABEL: Final = "app.kubernetes.io/name"
_OPERATOR: Final = {
    **_RESIDENT,
    "metadata": {**_NAME, "labels": _all(_OPERATOR_LABEL)},
    "status": {**_all("phase"), "conditions": _all("type", "status")},
}
"""Of a pod of the operator whether it is ready, as `kubectl dra status` asks."""


def keep(value: Any, kept: "_Kept | Callable[[Any], Any] | None") -> Any:
    """Return what is kept of a value, or of each item of a list."""
    if kept is None or not value:
        return value
    if isinstance(value, list):
        return [keep(item, kept) for item in value]
    if callable(kept):
        return kept(value)
    found = {name: keep(value.get(name), kept.get(name)) for name in (value if REST in kept else kept)}
    return {name: each for name, each in found.items() if each not in (None, {}, [])}


def _some(body: Body, kept: _Kept) -> Body:
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], **keep(body, kept)}


def _whole(body: Body) -> Body | None:
    return {**body, "metadata": _metadata(body)}


def _claim(body: Body) -> Body | None:
    """Return a claim with who wrote its status, and when: an audit asks who allocated it."""
    kept = trim_managed_fields(body)
    return {**body, "metadata": {**_metadata(body), **({"managedFields": kept} if kept else {})}}


def _node(body: Body) -> Body | None:
    status = {**(body.get("status") or {})}
    status["conditions"] = [item for item in status.get("conditions") or () if item.get("type") == "Ready"]
    return _some({**body, "status": status}, _NODE)


def asks_for_devices(body: Body) -> bool:
    """Return whether a pod names claims, may need some that are made for it, or is of a gang."""
    spec, status = body.get("spec") or {}, body.get("status") or {}
    marks = {**(body["metadata"].get("annotations") or {}), **(body["metadata"].get("labels") or {})}
    is_of_gang = bool(spec.get("schedulingGroup")) or not marks.keys().isdisjoint(_MARKS)
    has_claims = spec.get("resourceClaims") or status.get("extendedResourceClaimStatus")
    return bool(has_claims) or is_of_gang or (not spec.get("nodeName") and _asks_for_extended_resources(spec))


def _pod(body: Body) -> Body | None:
    """Return a pod as far as claims are named by it, or must be made for it, with what it asks of a node but volumes.

    Of another one only what it has of its node; None if it has no node, or has ended.
    """
    if asks_for_devices(body):
        return _some(body, _POD)
    spec, status = body.get("spec") or {}, body.get("status") or {}
    labels = body["metadata"].get("labels") or {}
    if labels.get(_OPERATOR_LABEL) == LEASE_NAME:
        return _some(body, _OPERATOR)
    is_there = spec.get("nodeName") and status.get("phase") not in ENDED_PHASES
    if not is_there:
        return None
    # Where the pods of a driver run is known by their DaemonSet.
    owners = body["metadata"].get("ownerReferences") or ()
    is_of_node = any(owner.get("kind") == "DaemonSet" for owner in owners)
    return _some(body, {**_RESIDENT, "metadata": _OF_DAEMON} if is_of_node else _RESIDENT)


def _asks_for_extended_resources(spec: Body) -> bool:
    """True if a container asks for what a class may serve; the other pods are not worth a place in the file."""
    return any(
        is_extended(resource)
        for name in _CONTAINERS
        for container in spec.get(name) or ()
        for amounts in (container.get("resources") or {}).values()
        if isinstance(amounts, Mapping)
        for resource in amounts
    )


def _lease(body: Body) -> Body | None:
    spec = _all("holderIdentity", "renewTime", "leaseDurationSeconds")
    return _some(body, {"metadata": _NAME, "spec": spec})


_TRIM: Mapping[str, Callable[[Body], Body | None]] = {
    "ResourceClaim": _claim,
    "Node": _node,
    "Namespace": lambda body: _some(body, _NAMESPACE),
    "Pod": _pod,
    "Lease": _lease,
    "ResourceQuota": lambda body: _some(body, _QUOTA),
    **dict.fromkeys(OWN_NAMES, lambda body: _some(body, _OWN_KIND)),
    "PodGroup": lambda body: _some(body, _GROUP),
}


def _metadata(body: Body) -> Body:
    metadata = {name: value for name, value in body["metadata"].items() if name != "managedFields"}
    annotations = {
        name: value
        for name, value in (metadata.pop("annotations", None) or {}).items()
        # It repeats the whole object.
        if name != "kubectl.kubernetes.io/last-applied-configuration"
    }
    return {**metadata, "annotations": annotations} if annotations else metadata


def trim(body: Body) -> Body | None:
    """Return what is kept of an object as an API server sends it; None if nothing is."""
    return _TRIM.get(body["kind"], _whole)(body)
