"""What a pod requests of a node: the sum of its containers, or the largest init container with the sidecars before it.

For each resource the larger of both counts, or what the pod requests as a whole, and the overhead on top. Of a pod that
is on a node, what was allocated to it and what it has count as well, while a resize is under way.
Source: k8s.io/component-helpers/resource, `PodRequests`; kube-scheduler's `Resource.Add`; SetDefaults_Pod of core/v1.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from dra_operator.api.validation.checks import KEY
from dra_operator.pods.field_reader import Amounts, FieldReader

Requests: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts above zero by resource, in the order in which kube-scheduler compares them.

Those of cpu are in thousandths, those of others are whole.
"""
_CPU: Final = "cpu"
_ORDER: Final = {_CPU: 0, "memory": 1, "ephemeral-storage": 2}
_OF_PODS: Final = (_CPU, "memory")
_HUGE_PAGES: Final = "hugepages-"


class _Container(NamedTuple):
    """A container and what it requests; a sidecar is an init container that lasts."""

    name: str
    is_init: bool
    is_sidecar: bool
    requests: Amounts


def read_requests(reader: FieldReader, body: Mapping[str, Any]) -> Requests:
    """Return what a pod that has no node requests."""
    spec = reader.part(body, "spec", "")
    total = _aggregate(_containers(reader, spec), lambda container: container.requests)
    _add_node_resources(reader, reader.part(body, "status", ""), total)
    total |= _pod_level(reader, spec, total)
    _add(total, reader.amounts(spec, "overhead", "spec"))
    return as_requests(total)


def read_requests_on_node(reader: FieldReader, body: Mapping[str, Any]) -> Requests:
    """Return what a pod that is on a node requests, by its spec and by its status."""
    spec, status = reader.part(body, "spec", ""), reader.part(body, "status", "")
    containers = [*_containers(reader, spec)]
    is_infeasible = _is_resize_infeasible(reader, status)
    of_spec = _aggregate(containers, lambda container: container.requests)
    _add_node_resources(reader, status, of_spec)
    total = _with_status(reader, status, containers, {} if is_infeasible else of_spec, is_infeasible)
    if pod_level := _pod_level(reader, spec, of_spec):
        resources = reader.part(status, "resources", "status")
        if status.get("resources") is not None:
            pod_level = {} if is_infeasible else pod_level
            _raise_to(pod_level, reader.amounts(resources, "requests", "status.resources"))
            _raise_to(pod_level, reader.amounts(status, "allocatedResources", "status"))
        total |= {name: amount for name, amount in pod_level.items() if _is_of_pods(name)}
    _add(total, reader.amounts(spec, "overhead", "spec"))
    return as_requests(total)


def read_allocatable(reader: FieldReader, status: Mapping[str, Any]) -> dict[str, int]:
    """Return what a node offers by resource, in the units of requests; pods are counted."""
    found = reader.amounts(status, "allocatable", "status")
    return {
        name: _in_units(name, amount)
        for name, amount in found.items()
        if name in _ORDER or name == "pods" or _is_scalar(name)
    }


def as_requests(amounts: Amounts) -> Requests:
    """Return amounts in thousandths as requests, in the order in which they are compared."""
    found = [
        (name, _in_units(name, amount))
        for name, amount in amounts.items()
        if amount > 0 and (name in _ORDER or _is_scalar(name))
    ]
    if len(found) > 1:
        found.sort(key=lambda item: (_ORDER.get(item[0], 3), item[0]))
    return tuple(found)


def _containers(reader: FieldReader, spec: Mapping[str, Any]) -> Iterator[_Container]:
    for field in ("containers", "initContainers"):
        for path, container in reader.parts(spec, field, "spec"):
            resources = reader.part(container, "resources", path)
            path_of_resources = f"{path}.resources"
            requests = reader.amounts(resources, "requests", path_of_resources)
            if resources.get("limits"):
                # The API server does so, but nobody has for a pod from a file.
                requests = reader.amounts(resources, "limits", path_of_resources) | requests
            is_init = field == "initContainers"
            yield _Container(
                reader.text(container, "name", path),
                is_init,
                is_init and container.get("restartPolicy") == "Always",
                requests,
            )


def _aggregate(containers: Iterable[_Container], amounts_of: Callable[[_Container], Amounts]) -> Amounts:
    """Return what containers need that run beside each other, and what init containers need before."""
    total: Amounts = {}
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in containers:
        amounts = amounts_of(container)
        if not total and not container.is_init:
            total = dict(amounts)
        elif not container.is_init:
            _add(total, amounts)
        elif container.is_sidecar:
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise_to(most, sidecars)
        else:
            combined = dict(amounts)
            _add(combined, sidecars)
            _raise_to(most, combined)
    _raise_to(total, most)
    return total


