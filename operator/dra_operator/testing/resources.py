"""The kinds that the API server serves, and how it treats each: names, versions, status, selectable fields.

Order and content follow kube-apiserver 1.37: `kubectl api-resources` prints the same of both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from dra_operator.api.kinds import EVENT, KINDS, LEASE, Kind
from dra_operator.api.kinds import RESOURCE_GROUP as DRA

_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_STATUS_VERBS: Final = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Resource(Kind):
    """One kind. `versions` are those served, the preferred first; the store holds the shape of v1."""

    short_names: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The fields that it can be selected by: the selector's name, and where the value is."""
    has_status: bool = False
    has_generation: bool = False

    @property
    def qualified(self) -> str:
        """The plural with its group, as messages name it: `resourceclaims.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_key(self) -> str:
        """Under which the objects are stored: Events of both groups are the same objects."""
        return self.plural if self.kind == EVENT.kind else self.qualified

    def verbs(self, subresource: str = "") -> tuple[str, ...]:
        """Return what can be done with the objects, or with their status; none where they have none."""
        if not subresource:
            return _VERBS
        return _STATUS_VERBS if subresource == "status" and self.has_status else ()

    def struct(self, version: str) -> str:
        """Return the Go struct that holds an object in a version: `resource/v1.ResourceClaim`."""
        return f"{self.group.partition('.')[0] or 'core'}/{version}.{self.kind}"


_SHORT_NAMES: Final = {
    "ConfigMap": "cm",
    "Event": "ev",
    "Namespace": "ns",
    "Node": "no",
    "Pod": "po",
    "ServiceAccount": "sa",
}
_WITH_STATUS: Final = frozenset({"Namespace", "Node", "Pod", "DeviceTaintRule", "ResourceClaim"})
_WITH_GENERATION: Final = frozenset({"Pod", "DeviceClass", "DeviceTaintRule", "ResourceSlice"})
_INVOLVED: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_FIELDS: Final = {
    "Event": (*(f"involvedObject.{name}" for name in _INVOLVED), "reason", "reportingComponent", "type"),
    "Namespace": ("status.phase",),
    "Node": ("spec.unschedulable",),
    "Pod": (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName"),
        *("status.phase", "status.podIP", "status.nominatedNodeName"),
    ),
    "ResourceSlice": ("spec.nodeName", "spec.driver", "spec.pool.name"),
}


def _paths(kind: Kind) -> Iterator[tuple[str, tuple[str, ...]]]:
    namespace = ("metadata.namespace",) if kind.namespaced else ()
    for name in ("metadata.name", *namespace, *_FIELDS.get(kind.kind, ())):
        yield name, tuple(name.split("."))
    if kind.kind == EVENT.kind:
        yield "source", ("source", "component")
        for name in _INVOLVED:
            yield f"regarding.{name}", ("involvedObject", name)


def _resource(kind: Kind) -> Resource:
    short = _SHORT_NAMES.get(kind.kind)
    return Resource(
        *(kind.kind, kind.plural, kind.group, kind.namespaced, kind.versions),
        short_names=(short,) if short else (),
        fields=dict(_paths(kind)),
        has_status=kind.kind in _WITH_STATUS,
        has_generation=kind.kind in _WITH_GENERATION,
    )


RESOURCES: tuple[Resource, ...] = tuple(
    _resource(kind)
    for kind in (
        Kind("ConfigMap", "configmaps", "", True, ("v1",)),
        EVENT,
        *(KINDS[name] for name in ("Namespace", "Node", "Pod")),
        Kind("ServiceAccount", "serviceaccounts", "", True, ("v1",)),
        LEASE,
        replace(EVENT, group="events.k8s.io"),
        *(kind for kind in KINDS.values() if kind.group == DRA),
    )
)
"""What Kubernetes 1.37 serves with every DRA gate on."""
NAMESPACES = next(resource for resource in RESOURCES if resource.kind == "Namespace")


def serving_only(version: str) -> tuple[Resource, ...]:
    """Return the resources with one version of resource.k8s.io: v1, v1beta2 or v1beta1 (no DeviceTaintRule in that)."""
    return tuple(
        replace(item, versions=(version,)) if item.group == DRA else item
        for item in RESOURCES
        if item.group != DRA or version in item.versions
    )
