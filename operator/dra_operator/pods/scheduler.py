"""Decides claims, those of a pod together on one node; each decision counts for the next, as an assumed one.

The operator decides about the devices that it owns, kube-scheduler, which decides about claims of pods, about the
others. A pod that must run on some nodes waits for devices that these see: what it waits for is explained by an
inventory of these nodes alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Allocated, Decider, Decision, Explanation, claim_key
from dra_operator.allocator.reasons import Reason
from dra_operator.api.core import Node
from dra_operator.api.names import OPT_OUT_LABEL
from dra_operator.api.text import listed
from dra_operator.api.types import AllocationResult, ResourceClaim, ResourceSlice
from dra_operator.explain import Explainer
from dra_operator.inventory import Inventory, PoolKey, PoolView, Verdict, Views
from dra_operator.inventory.ownership import Settlement
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.pods.objects import ObjectRecord, ObjectSet
from dra_operator.pods.placement import PodPlacement

_WHEREVER = ("DeviceClass", "Namespace", "DeviceTaintRule")


class State(Enum):
    """What a claim comes to; the value is the word that is printed."""

    ALLOCATED = "allocated"
    HELD = "held"
    BROKEN = "broken"
    PENDING = "pending"
    LEFT_ALONE = "left alone"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A claim and what it comes to.

    `allocation` and `node` are set for ALLOCATED, `allocation` for HELD and BROKEN; `reason` (of docs/reasons.md) for
    PENDING; `message` is the line for PENDING, BROKEN and LEFT_ALONE.
    """

    record: ObjectRecord
    state: State
    allocation: AllocationResult | None = None
    node: str = ""
    reason: str = ""
    message: str = ""

    @property
    def claim(self) -> ResourceClaim:
        """The claim as it was before."""
        claim: ResourceClaim = self.record.obj
        return claim


@dataclass(frozen=True, slots=True)
class Option:
    """A claim, and the nodes that it is for."""

    record: ObjectRecord
    nodes: tuple[str, ...]


@dataclass(slots=True)
class Scheduler:
    """Decides the claims of one cluster, whose `nodes` are those that claims may go to, by name.

    `placement` says on which of them pods can run. `new_allocator` makes one for another inventory; `broken` says what
    is wrong with allocations that are there.
    """

    objects: ObjectSet
    nodes: Mapping[str, Node]
    ledger: Ledger
    allocators: Mapping[Decider, Allocator]
    new_allocator: Callable[[Decider, Inventory], Allocator]
    broken: Mapping[ClaimKey, str]
    placement: PodPlacement
    _inventories: "NodeInventories" = field(init=False)
    explainers: Mapping[Decider, Explainer] = field(init=False)

    def __post_init__(self) -> None:
        views = self.allocators[Decider.OPERATOR].availability.views
        self._inventories = NodeInventories(self.objects, self.nodes, views)
        self.explainers = {decider: Explainer(each) for decider, each in self.allocators.items()}

    def allocate(
        self, claims: Sequence[ObjectRecord], nodes: Sequence[str] | None = None, *, decider: Decider
    ) -> Decision:
        """Decide some claims together, on one of these nodes. `accept` makes the decision count for the next one.

        The operator decides about devices that it owns, and kube-scheduler, which decides about claims of pods, about
        the others.
        """
        return self.allocators[decider].allocate([record.obj for record in claims], nodes)

    def allocate_for_pod(
        self, claims: Sequence[ObjectRecord], nodes: Sequence[str] | None, *, decider: Decider
    ) -> Decision:
        """Decide the claims of a pod together, on one of the nodes that suit it, which may be cordoned; None: all."""
        allocator = self.allocators[decider]
        excluded = () if nodes is None else ~allocator.node_set(nodes)
        return allocator.allocate_for_pod([record.obj for record in claims], excluded, decider=decider)

    def accept(self, claims: Sequence[ObjectRecord], decision: Allocated) -> list[Outcome]:
        """Enter a decision in the ledger, and return what its claims come to."""
        outcomes: list[Outcome] = []
        for record, result in zip(claims, decision.results, strict=True):
            metadata = record.obj.metadata
            self.ledger.assume(metadata.namespace, metadata.name, result)
            outcomes.append(Outcome(record, State.ALLOCATED, result, decision.node))
        return outcomes

    def explain(self, record: ObjectRecord, decision: Decision, *, decider: Decider) -> Outcome:
        """Return a claim that waits, and why, where nothing but that decision is against it."""
        explanation = self.explainers[decider].explain((record.obj,), decision)[0]
        return pending(record, explanation)

    def decide_first(self, options: Sequence[Option], pod: ObjectRecord) -> Outcome:
        """Decide the first of some claims of a pod that fits on one of its nodes; the others are not needed then."""
        if (found := self.settled(options[0].record)) is not None:
            return found
        for option in options:
            decision = self.allocate((option.record,), option.nodes, decider=Decider.KUBE_SCHEDULER)
            if isinstance(decision, Allocated):
                return self.accept((option.record,), decision)[0]
        return self.explain_on(options[0].record, options[0].nodes, pod)

    def explain_on(
        self, record: ObjectRecord, nodes: Sequence[str], pod: ObjectRecord | None = None
    ) -> Outcome:
        """Return a claim that fits on none of the nodes where its pod can run and use its other claims, and why."""
        decision = self.allocate((record,), decider=Decider.KUBE_SCHEDULER)
        explanation = None if {*nodes} == self.nodes.keys() else self._explain_by_nodes(record, nodes)
        if not isinstance(decision, Allocated):
            if explanation is not None:
                return pending(record, explanation)
            return self.explain(record, decision, decider=Decider.KUBE_SCHEDULER)
        runnable = None if pod is None else self.placement.find_runnable(pod)
        if runnable is not None and runnable.is_against(decision.node):
            text = f"it fits on node {decision.node}, but {runnable.why}"
        else:
            text = (
                f"it fits on node {decision.node}, but the pod can only run on {listed(nodes) or 'no node'}"
            )
        if explanation is not None:
            return pending(record, replace(explanation, message=f"{explanation.message}; {text}"))
        return pending(record, Explanation(Reason.REQUESTS_DO_NOT_FIT_TOGETHER, text))

    def _explain_by_nodes(self, record: ObjectRecord, nodes: Sequence[str]) -> Explanation | None:
        """Return what a claim waits for on some nodes, as if there were no others; None if that cannot be told."""
        known = [name for name in nodes if name in self.nodes]
        if not known:
            return None
        # Its views are asked, and nothing else may have been asked of it yet.
        self.allocators[Decider.OPERATOR].refresh()
        inventory = self._inventories.inventory(known)
        allocator = self.new_allocator(Decider.KUBE_SCHEDULER, inventory)
        decision = allocator.allocate((record.obj,))
        if isinstance(decision, Allocated):
            return None
        explanation = Explainer(allocator).explain((record.obj,), decision)[0]
        return replace(explanation, message=f"on {listed(known)}: {explanation.message}")

    def settled(self, record: ObjectRecord) -> Outcome | None:
        """Return what a claim comes to of which nothing is decided; None for another."""
        return find_settled(record, self.broken)


