"""Request counts: how many published devices could serve each request, whoever uses them, in two states of a cluster.

A device counts if the selectors select it, its taints are tolerated and its node can be used.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from dra_operator.allocator import Allocator, Decider
from dra_operator.allocator.budget import unlimited
from dra_operator.allocator.matching.candidates import AskContent
from dra_operator.api.types import (
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
)
from dra_operator.questions.published_devices import PublishedDevices, devices_by_node
from dra_operator.questions.state import ClusterState


@dataclass(frozen=True, slots=True)
class RequestImpact:
    """A request of a claim that waits, or of a template, which fewer or more devices can serve after a change."""

    kind: str
    namespace: str
    name: str
    request: str
    devices_before: int
    devices_after: int


@dataclass(frozen=True, slots=True)
class _RequestPlace:
    """A request, and where it stands."""

    place: tuple[str, str, str]
    name: str
    request: ExactDeviceRequest | DeviceSubRequest
    decider: Decider


def compare_requests(before: ClusterState, after: ClusterState) -> Iterator[RequestImpact]:
    """Yield the requests of templates and of claims that wait, which another number of devices can serve afterwards."""
    counters = _RequestCounter(before), _RequestCounter(after)
    for asked in _find_requests(before):
        counts = tuple(counter.count(asked) for counter in counters)
        if counts[0] != counts[1]:
            yield RequestImpact(*asked.place, asked.name, *counts)


def _find_requests(state: ClusterState) -> Iterator[_RequestPlace]:
    for record in state.objects.of_kind("ResourceClaimTemplate"):
        template: ResourceClaimTemplate = record.obj
        metadata = template.metadata
        place = "ResourceClaimTemplate", metadata.namespace, metadata.name
        yield from _of_spec(place, template.spec.spec, Decider.KUBE_SCHEDULER)
    for record in state.objects.of_kind("ResourceClaim"):
        claim: ResourceClaim = record.obj
        metadata = claim.metadata
        if claim.status.allocation is not None or metadata.deletion_timestamp:
            continue
        is_of_pod = any(owner.controller for owner in metadata.owner_references)
        decider = Decider.KUBE_SCHEDULER if is_of_pod else Decider.OPERATOR
        yield from _of_spec(("ResourceClaim", metadata.namespace, metadata.name), claim.spec, decider)


def _of_spec(
    place: tuple[str, str, str], spec: ResourceClaimSpec, decider: Decider
) -> Iterator[_RequestPlace]:
    for request in spec.devices.requests:
        if request.exactly is not None:
            yield _RequestPlace(place, request.name, request.exactly, decider)
        for item in request.first_available:
            yield _RequestPlace(place, f"{request.name}/{item.name}", item, decider)


@dataclass(slots=True)
class _RequestCounter:
    """Counts in one state, once for requests that ask for the same."""

    state: ClusterState
    _published: PublishedDevices = field(init=False)
    _counts: dict[tuple[Decider, AskContent], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._published = PublishedDevices(self.state.inventory)

    def count(self, asked: _RequestPlace) -> int:
        """Return how many devices can serve a request; none if there is no such class."""
        found = self.state.inventory.classes.get(asked.request.device_class_name)
        if found is None:
            return 0
        content = _content(asked, found)
        key = asked.decider, content
        if key not in self._counts:
            self._counts[key] = self._count(self.state.allocators[asked.decider], content)
        return self._counts[key]

    def _count(self, allocator: Allocator, content: AskContent) -> int:
        key = allocator.candidates.key(content, ())
        nodes, total = self.state.inventory.nodes, 0
        for _, slice_ in self._published.slices():
            devices = allocator.candidates.select(key, slice_, unlimited())
            devices = allocator.candidates.tolerated(key, slice_, devices)
            for name, here in devices_by_node(slice_).items() if devices else ():
                if not name or ((node := nodes.get(name)) is not None and node.unusable is None):
                    total += (devices & here).bit_count()
        return total


def _content(asked: _RequestPlace, device_class: DeviceClass) -> AskContent:
    is_admin = bool(getattr(asked.request, "admin_access", None))
    return AskContent(
        _expressions(device_class.spec.selectors),
        _expressions(asked.request.selectors),
        asked.request.tolerations,
        asked.decider.implied(admin_access=is_admin),
    )


def _expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    return tuple(item.cel.expression for item in selectors if item.cel is not None)
