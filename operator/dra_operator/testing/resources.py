"""The kinds that the API server serves, and how it treats each: names, versions, status, selectable fields.

Order and content follow kube-apiserver 1.37: `kubectl api-resources` prints the same of both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from dra_operator.api.kinds import RESOURCE_GROUP as DRA
from dra_operator.api.kinds import Kind

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Resource(Kind):
    """One kind. `versions` are those served, the preferred first; the store holds the shape of v1."""

    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Selectable fields beyond metadata.name and metadata.namespace: the selector's name, and where the value is."""
    has_status: bool = False
    has_generation: bool = False
    verbs: tuple[str, ...] = VERBS
    storage: str = ""
    """The key of the store, where two kinds are two views of the same objects."""

    @property
    def singular(self) -> str:
        """The name of one, in lower case."""
        return self.kind.lower()

    @property
    def qualified(self) -> str:
        """The plural with its group, as messages name it: `resourceclaims.resource.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage_key(self) -> str:
        """Under which the objects are stored."""
        return self.storage or self.qualified

    def struct(self, version: str) -> str:
        """Return the Go struct that holds an object in a version: `resource/v1.ResourceClaim`."""
        return f"{self.group.partition('.')[0] or 'core'}/{version}.{self.kind}"


def _same(*names: str) -> dict[str, tuple[str, ...]]:
    return {name: tuple(name.split(".")) for name in names}


_EVENT_FIELDS = _same(
    *(
        f"involvedObject.{name}"
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    ),
    "reason",
    "reportingComponent",
    "type",
)

RESOURCES: tuple[Resource, ...] = (
    Resource("ConfigMap", "configmaps", "", True, ("v1",), short_names=("cm",)),
    Resource(
        "Event",
        "events",
        "",
        True,
        ("v1",),
        short_names=("ev",),
        fields=_EVENT_FIELDS | {"source": ("source", "component")},
        storage="events",
    ),
    Resource(
        "Namespace",
        "namespaces",
        "",
        False,
        ("v1",),
        short_names=("ns",),
        fields=_same("status.phase"),
        has_status=True,
        verbs=tuple(verb for verb in VERBS if verb != "deletecollection"),
    ),
    Resource(
        "Node",
        "nodes",
        "",
        False,
        ("v1",),
        short_names=("no",),
        fields=_same("spec.unschedulable"),
        has_status=True,
    ),
    Resource(
        "Pod",
        "pods",
        "",
        True,
        ("v1",),
        short_names=("po",),
        categories=("all",),
        fields=_same(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
        has_status=True,
        has_generation=True,
    ),
    Resource("ServiceAccount", "serviceaccounts", "", True, ("v1",), short_names=("sa",)),
    Resource("Lease", "leases", "coordination.k8s.io", True, ("v1",)),
    Resource(
        "Event",
        "events",
        "events.k8s.io",
        True,
        ("v1",),
        short_names=("ev",),
        fields=_EVENT_FIELDS
        | {f"regarding.{name}": ("involvedObject", name) for name in ("kind", "namespace", "name", "uid")},
        storage="events",
    ),
    Resource("DeviceClass", "deviceclasses", DRA, False, ("v1", "v1beta2", "v1beta1"), has_generation=True),
    Resource(
        "DeviceTaintRule",
        "devicetaintrules",
        DRA,
        False,
        ("v1", "v1beta2", "v1alpha3"),
        has_status=True,
        has_generation=True,
    ),
    Resource("ResourceClaim", "resourceclaims", DRA, True, ("v1", "v1beta2", "v1beta1"), has_status=True),
    Resource("ResourceClaimTemplate", "resourceclaimtemplates", DRA, True, ("v1", "v1beta2", "v1beta1")),
    Resource(
        "ResourceSlice",
        "resourceslices",
        DRA,
        False,
        ("v1", "v1beta2", "v1beta1"),
        fields=_same("spec.nodeName", "spec.driver", "spec.pool.name"),
        has_generation=True,
    ),
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


# v1beta1 and v1beta2 live 3 and 6 releases after v1; source: zz_generated.prerelease-lifecycle.go of k8s.io/api.
_DEPRECATED = {"v1beta1": ("v1.35", "v1.38"), "v1beta2": ("v1.36", "v1.39"), "v1alpha3": ("v1.36", "v1.39")}


def deprecation(resource: Resource, version: str) -> str:
    """Return the warning that every answer in an old version carries; empty for a current one."""
    if resource.group != DRA or version not in _DEPRECATED:
        return ""
    since, until = _DEPRECATED[version]
    if resource.kind == "DeviceTaintRule" and version == "v1beta2":
        since, until = "v1.39", "v1.42"
    api_version = resource.api_version(version)
    return f"{api_version} {resource.kind} is deprecated in {since}+, unavailable in {until}+"
