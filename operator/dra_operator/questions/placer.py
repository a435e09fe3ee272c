"""Placing copies of a template one after the other, first-fit: each counts for the next.

As kube-scheduler places the pods of a workload, and the operator allocates claims: the first node by name on which all
that a copy asks for fits. Copies ask for the same, so a node that a copy cannot use is of no use for later ones.
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
from collections.abc import Sequence
from dataclasses import field, replace

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decider, Decision, Explanation, Failed, claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Pod
from dra_operator.api.text import near_object
from dra_operator.api.types import AllocationResult, ResourceClaimConsumerReference
from dra_operator.ledger import ClaimKey
from dra_operator.pods.claims import MOST_CONSUMERS, SPECIAL
from dra_operator.pods.explanation import PodExplainer, PodExplanation, count_obstacles
from dra_operator.pods.node_fit import PodRequirements
from dra_operator.pods.nodes import usable
from dra_operator.pods.objects import ObjectRecord
from dra_operator.questions.contents import PRIORITY_CLASS
from dra_operator.questions.copies import Template, number_claim
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


@dataclass(frozen=True, slots=True)
class PlacedCopy:
    """Where a copy would be, and what its claims would get, by entry; `node` is empty where there are none."""

    node: str
    allocations: dict[str, AllocationResult]


@dataclass(slots=True)
class Placer:
    """Places copies of a template in a state, within a trial of it.

    `shared` are the claims without an allocation that other templates name as well, with what they got: one for all
    placers; as are `quotas`, those of the state if left out. `decision` is the last one that was not in favour;
    `is_aborted` if the last copy might fit, as a search for it ran out of its budget; `refusal` is why the API server
    does not take it, or its claims.
    """

    state: ClusterState
    template: Template
    shared: dict[ClaimKey, AllocationResult] = field(default_factory=dict)
    quotas: Quotas | None = None
    decision: Decision | None = None
    is_aborted: bool = False
    refusal: str = ""
    _names: dict[str, None] | None = field(init=False)
    """The nodes that suit the pod, in their order; None for all."""
    _set: int | None = None
    """The same, as the allocator has them."""
    _named: dict[str, AllocationResult] = field(default_factory=dict)
    """What the claims that all copies use have, by entry."""
    _requirements: PodRequirements | None = field(init=False)
    _special: ResourceClaim | None = None
    """What the last copy asked of classes by the name of a resource, on the last node that was asked."""

    def __post_init__(self) -> None:
        pod = self.template.pod
        self.quotas = self.quotas or Quotas(self.state)
        self._names = None
        self._requirements = None
        if pod is not None and not self.state.are_nodes_assumed:
            # Of nodes that are only assumed nobody knows what they have.
            found = self.state.placement.find_suitable(pod)
            self._names = None if found is None else dict.fromkeys(found.nodes)
            self._requirements = self.state.placement.requirements(pod)
        elif pod is not None and pod.obj.spec.node_name:
            self._names = {pod.obj.spec.node_name: None}
        for entry, record in self.template.named.items():
            allocation = record.obj.status.allocation or self.shared.get(claim_key(record.obj))
            if allocation is not None:
                self._named[entry] = allocation

    def place(self, number: int) -> PlacedCopy | None:
        """Place a copy and let it count, or return None if it fits nowhere."""
        self.is_aborted = False
        assert self.quotas is not None
        created = self.template.build_created(number)
        self.refusal = self.quotas.find_refusal(created) or self._find_absent_class()
        if self.refusal or self._is_any_full(number):
            return None
        claims = self._open_claims(number)
        allocator = self.state.allocators[self.template.decider]
        if self._set is None and (nodes := self._nodes()) is not None:
            self._set = allocator.node_set(nodes)
        if not claims:
            placed = self._place_without_claims(number)
        elif self.template.extended is None:
            placed = self._decide(claims, self._set)
        else:
            placed = self._decide_with_extended(number, claims)
        if placed is None:
            return None
        for entry in placed.allocations.keys() & self.template.named.keys():
            self._named[entry], self._set = placed.allocations[entry], None
            self.shared[claim_key(self.template.named[entry].obj)] = placed.allocations[entry]
        self._place_pod(number, placed.node)
        self.quotas.count(created)
        return placed

    def _find_absent_class(self) -> str:
        """Return that the API server refuses the pod, as its PriorityClass is not there; or an empty text."""
        name, objects = self.template.priority_class, self.state.objects
        known = {key[2] for key in objects.bodies if key[0] == PRIORITY_CLASS}
        if not name or name in known or PRIORITY_CLASS not in objects.listed:
            return ""
        near = near_object(name, known)
        meant = f'; did you mean "{near}"?' if near else ""
        return f'there is no PriorityClass "{name}", so the API server refuses the pod{meant}'

    def _decide(
        self, claims: Mapping[str, ResourceClaim], nodes: Sequence[str] | int | None
    ) -> PlacedCopy | None:
        """Decide claims together on one of some nodes, and let that count."""
        # What is asked for as an extended resource is kube-scheduler's, also that of a gated pod.
        decider = Decider.KUBE_SCHEDULER if SPECIAL in claims else self.template.decider
        decision = self._allocate([*claims.values()], nodes, decider)
        if not isinstance(decision, Allocated):
            self.decision = decision
            self.is_aborted |= isinstance(decision, Failed) and decision.kind == "aborted"
            return None
        for claim, result in zip(claims.values(), decision.results, strict=True):
            self.state.ledger.assume(*claim_key(claim), result)
        return PlacedCopy(decision.node, dict(zip(claims, decision.results, strict=True)))

    def _allocate(
        self, claims: Sequence[ResourceClaim], nodes: Sequence[str] | int | None, decider: Decider
    ) -> Decision:
        allocator = self.state.allocators[decider]
        if self._requirements is None:
            return allocator.allocate(claims, nodes, decider=decider)
        # Which nodes suit is for the pod to say: it may tolerate a cordon.
        if nodes is None:
            return allocator.allocate_for_pod(claims, (), decider=decider)
        suitable = nodes if isinstance(nodes, int) else allocator.node_set(nodes)
        return allocator.allocate_for_pod(claims, ~suitable, decider=decider)

    def _place_without_claims(self, number: int) -> PlacedCopy | None:
        nodes = self._nodes()
        extended = self.template.extended
        if extended is None:
            node = self._first(nodes)
            return None if node is None else PlacedCopy(node, {})
        names = [*self.state.nodes] if nodes is None else nodes
        options, plugged = extended.options({name: self.state.nodes[name] for name in names})
        for option in options:
            self._special = number_claim(option.record.obj, number)
            if (placed := self._decide({SPECIAL: self._special}, option.nodes)) is not None:
                return placed
        return PlacedCopy(plugged[0], {}) if plugged else None

    def _decide_with_extended(self, number: int, claims: Mapping[str, ResourceClaim]) -> PlacedCopy | None:
        """Decide claims on a node where what is asked for by the name of a resource fits as well."""
        extended = self.template.extended
        assert extended is not None
        nodes = self._nodes()
        names = dict.fromkeys(self.state.nodes if nodes is None else nodes)
        self._special = None
        while (placed := self._decide(claims, [*names])) is not None:
            options, plugged = extended.options({placed.node: self.state.nodes[placed.node]})
            if plugged:
                return placed
            if options:
                self._special = number_claim(options[0].record.obj, number)
                if (beside := self._decide({SPECIAL: self._special}, [placed.node])) is not None:
                    return PlacedCopy(placed.node, {**placed.allocations, **beside.allocations})
            for claim in claims.values():
                self.state.ledger.withdraw(*claim_key(claim))
            del names[placed.node]
        return None

    def explain(self, number: int) -> PodExplanation:
        """Return why a copy fits nowhere, in the state as it is."""
        if self.refusal:
            return PodExplanation(Reason.CLAIM_NOT_CREATED, self.refusal)
        claims = self._open_claims(number)
        pod = self.template.build_pod(number)
        if self._special is not None:
            found = self._explain_special(self._special)
            return PodExplanation(found.reason, found.message, {SPECIAL: found})
        if pod is None:
            (claim,) = claims.values()
            assert self.decision is not None
            found = self._explain_claim(claim, self.decision, self.template.decider)
            return PodExplanation(found.reason, found.message, dict.fromkeys(claims, found))
        copy: Pod = pod.obj
        explained = self.build_explainer(number).explain(copy, self._requirements or PodRequirements())
        return self._explain_place() if explained is None else explained

    def _explain_place(self) -> PodExplanation:
        """Return why a pod that needs no device can run nowhere."""
        obstacles = self.state.pods.find_obstacles(self.requirements)
        if not self.state.nodes:
            return PodExplanation(Reason.NO_NODES, "there are no nodes")
        why = count_obstacles(obstacles) if obstacles else "no node can be used"
        return PodExplanation(Reason.NODE_UNSUITABLE, f"the pod can run on no node: {why}")

    def _explain_special(self, claim: ResourceClaim) -> Explanation:
        """Return why what is asked for by the name of a resource fits on no node that suits the rest."""
        decider = Decider.KUBE_SCHEDULER
        decision = self._allocate([claim], self._nodes(), decider)
        if not isinstance(decision, Allocated):
            return self._explain_claim(claim, decision, decider)
        extended = self.template.extended
        names = "" if extended is None else ", ".join(extended.wanted)
        text = (
            f"its claims fit, and {names} alone fits on {decision.node}, but no node has room for all of them"
        )
        return Explanation(Reason.CLAIMS_DO_NOT_FIT_TOGETHER, text)

    def _explain_claim(self, claim: ResourceClaim, decision: Decision, decider: Decider) -> Explanation:
        """Return why a claim by itself is not allocated."""
        return self.state.explainers[decider].explain([claim], decision, decider=decider)[0]

    def _is_any_full(self, number: int) -> bool:
        """True if the copies before have taken all places of a claim that all of them name."""
        return any(
            len(record.obj.status.reserved_for) + number > MOST_CONSUMERS
            for record in self.template.named.values()
        )

    def build_explainer(self, number: int) -> PodExplainer:
        """Return what explains the pod of a copy."""
        own = {claim_key(claim): claim for claim in self._open_claims(number).values()}
        earlier = tuple(
            [
                ResourceClaimConsumerReference(resource="pods", uid=f"copy {each}")
                for each in range(1, min(number, MOST_CONSUMERS + 1))
            ]
        )
        for entry, allocation in self._named.items():
            claim = self.template.named[entry].obj
            reserved = (*claim.status.reserved_for, *earlier)
            own[claim_key(claim)] = replace(
                claim, status=replace(claim.status, allocation=allocation, reserved_for=reserved)
            )

        def find_claim(key: ClaimKey) -> ResourceClaim | None:
            return own.get(key) or self.state.find_claim(key)

        decider = self.template.decider
        explainer = self.state.explainers[decider]
        return PodExplainer(explainer, self.state.pods, find_claim, lambda _: True, decider, limits=Limits())

    def find_obstacles(self) -> dict[str, str]:
        """Return the nodes that do not suit the pod as things are, each with the reason."""
        if self._requirements is None:
            return {}
        found = self.state.pods.find_obstacles(self._requirements)
        return {node: str(obstacle) for node, obstacle in found.items()}

    @property
    def requirements(self) -> PodRequirements:
        """What the pod asks of nodes."""
        return self._requirements or PodRequirements()

    def _open_claims(self, number: int) -> dict[str, ResourceClaim]:
        """Return the claims of a copy that have no allocation yet, by entry."""
        shared = {
            entry: record.obj for entry, record in self.template.named.items() if entry not in self._named
        }
        return {**shared, **self.template.build_claims(number)}

    def _nodes(self) -> Sequence[str] | None:
        """Return the nodes where a copy can run and use what it has; None for all."""
        if not self._named:
            return None if self._names is None else [*self._names]
        nodes = self.state.nodes
        names = [*nodes] if self._names is None else self._names
        return list(usable(nodes, names, list(self._named.values())))

    def _first(self, nodes: Sequence[str] | None) -> str | None:
        """Return the first node that can be used: by a pod, all that suit it can."""
        records = self.state.inventory.nodes
        names = sorted(records) if nodes is None else nodes
        is_pod = self._requirements is not None
        return next(
            (name for name in names if name in records and (is_pod or records[name].unusable is None)), None
        )

    def _place_pod(self, number: int, node: str) -> None:
        """Let the pod of a copy have what it requests of its node, and see whether another suits it still."""
        pod = self.template.pod
        if pod is None or self._requirements is None:
            return
        self.state.placement.place(_named(pod, number), node)
        allocator = self.state.allocators[self.template.decider]
        if self.state.pods.find_obstacle(self._requirements, node) is not None:
            if self._names is None:
                self._names = dict.fromkeys(self.state.nodes)
            self._names.pop(node, None)
            self._set = None if self._set is None else self._set & ~allocator.node_set([node])


def _named(pod: ObjectRecord, number: int) -> ObjectRecord:
    """Return the pod of a copy as far as its name and what it requests are concerned."""
    metadata = {**pod.body["metadata"], "name": f"{pod.obj.metadata.name}#{number}"}
    found = Template("", Decider.KUBE_SCHEDULER, {}, {}, pod).build_pod(number)
    assert found is not None
    return ObjectRecord(pod.place, {**pod.body, "metadata": metadata}, found.obj)
