"""Extended resources: the claim that stands for what a pod's containers ask for by resource name.

Where no device plugin of a node serves a name and a DeviceClass does, kube-scheduler makes one claim for all containers
of the pod, with a request each for those that run beside each other. Init containers that end before share a request
for what is missing. Source: docs/dra-semantics 8.7; kube-scheduler `dynamicresources/extendeddynamicresources.go`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.api.core import Container, Metadata, OwnerReference, Pod
from dra_operator.api.names import SPECIAL_CLAIM_ANNOTATION
from dra_operator.api.quantity import NANO, Quantity, parse_quantity
from dra_operator.api.types import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""What precedes the name of a class in the resource name that every class has."""
PLACEHOLDER: Final = "<extended-resources>"
"""The name of the claim while it has none; no object of the API server can be called so."""


def classes_by_resource(classes: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
    """Return the class that serves each resource name.

    Each class serves its implicit name. Of several that claim one `extendedResourceName` the newest serves it, of
    equally old ones the first by name.
    """
    found: dict[str, DeviceClass] = {}
    # Sorted so that the one that wins comes last: by name, the first last, and then by age, which is kept stable.
    by_name = sorted(classes, key=lambda item: item.metadata.name, reverse=True)
    for item in sorted(by_name, key=lambda item: item.metadata.creation_timestamp or ""):
        if item.spec.extended_resource_name:
            found[item.spec.extended_resource_name] = item
    found.update({CLASS_PREFIX + item.metadata.name: item for item in by_name})
    return found


def extended_resources(pod: Pod) -> tuple[str, ...]:
    """Return the names of the extended resources of which the pod's containers want any, sorted."""
    wanted = {name for item in _containers(pod) for name, amount in _requests(item).items() if amount.nano}
    return tuple(sorted(filter(is_extended, wanted)))


def special_claim(
    pod: Pod, classes: Mapping[str, DeviceClass], allocatable: Mapping[str, Any]
) -> ResourceClaim | None:
    """Return the claim that a pod needs on a node for its extended resources, or None if it needs none.

    `classes` is by resource name; `allocatable` is that of the node, `status.allocatable`.
    """
    names = {name for item in _containers(pod) for name in _requests(item)}
    served = [
        name for name in names if name in classes and is_extended(name) and not _has_plugin(allocatable, name)
    ]
    requests = [
        request for name in served for request in _Sharing(pod, name, classes[name].metadata.name).requests()
    ]
    return _claim(pod, sorted(requests, key=lambda item: item.name)) if requests else None


def is_extended(name: str) -> bool:
    """True if a resource of this name is not one of Kubernetes' own."""
    if name.startswith(CLASS_PREFIX):
        return True
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


@dataclass(frozen=True, slots=True)
class _Sharing:
    """One resource of a pod, and the class that serves it."""

    pod: Pod
    resource: str
    device_class: str

    def requests(self) -> list[DeviceRequest]:
        """Return the requests for the resource: one for each container that lasts, and one for what others lack."""
        lasting: dict[int, DeviceRequest] = {}
        for position, container, lasts in _positions(self.pod):
            if lasts and (count := self._count(container)):
                lasting[position] = self._request(position, container, count)
        passing: list[DeviceRequest] = []
        for position, container, lasts in _positions(self.pod):
            if not lasts and (count := self._count(container)):
                reused = sum(_size(request) for at, request in lasting.items() if at >= position)
                if reused < count:
                    passing.append(self._request(position, container, count - reused))
        # They run one after the other, so the largest request, the first of equals, is enough for all of them.
        return [max(passing, key=_size), *lasting.values()] if passing else [*lasting.values()]

    def _count(self, container: Container) -> int:
        """Return how many devices a container wants; 0 too if the amount is not a whole number."""
        amount = _requests(container).get(self.resource)
        if amount is None or amount.nano <= 0 or amount.nano % NANO:
            return 0
        return amount.nano // NANO

    def _request(self, position: int, container: Container, count: int) -> DeviceRequest:
        # The second number counts all resources of the container, cpu and memory too.
        number = sorted(_requests(container)).index(self.resource)
        exactly = ExactDeviceRequest(
            device_class_name=self.device_class, allocation_mode="ExactCount", count=count
        )
        return DeviceRequest(name=f"container-{position}-request-{number}", exactly=exactly)


def _size(request: DeviceRequest) -> int:
    return 0 if request.exactly is None else request.exactly.count


def _containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.init_containers, *pod.spec.containers)


def _positions(pod: Pod) -> list[tuple[int, Container, bool]]:
    """Return each container with its position, and whether it lasts: all do but plain init containers."""
    first = len(pod.spec.init_containers)
    return [
        (position, item, position >= first or item.restart_policy == "Always")
        for position, item in enumerate(_containers(pod))
    ]


def _requests(container: Container) -> dict[str, Quantity]:
    """Return what a container requests; a limit without a request is one, as the API server has it."""
    return {**container.resources.limits, **container.resources.requests}


def _has_plugin(allocatable: Mapping[str, Any], name: str) -> bool:
    """True if a device plugin of the node serves a resource."""
    try:
        return parse_quantity(str(allocatable.get(name, "0"))).nano > 0
    except ValueError:
        return False


def _claim(pod: Pod, requests: Iterable[DeviceRequest]) -> ResourceClaim:
    owner = OwnerReference(kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True)
    metadata = Metadata(
        name=PLACEHOLDER,
        namespace=pod.metadata.namespace,
        creation_timestamp=pod.metadata.creation_timestamp,
        annotations={SPECIAL_CLAIM_ANNOTATION: "true"},
        owner_references=(owner,),
    )
    return ResourceClaim(metadata, ResourceClaimSpec(DeviceClaim(requests=tuple(requests))))