def _with_status(
    reader: FieldReader,
    status: Mapping[str, Any],
    containers: Iterable[_Container],
    of_spec: Amounts,
    is_infeasible: bool,  # noqa: FBT001
) -> Amounts:
    """Return the largest of what is specified, what was allocated and what is in force."""
    pod_resources = reader.part(status, "resources", "status")
    if status.get("allocatedResources") is not None and pod_resources.get("requests") is not None:
        allocated = reader.amounts(status, "allocatedResources", "status")
        actuated = reader.amounts(pod_resources, "requests", "status.resources")
    else:
        by_name = _container_statuses(reader, status)
        if not by_name and not is_infeasible:
            return dict(of_spec)

        def allocated_to(container: _Container) -> Amounts:
            found = by_name.get(container.name, _NO_STATUS)[0]
            return found if found is not None else {} if is_infeasible else container.requests

        def actuated_for(container: _Container) -> Amounts:
            found = by_name.get(container.name, _NO_STATUS)[1]
            return found if found is not None else allocated_to(container)

        allocated = _aggregate(containers, allocated_to)
        _add_node_resources(reader, status, allocated)
        actuated = _aggregate(containers, actuated_for)
    total = dict(of_spec)
    _raise_to(total, actuated)
    _raise_to(total, allocated)
    return total


def _add_node_resources(reader: FieldReader, status: Mapping[str, Any], total: Amounts) -> None:
    """Add the resources of the node that go with devices; known where `DRANodeAllocatableResources` is on."""
    field = "nodeAllocatableResourceClaimStatuses"
    if not status.get(field):
        return
    for path, claim in reader.parts(status, field, "status"):
        users = len(found) if isinstance(found := claim.get("containers"), list) else 0
        for path_of_item, item in reader.parts(claim, "mapping", path):
            name = reader.text(item, "name", path_of_item)
            _add(total, {name: reader.amount(item, "quantity", path_of_item)})
        for path_of_item, item in reader.parts(claim, "overhead", path):
            once = reader.amount(item, "perPod", path_of_item)
            each = reader.amount(item, "perContainer", path_of_item)
            _add(total, {reader.text(item, "name", path_of_item): once + users * each})


_Statuses: TypeAlias = dict[str, tuple[Amounts | None, Amounts | None]]
_NO_STATUS: Final = (None, None)


def _container_statuses(reader: FieldReader, status: Mapping[str, Any]) -> _Statuses:
    """Return what was allocated to containers, and what is in force, by name; None for what is not said."""
    found: _Statuses = {}
    for field in ("containerStatuses", "initContainerStatuses"):
        for path, item in reader.parts(status, field, "status"):
            resources = reader.part(item, "resources", path)
            allocated = actuated = None
            if item.get("allocatedResources") is not None:
                allocated = reader.amounts(item, "allocatedResources", path)
            if resources.get("requests") is not None:
                actuated = reader.amounts(resources, "requests", f"{path}.resources")
            if allocated is not None or actuated is not None:
                found.setdefault(reader.text(item, "name", path), (allocated, actuated))
    return found


def _is_resize_infeasible(reader: FieldReader, status: Mapping[str, Any]) -> bool:
    for _, condition in reader.parts(status, "conditions", "status"):
        if condition.get("type") == "PodResizePending":
            return condition.get("reason") == "Infeasible"
    return False


def _pod_level(reader: FieldReader, spec: Mapping[str, Any], of_containers: Amounts) -> Amounts:
    """Return what a pod requests as a whole, with the defaults of the API server."""
    resources = reader.part(spec, "resources", "spec")
    if not resources:
        return {}
    requests = reader.amounts(resources, "requests", "spec.resources")
    limits = reader.amounts(resources, "limits", "spec.resources")
    defaults = {
        name: of_containers.get(name, amount) if name in _OF_PODS else amount
        for name, amount in limits.items()
    }
    return {name: amount for name, amount in (defaults | requests).items() if _is_of_pods(name)}


def _is_of_pods(name: str) -> bool:
    return name in _OF_PODS or name.startswith(_HUGE_PAGES)


def _is_scalar(name: str) -> bool:
    """True for resources of any name that nodes count: extended ones, huge pages and the like."""
    if "kubernetes.io/" in name or name.startswith((_HUGE_PAGES, "attachable-volumes-")):
        return True
    return "/" in name and not name.startswith("requests.") and KEY.fullmatch(f"requests.{name}") is not None


def _in_units(name: str, amount: int) -> int:
    return amount if name == _CPU else -(-amount // 1000)


def _add(total: Amounts, amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, amounts: Mapping[str, int]) -> None:
    """Raise each amount to that of another, where it is larger."""
    for name, amount in amounts.items():
        if amount > total.get(name, -1):
            total[name] = amount
