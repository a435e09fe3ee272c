"""Discovery: which kinds are served in which versions, as clients walk through /api and /apis.

Of OpenAPI v3 there is what kubectl asks before it applies: that patches can be validated by the server.
Source: k8s.io/apimachinery/pkg/apis/meta/v1 (APIGroupList, APIResourceList).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dra_operator.api.kinds import EVENT, KINDS, LEASE, Kind
from dra_operator.api.kinds import RESOURCE_GROUP as DRA

# --- The kinds that the API server serves, and how it treats each: names, versions, status, selectable fields.
# Order and content follow kube-apiserver 1.37: `kubectl api-resources` prints the same of both.


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


# --- What is said of them.


Json = dict[str, Any]
GIT_VERSION: Final = "v1.37.2"


def answer(
    resources: tuple[Resource, ...], path: str, address: str, version: str = GIT_VERSION
) -> Json | None:
    """Return the document at a path such as /version, /apis or /apis/resource.k8s.io/v1; None if there is none."""
    groups = _groups(resources)
    match path.strip("/").split("/"):
        case ["version"]:
            major, minor = (*version.removeprefix("v").split("."), "")[:2]
            return {"major": major, "minor": minor, "gitVersion": version, "platform": "linux/amd64"}
        case ["api"]:
            servers = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": servers}
        case ["apis"]:
            shown = [_group(group, versions) for group, versions in groups.items() if group]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": shown}
        case ["apis", group] if group in groups:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, groups[group])}
        case ["api", served] if served in groups.get("", ()):
            return _resource_list(resources, "", served)
        case ["apis", group, served] if served in groups.get(group, ()):
            return _resource_list(resources, group, served)
        case ["openapi", "v3"]:
            names = [
                f"apis/{group}/{each}" for group, versions in groups.items() if group for each in versions
            ]
            paths = {name: {"serverRelativeURL": f"/openapi/v3/{name}"} for name in ("api/v1", *names)}
            return {"paths": paths}
        case ["openapi", "v3", "api", served]:
            return _openapi(resources, "", served)
        case ["openapi", "v3", "apis", group, served]:
            return _openapi(resources, group, served)
    return None


def _groups(resources: tuple[Resource, ...]) -> dict[str, list[str]]:
    """Return the versions of each group, the preferred first; the core group is ""."""
    groups: dict[str, set[str]] = {}
    for resource in resources:
        groups.setdefault(resource.group, set()).update(resource.versions)
    return {group: sorted(versions, key=_priority, reverse=True) for group, versions in groups.items()}


def _priority(version: str) -> tuple[int, str]:
    """Stable versions before beta before alpha, then the higher number."""
    return 0 if "alpha" in version else 1 if "beta" in version else 2, version


def _group(group: str, versions: list[str]) -> Json:
    shown = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
    return {"name": group, "versions": shown, "preferredVersion": shown[0]}


def _served(resources: tuple[Resource, ...], group: str, version: str) -> list[Resource]:
    found = [item for item in resources if item.group == group and version in item.versions]
    return sorted(found, key=lambda resource: resource.plural)


def _resource_list(resources: tuple[Resource, ...], group: str, version: str) -> Json:
    listed: list[Json] = []
    for resource in _served(resources, group, version):
        shared = {"namespaced": resource.namespaced, "kind": resource.kind}
        names = {"name": resource.plural, "singularName": resource.kind.lower()}
        short = {"shortNames": [*resource.short_names]} if resource.short_names else {}
        listed.append({**names, **shared, "verbs": [*resource.verbs()], **short})
        if resource.has_status:
            verbs = [*resource.verbs("status")]
            listed.append({"name": f"{resource.plural}/status", "singularName": "", **shared, "verbs": verbs})
    group_version = f"{group}/{version}" if group else version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": listed,
    }


def _openapi(resources: tuple[Resource, ...], group: str, version: str) -> Json:
    """Return that patches of each kind take `fieldValidation`."""
    parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation")]
    paths = {
        f"/{resource.plural}/{{name}}": {
            "patch": {
                "x-kubernetes-group-version-kind": {
                    "group": group,
                    "version": version,
                    "kind": resource.kind,
                },
                "parameters": parameters,
                "responses": {},
            }
        }
        for resource in _served(resources, group, version)
    }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": GIT_VERSION}, "paths": paths}
