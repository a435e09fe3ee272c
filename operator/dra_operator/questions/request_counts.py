"""Request counts: how many published devices could serve each request, whoever uses them, in two states of a cluster.

A device counts if the selectors select it, its taints are tolerated and its node can be used.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from dra_operator.allocator import Decider
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.matching.candidates import AskContent
from dra_operator.api.types import DeviceSelector, DeviceToleration, ResourceClaim
from dra_operator.pods.edits import find_parts
from dra_operator.questions.device_table import PublishedDevices, devices_by_node
from dra_operator.questions.partial import UNFINISHED
from dra_operator.questions.state import ClusterState


@dataclass(frozen=True, slots=True)
class RequestImpact:
    """A request of a claim that waits, or of a template, which fewer or more devices can serve after a change.

    It asks for so many devices; 0 stands for all.
    """

    kind: str
    namespace: str
    name: str
    request: str
    devices_before: int
    devices_after: int
    asked: int = 1

    @property
    def is_decisive(self) -> bool:
        """Whether enough devices could serve it before and cannot after the change, or the other way round."""
        return not self.asked or (self.devices_before < self.asked) is not (self.devices_after < self.asked)


def compare_requests(
    before: ClusterState, after: ClusterState
) -> tuple[tuple[RequestImpact, ...], tuple[str, ...]]:
    """Return the requests of templates and of claims that wait, which another number of devices can serve afterwards.

    And a line for each of which that is not known, as its selectors take longer than a tenth of the time of a claim.
    """
    found: list[RequestImpact] = []
    unfinished: list[str] = []
    count_before, count_after = (cache(partial(_count, state)) for state in (before, after))
    for kind, claim, decider in _find_claims(before):
        names = kind, claim.metadata.namespace, claim.metadata.name
        for part in find_parts({"": claim}):
            asked = part.asked
            request = _Request(
                decider,
                asked.device_class_name,
                _expressions(asked.selectors),
                asked.tolerations,
                bool(getattr(asked, "admin_access", None)),
            )
            number = asked.count if asked.allocation_mode == "ExactCount" else 0
            first, then = count_before(request), count_after(request)
            if first is None or then is None:
                unfinished.append(f"{kind} {'/'.join(names[1:])}: {UNFINISHED}")
            elif first != then:
                found.append(RequestImpact(*names, part.path, first, then, number))
    return tuple(found), tuple(unfinished)


class _Request(NamedTuple):
    """What requests have in common that the same devices can serve."""

    decider: Decider
    device_class: str
    selectors: tuple[str, ...]
    tolerations: tuple[DeviceToleration, ...]
    is_admin: bool


def _find_claims(state: ClusterState) -> Iterator[tuple[str, ResourceClaim, Decider]]:
    """Yield the claims that wait, and templates as such, each with who decides."""
    for record in state.objects.of_kind("ResourceClaimTemplate"):
        claim = ResourceClaim(record.obj.metadata, record.obj.spec.spec)
        yield "ResourceClaimTemplate", claim, Decider.KUBE_SCHEDULER
    for record in state.objects.of_kind("ResourceClaim"):
        claim = record.obj
        if claim.status.allocation is None and not claim.metadata.deletion_timestamp:
            is_of_pod = claim.metadata.is_made_for_pods
            yield "ResourceClaim", claim, Decider.KUBE_SCHEDULER if is_of_pod else Decider.OPERATOR


def _count(state: ClusterState, request: _Request) -> int | None:
    """Return how many devices can serve a request, none if there is no such class; None if that takes too long."""
    found = state.inventory.classes.get(request.device_class)
    if found is None:
        return 0
    allocator, nodes, total = state.allocators[request.decider], state.inventory.nodes, 0
    content = AskContent(
        _expressions(found.spec.selectors),
        request.selectors,
        request.tolerations,
        request.decider.implied(admin_access=request.is_admin),
    )
    key = allocator.candidates.key(content, ())
    budget = Budget(allocator.limits, allocator.clock).tenth()
    for _, slice_ in PublishedDevices(state.inventory).slices():
        try:
            devices = allocator.candidates.select(key, slice_, budget)
        except AbortedError:
            return None
        devices = allocator.candidates.tolerated(key, slice_, devices)
        for name, here in devices_by_node(slice_).items() if devices else ():
            if not name or ((node := nodes.get(name)) is not None and node.unusable is None):
                total += (devices & here).bit_count()
    return total


def _expressions(selectors: Iterable[DeviceSelector]) -> tuple[str, ...]:
    return tuple([item.cel.expression for item in selectors if item.cel is not None])
