"""Quotas: how many claims, and devices of a class, a ResourceQuota lets be asked for in its namespace.

A claim counts as one, and for each class with what it may get at most: of alternatives the largest, of `All` 32. What
is enforced is `status.hard`, beside `status.used`; where files give no status, what their claims come to.
Source: k8s.io/kubernetes/pkg/quota/v1/evaluator/core/resource_claims.go, `Usage`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dra_operator.allocator.plan import MAX_DEVICES
from dra_operator.api.quantity import read_quantity
from dra_operator.api.types import DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from dra_operator.pods.workloads import part

if TYPE_CHECKING:
    from dra_operator.questions.state import ClusterState

KIND: Final = "ResourceQuota"
_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"


@dataclass(slots=True)
class _Limit:
    """What one quota has of one resource: how much there may be, and how much there is."""

    quota: str
    namespace: str
    resource: str
    hard: int
    used: int


class Quotas:
    """What quotas still admit; claims that are counted take from it."""

    def __init__(self, state: "ClusterState") -> None:
        """Read the quotas of a state."""
        self._limits: list[_Limit] = []
        for (kind, namespace, name), body in state.objects.bodies.items():
            if kind != KIND or _has_scopes(body):
                continue
            status, used = part(body, "status"), part(body, "status", "used")
            hard = part(status, "hard") or (part(body, "spec", "hard") if not status else {})
            charged = Counter[str]()
            if not status:
                for record in state.objects.of_kind("ResourceClaim"):
                    if record.obj.metadata.namespace == namespace:
                        charged += charge(record.obj)
            for resource, amount in hard.items():
                if resource == _CLAIMS or resource.endswith(_OF_CLASS):
                    taken = _number(used.get(resource, 0)) + charged[resource]
                    self._limits.append(_Limit(name, namespace, resource, _number(amount), taken))

    def find_refusal(self, claims: Iterable[ResourceClaim]) -> str:
        """Return why some more claims are not admitted together, or an empty text."""
        for namespace, charged in _by_namespace(claims).items():
            for limit in self._limits:
                asked = charged[limit.resource]
                if limit.namespace == namespace and asked and limit.used + asked > limit.hard:
                    return (
                        f'ResourceQuota "{namespace}/{limit.quota}" admits no such claim: {limit.resource}: '
                        f"{limit.used} of {limit.hard} used, {asked} more asked for"
                    )
        return ""

    def count(self, claims: Iterable[ResourceClaim]) -> None:
        """Let some claims count as created."""
        for namespace, charged in _by_namespace(claims).items():
            for limit in self._limits:
                if limit.namespace == namespace:
                    limit.used += charged[limit.resource]


def charge(claim: ResourceClaim) -> Counter[str]:
    """Return what a claim is charged for, by the name of a resource."""
    found = Counter({_CLAIMS: 1})
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            found[f"{request.exactly.device_class_name}{_OF_CLASS}"] += _devices(request.exactly)
        largest = Counter[str]()
        for item in request.first_available:
            largest |= Counter({f"{item.device_class_name}{_OF_CLASS}": _devices(item)})
        found += largest
    return found


def _devices(request: ExactDeviceRequest | DeviceSubRequest) -> int:
    return MAX_DEVICES if request.allocation_mode == "All" else request.count or 1


def _by_namespace(claims: Iterable[ResourceClaim]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for claim in claims:
        found.setdefault(claim.metadata.namespace, Counter()).update(charge(claim))
    return found


def _has_scopes(body: Mapping[str, Any]) -> bool:
    """Return whether a quota is for some objects only: claims are none of them."""
    spec = part(body, "spec")
    return bool(spec.get("scopes") or spec.get("scopeSelector"))


def _number(amount: Any) -> int:
    """Return an amount as a number; what is none, which no API server stores, admits nothing."""
    try:
        return read_quantity(amount).nano // 10**9
    except ValueError:
        return 0
