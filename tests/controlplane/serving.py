"""What an API server serves: gates, versions of APIs, and who decides about access, as the flags that say so."""

from collections.abc import Iterator
from dataclasses import dataclass

FEATURE_GATES = ",".join(
    f"{gate}=true"
    for gate in (
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        # On by itself only where no component is older than 1.37.
        "DRAFractionalCapacityRange",
        "DRAListTypeAttributes",
        "DRANodeAllocatableResources",
        "DRAOptionalNodeOperations",
        "DRAPartitionableDevicesType",
        "DRAResourcePoolStatus",
        "DRAWorkloadResourceClaims",
        "GenericWorkload",
    )
)
"""The gates of Dynamic Resource Allocation that are off unless somebody switches them on."""
RUNTIME_CONFIG = ",".join(
    f"{version}=true"
    for version in (
        "resource.k8s.io/v1",
        "resource.k8s.io/v1beta1",
        "resource.k8s.io/v1beta2",
        "resource.k8s.io/v1alpha3",
        "scheduling.k8s.io/v1beta1",
    )
)


@dataclass(frozen=True, slots=True)
class Serving:
    """What an API server serves, and who decides about access, in the words of its flags.

    `emulated` is the minor version that it behaves like, if that is not its own: then it has neither the gates nor the
    versions of APIs that came later. Servers look back three versions. `without_admission` are plugins of admission
    that are off besides those that need a kubelet.
    """

    feature_gates: str = ""
    runtime_config: str = ""
    authorization: str = "Node,RBAC"
    emulated: str = ""
    without_admission: tuple[str, ...] = ()

    def flags(self) -> Iterator[str]:
        """Yield the flags; those that would be empty are left out."""
        yield f"--authorization-mode={self.authorization}"
        off = ("ServiceAccount", "TaintNodesByCondition", *self.without_admission)
        yield f"--disable-admission-plugins={','.join(off)}"
        if self.feature_gates:
            yield f"--feature-gates={self.feature_gates}"
        if self.runtime_config:
            yield f"--runtime-config={self.runtime_config}"
        if self.emulated:
            yield f"--emulated-version={self.emulated}"


EVERYTHING = Serving(FEATURE_GATES, RUNTIME_CONFIG)
EMULATED = ("1.34", "1.35", "1.36", "1.37")
"""The versions of Kubernetes, as installed, whose API server tests run against, the oldest first."""


def only(version: str) -> Serving:
    """Return what serves `resource.k8s.io` in one version alone, as a server of before 1.34 does.

    This one needs v1 for extended resources, and for its authorizer of nodes: both are off.
    """
    versions = ("v1", "v1beta1", "v1beta2", "v1alpha3")
    return Serving(
        "DRAExtendedResource=false",
        ",".join(f"resource.k8s.io/{each}={str(each == version).lower()}" for each in versions),
        "RBAC",
        emulated="1.34",
    )


def as_of(minor: str) -> Serving:
    """Return what a cluster of this minor version serves as it is installed: no gate or API switched on or off."""
    return Serving(emulated=minor)