@dataclass(slots=True)
class NodeInventories:
    """Makes inventories of some nodes, from objects and from what their nodes see of them."""

    objects: ObjectSet
    nodes: Mapping[str, Node]
    views: Views
    _slices: dict[PoolKey, list[ResourceSlice]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for record in self.objects.of_kind("ResourceSlice"):
            spec = record.obj.spec
            self._slices.setdefault((spec.driver, spec.pool.name), []).append(record.obj)

    def inventory(self, names: Sequence[str]) -> Inventory:
        """Return the inventory of some nodes; views must be up to date."""
        asked = self.views.inventory.settlement
        found = Inventory(
            settlement=None if asked is None else Settlement(), full_names=self.views.inventory.full_names
        )
        for kind in _WHEREVER:
            for record in self.objects.of_kind(kind):
                found.put(record.obj)
        seen: dict[PoolKey, list[PoolView]] = {}
        for name in names:
            found.put(self.nodes[name])
            for view in self.views.of_node(name).pools:
                seen.setdefault(view.key, []).append(view)
        for key, views in seen.items():
            for item in self._slices[key]:
                found.put(_as_seen(item, views))
        if asked is not None:
            found.settle(found.rules.keys(), found.pools.keys())
        return found


def _as_seen(item: ResourceSlice, views: Sequence[PoolView]) -> ResourceSlice:
    """Return a slice, without devices if all of the views leave it out."""
    # What is wrong with a pool that is not complete follows from all of its slices.
    if any(
        view.verdict is not Verdict.COMPLETE
        or any(content.name == item.metadata.name for content in view.slices)
        for view in views
    ):
        return item
    return replace(item, spec=replace(item.spec, devices=()))


def find_settled(record: ObjectRecord, broken: Mapping[ClaimKey, str]) -> Outcome | None:
    """Return what a claim comes to of which nothing is decided; None for another.

    `broken` says what is wrong with allocations.
    """
    claim: ResourceClaim = record.obj
    metadata = claim.metadata
    if claim.status.allocation is not None:
        problem = broken.get(claim_key(claim))
        state = State.HELD if problem is None else State.BROKEN
        return Outcome(record, state, claim.status.allocation, message=problem or "")
    if metadata.deletion_timestamp:
        return Outcome(record, State.LEFT_ALONE, message="it is being deleted")
    if metadata.labels.get(OPT_OUT_LABEL) == "false":
        return Outcome(record, State.LEFT_ALONE, message=f'label {OPT_OUT_LABEL} is "false"')
    return None


def pending(record: ObjectRecord, explanation: Explanation) -> Outcome:
    """Return a claim that waits, and why."""
    return Outcome(record, State.PENDING, reason=explanation.reason.value, message=explanation.message)


def by_name(outcome: Outcome) -> tuple[str, str]:
    """Return what outcomes are sorted by when they are shown: namespace and name of the claim."""
    return outcome.claim.metadata.namespace, outcome.claim.metadata.name
