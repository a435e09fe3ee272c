"""The kinds the operator reads and writes: where each is served, and in which versions.

Everything that must know a path, a plural or a version asks here. Versions are listed newest first, so the
first one that an API server offers is the one to use.
Source: docs of resource.k8s.io, Kubernetes 1.32 to 1.37; core kinds have one version.
"""

from dataclasses import dataclass

from dra_operator.api.names import GROUP, GROUP_VERSION, RESERVATION_RESOURCE

RESOURCE_GROUP = "resource.k8s.io"
SCHEDULING_GROUP = "scheduling.k8s.io"
CORE_GROUP = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind: its name, plural in paths, its group ("" is core), its scope, its versions (newest first)."""

    kind: str
    plural: str
    group: str
    namespaced: bool
    versions: tuple[str, ...]

    def api_version(self, version: str) -> str:
        """Return what `apiVersion` holds in an object of `version`, e.g. `resource.k8s.io/v1`, or `v1`."""
        return f"{self.group}/{version}" if self.group else version


OWN_KINDS = (
    Kind("AllocationPolicy", "allocationpolicies", GROUP, False, (GROUP_VERSION,)),
    Kind("DeviceReservation", RESERVATION_RESOURCE, GROUP, True, (GROUP_VERSION,)),
    Kind("DeviceMaintenance", "devicemaintenances", GROUP, False, (GROUP_VERSION,)),
)
"""The project's own kinds (docs/kinds.md)."""
OWN_NAMES = tuple(kind.kind for kind in OWN_KINDS)
_RESOURCE_VERSIONS = ("v1", "v1beta2", "v1beta1")

EVENT = Kind("Event", "events", CORE_GROUP, True, ("v1",))
LEASE = Kind("Lease", "leases", "coordination.k8s.io", True, ("v1",))
_ADMISSION_GROUP = "admissionregistration.k8s.io"
POLICIES = tuple(
    Kind(f"{name}{part}", f"{name.lower()}{plural}", _ADMISSION_GROUP, False, ("v1",))
    for name in ("ValidatingAdmissionPolic", "MutatingAdmissionPolic")
    for part, plural in (("y", "ies"), ("yBinding", "ybindings"))
)
"""Kinds of the policies that the project ships, each followed by that of its bindings."""

KINDS: dict[str, Kind] = {
    kind.kind: kind
    for kind in (
        Kind("DeviceClass", "deviceclasses", RESOURCE_GROUP, False, _RESOURCE_VERSIONS),
        Kind("ResourceClaim", "resourceclaims", RESOURCE_GROUP, True, _RESOURCE_VERSIONS),
        Kind("ResourceClaimTemplate", "resourceclaimtemplates", RESOURCE_GROUP, True, _RESOURCE_VERSIONS),
        Kind("ResourceSlice", "resourceslices", RESOURCE_GROUP, False, _RESOURCE_VERSIONS),
        Kind("DeviceTaintRule", "devicetaintrules", RESOURCE_GROUP, False, ("v1", "v1beta2", "v1alpha3")),
        Kind("Node", "nodes", CORE_GROUP, False, ("v1",)),
        Kind("Namespace", "namespaces", CORE_GROUP, False, ("v1",)),
        Kind("Pod", "pods", CORE_GROUP, True, ("v1",)),
        Kind("PersistentVolume", "persistentvolumes", CORE_GROUP, False, ("v1",)),
        Kind("PersistentVolumeClaim", "persistentvolumeclaims", CORE_GROUP, True, ("v1",)),
        Kind("ResourceQuota", "resourcequotas", CORE_GROUP, True, ("v1",)),
        Kind("PriorityClass", "priorityclasses", SCHEDULING_GROUP, False, ("v1",)),
        Kind("PodGroup", "podgroups", SCHEDULING_GROUP, True, ("v1beta1", "v1alpha3", "v1alpha2")),
        EVENT,
        LEASE,
        *POLICIES,
        *OWN_KINDS,
    )
}
"""Every kind by its name."""
