"""Placing copies of a template one after the other, first-fit: each counts for the next.

As kube-scheduler places the pods of a workload, and the operator allocates claims: the first node by name on which all
that a copy asks for fits, as far as quotas admit it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dra_operator.allocator.decision import Failed, Unsatisfied
from dra_operator.allocator.plan import MAX_DEVICES
from dra_operator.allocator.reasons import Reason
from dra_operator.api.quantity import read_quantity
from dra_operator.api.text import did_you_mean, near_object
from dra_operator.api.types import (
    AllocationResult,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
)
from dra_operator.pods.claim_sets import ClaimSet, SetDecider
from dra_operator.pods.explanation import EXTENDED, PodExplanation
from dra_operator.pods.pod_decision import PodDecision
from dra_operator.pods.workloads import part
from dra_operator.questions.answers import DeviceAnswer, devices_of
from dra_operator.questions.contents import PRIORITY_CLASS
from dra_operator.questions.copies import Template

if TYPE_CHECKING:
    from dra_operator.questions.state import ClusterState

KIND: Final = "ResourceQuota"
_CLAIMS: Final = "count/resourceclaims.resource.k8s.io"
_OF_CLASS: Final = ".deviceclass.resource.k8s.io/devices"


class Quotas:
    """What quotas still admit; claims that are counted take from it."""

    def __init__(self, state: "ClusterState") -> None:
        """Read the quotas of a state."""
        self._limits: list[tuple[str, str, str, int]] = []
        """Namespace, quota, resource, and how much there may be of it."""
        self._used: list[int] = []
        """How much there is, by limit."""
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
                    self._limits.append((namespace, name, resource, _number(amount)))
                    self._used.append(taken)

    def find_refusal(self, claims: Iterable[ResourceClaim]) -> str:
        """Return why some more claims are not admitted together, or an empty text."""
        charged = _by_namespace(claims)
        for (namespace, quota, resource, hard), used in zip(self._limits, self._used, strict=True):
            asked = charged[namespace][resource]
            if asked and used + asked > hard:
                return (
                    f'ResourceQuota "{namespace}/{quota}" admits no such claim: {resource}: '
                    f"{used} of {hard} used, {asked} more asked for"
                )
        return ""

    def count(self, claims: Iterable[ResourceClaim]) -> None:
        """Let some claims count as created."""
        charged = _by_namespace(claims)
        for number, (namespace, _, resource, _) in enumerate(self._limits):
            self._used[number] += charged[namespace][resource]


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


def _by_namespace(claims: Iterable[ResourceClaim]) -> Mapping[str, Counter[str]]:
    found = defaultdict[str, Counter[str]](Counter)
    for claim in claims:
        found[claim.metadata.namespace].update(charge(claim))
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


@dataclass(frozen=True, slots=True)
class PlacedCopy:
    """Where a copy would be, and what its claims would get, by entry; `node` is empty where there are none."""

    node: str
    allocations: dict[str, AllocationResult]

    @property
    def devices(self) -> tuple[DeviceAnswer, ...]:
        """What all claims would get."""
        return tuple([item for entry, each in self.allocations.items() for item in devices_of(entry, each)])


@dataclass(slots=True)
class Placer:
    """Places copies of a template in a state, within a trial of it.

    `decider` and `quotas` are one for all placers of an answer: claims that several templates name are allocated once.
    `decision` is the last one that was not in favour; `refusal` is why the API server does not take the last copy, or
    its claims.
    """

    state: "ClusterState"
    template: Template
    decider: SetDecider
    quotas: "Quotas"
    decision: Failed | Unsatisfied = field(default_factory=Unsatisfied)
    refusal: str = ""

    @property
    def is_aborted(self) -> bool:
        """Whether the last copy might fit, as a search for it ran out of its budget."""
        return isinstance(self.decision, Failed) and self.decision.kind == "aborted"

    def place(self, number: int) -> PlacedCopy | None:
        """Place a copy and let it count, or return None if it fits nowhere."""
        created = self.template.build_created(number)
        self.refusal = self.quotas.find_refusal(created) or self._find_absent_class()
        if self.refusal:
            return None
        decision = self.decider.decide(self.build_set(number))
        if not isinstance(decision, PodDecision):
            self.decision = decision
            return None
        self.quotas.count(created)
        names = {claim.metadata.name: entry for entry, claim in self.template.build_all(number).items()}
        allocations = {names[name]: each for name, each in decision.allocations.items()}
        if decision.extended is not None:
            allocations[EXTENDED] = decision.extended[1]
        return PlacedCopy(decision.node, allocations)

    def build_set(self, number: int) -> ClaimSet:
        """Return the claims of a copy, with its pod."""
        claims, pod = self.template.build_all(number).values(), self.template.build_pod(number)
        return ClaimSet.of_claims(claims, self.template.decider, pod)

    def explain(self, number: int) -> PodExplanation:
        """Return why a copy fits nowhere, in the state as it is."""
        if self.refusal:
            return PodExplanation(Reason.CLAIM_NOT_CREATED, self.refusal)
        return self.decider.explain(self.build_set(number), self.decision)

    def _find_absent_class(self) -> str:
        """Return that the API server refuses the pod, as its PriorityClass is not there; or an empty text."""
        name, objects = self.template.priority_class, self.state.objects
        known = {key[2] for key in objects.bodies if key[0] == PRIORITY_CLASS}
        if not name or name in known or PRIORITY_CLASS not in objects.listed:
            return ""
        hint = did_you_mean(near_object(name, known))
        return f'there is no PriorityClass "{name}", so the API server refuses the pod{hint}'

    def find_obstacles(self) -> dict[str, str]:
        """Return the nodes that do not suit the pod as things are, each with the reason."""
        requirements = self.decider.requirements(self.build_set(1))
        found = {} if self.template.pod is None else self.state.pods.find_obstacles(requirements)
        return {node: str(obstacle) for node, obstacle in found.items()}
