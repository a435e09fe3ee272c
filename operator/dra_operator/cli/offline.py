"""Some nodes: the cluster as it is for claims that can be used on some of its nodes only.

A pod that must run on a node waits for devices that this node sees, whatever others have. So pools that none of the
nodes sees are left out; of the others, slices that none of them sees count, but their devices do not.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from random import Random

from dra_operator.allocator import Allocated, Allocator, Decider, Decision, Explanation, Limits, Reason
from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Metadata, Node, NodeSelector
from dra_operator.api.names import OPT_OUT_LABEL, POD_CLAIM_NAME, share_id
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.text import listed
from dra_operator.api.types import AllocationResult, Device, ResourceClaim, ResourceSlice, ResourceSliceSpec
from dra_operator.cli.load import Gathered, Thing
from dra_operator.controller import messages
from dra_operator.inventory import Inventory, PoolKey, PoolView, Verdict, Views
from dra_operator.inventory.ownership import Settlement, is_owned_taint, owns
from dra_operator.ledger import BrokenAllocations, Cause, ClaimKey, Ledger, Overcommitments

_WHEREVER = ("DeviceClass", "Namespace", "DeviceTaintRule")


@dataclass(slots=True)
class SomeNodes:
    """Makes inventories of some nodes, from objects and from what their nodes see of them."""

    gathered: Gathered
    nodes: Mapping[str, Node]
    views: Views
    _slices: dict[PoolKey, list[ResourceSlice]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for thing in self.gathered.of("ResourceSlice"):
            spec = thing.obj.spec
            self._slices.setdefault((spec.driver, spec.pool.name), []).append(thing.obj)

    def inventory(self, names: Sequence[str]) -> Inventory:
        """Return the inventory of some nodes; views must be up to date."""
        asked = self.views.inventory.settlement
        found = Inventory(settlement=None if asked is None else Settlement())
        for kind in _WHEREVER:
            for thing in self.gathered.of(kind):
                found.put(thing.obj)
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


_HOSTNAME = "kubernetes.io/hostname"
_MADE_UP = "node-1"
_NOT_CHOSEN = "left out by --node"
_ALLOCATABLE_RESOURCES = "DRANodeAllocatableResources"
_MOST_LOOKED_AT = 1000
"""So many allocated claims are looked at for selectors that fail elsewhere: each may have its own."""
_NO_SLICES = "no ResourceSlice is given: add what `kubectl get deviceclasses,resourceslices -o yaml` prints"


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

    thing: Thing
    state: State
    allocation: AllocationResult | None = None
    node: str = ""
    reason: str = ""
    message: str = ""

    @property
    def claim(self) -> ResourceClaim:
        """The claim as it was before."""
        claim: ResourceClaim = self.thing.obj
        return claim


@dataclass(frozen=True, slots=True)
class Option:
    """A claim, and the nodes that it is for."""

    thing: Thing
    nodes: tuple[str, ...]


class UnknownNodeError(Exception):
    """A node was asked for that is not there; the text names it and those that are."""


class Cluster:
    """The cluster that some objects make. `notes` are lines about what was assumed, and what is wrong in it.

    `nodes` holds those that claims may go to, by name; the argument restricts them and is empty for all.
    Raises UnknownNodeError.
    """

    def __init__(self, gathered: Gathered, nodes: Sequence[str] = ()) -> None:
        self.notes: list[str] = []
        owners = _find_owners(gathered)
        settlement = Settlement() if owners else None
        self._inventory, self._ledger = Inventory(settlement=settlement), Ledger()
        for kind in ("DeviceClass", "Namespace", "DeviceTaintRule", "ResourceSlice"):
            for thing in gathered.of(kind):
                self._inventory.put(thing.obj)
        self.nodes = self._choose_nodes(gathered, nodes)
        for thing in gathered.of("ResourceClaim"):
            self._ledger.put(thing.obj)
        if owners:
            # All that is said to be owned counts as such: files do not tell for how long.
            self._inventory.settle(self._inventory.rules.keys(), self._inventory.pools.keys())
            self.notes.append(_owning(owners))
        share_ids = self._share_ids = _share_ids(gathered)
        allocator = self._allocator(Decider.OPERATOR, share_ids)
        self._some_nodes = SomeNodes(gathered, self.nodes, allocator.availability.views)
        self._allocators = {
            Decider.OPERATOR: allocator,
            # Where nothing is owned, both may take the same devices.
            Decider.KUBE_SCHEDULER: self._allocator(Decider.KUBE_SCHEDULER, share_ids)
            if owners
            else allocator,
        }
        self.notes += [
            f'{found.kind} "{found.name}": {found.message}' for found in self._inventory.problems()
        ]
        self.notes += _idle_rules(self._inventory)
        self.notes += _odd_labels(gathered)
        self.notes += [
            messages.allocated_twice(item.device, item.claims) for item in self._ledger.collisions()
        ]
        self._broken = _broken_allocations(gathered, self._inventory)
        self.notes += [
            f'ResourceSlice "{case.slice_name}": {messages.too_much(case)}; {messages.room_for(case)}'
            for case in Overcommitments(self._inventory, self._ledger).find()
        ]

    def _allocator(
        self, decider: Decider, share_ids: Callable[[], str], inventory: Inventory | None = None
    ) -> Allocator:
        return Allocator(
            inventory or self._inventory,
            self._ledger,
            limits=Limits(),
            clock=time.monotonic,
            share_ids=share_ids,
            decider=decider,
        )

    def allocate(
        self, claims: Sequence[Thing], nodes: Sequence[str] | None = None, *, decider: Decider
    ) -> Decision:
        """Decide some claims together, on one of these nodes. `accept` makes the decision count for the next one.

        The operator decides about devices that it owns, and kube-scheduler, which decides about claims of pods, about
        the others.
        """
        return self._allocators[decider].allocate([thing.obj for thing in claims], nodes)

    def accept(self, claims: Sequence[Thing], decision: Allocated) -> list[Outcome]:
        """Enter a decision in the ledger, and return what its claims come to."""
        outcomes: list[Outcome] = []
        for thing, result in zip(claims, decision.results, strict=True):
            metadata = thing.obj.metadata
            self._ledger.assume(metadata.namespace, metadata.name, result)
            outcomes.append(Outcome(thing, State.ALLOCATED, result, decision.node))
        return outcomes

    def explain(self, thing: Thing, decision: Decision, *, decider: Decider) -> Outcome:
        """Return a claim that waits, and why, where nothing but that decision is against it."""
        explanation = self._allocators[decider].explain((thing.obj,), decision)[0]
        return pending(thing, explanation)

    def decide_first(self, options: Sequence[Option]) -> Outcome:
        """Decide the first of some claims of a pod that fits on one of its nodes; the others are not needed then."""
        if (found := self.settled(options[0].thing)) is not None:
            return found
        for option in options:
            decision = self.allocate((option.thing,), option.nodes, decider=Decider.KUBE_SCHEDULER)
            if isinstance(decision, Allocated):
                return self.accept((option.thing,), decision)[0]
        return self.explain_on(options[0].thing, options[0].nodes)

    def explain_on(self, thing: Thing, nodes: Sequence[str]) -> Outcome:
        """Return a claim that fits on none of the nodes where its pod can run, and why."""
        decision = self.allocate((thing,), decider=Decider.KUBE_SCHEDULER)
        explanation = None if {*nodes} == self.nodes.keys() else self._explain_by_nodes(thing, nodes)
        if not isinstance(decision, Allocated):
            if explanation is not None:
                return pending(thing, explanation)
            return self.explain(thing, decision, decider=Decider.KUBE_SCHEDULER)
        text = f"it fits on node {decision.node}, but the pod can only run on {listed(nodes) or 'no node'}"
        if explanation is not None:
            return pending(thing, replace(explanation, message=f"{explanation.message}; {text}"))
        return pending(thing, Explanation(Reason.REQUESTS_DO_NOT_FIT_TOGETHER, text))

    def find_failing(self, outcomes: Sequence[Outcome]) -> Iterator[str]:
        """Yield a line for each selector of claims allocated here that fails on devices which were not reached."""
        allocator, claims = self._allocators[Decider.OPERATOR], dict[str, list[str]]()
        allocated = (outcome.claim for outcome in outcomes if outcome.state is State.ALLOCATED)
        for claim in islice(allocated, _MOST_LOOKED_AT):
            for text in allocator.find_failing(claim):
                claims.setdefault(text, []).append(f'"{claim.metadata.namespace}/{claim.metadata.name}"')
        for text, names in claims.items():
            yield f"ResourceClaim {listed(names)}: {text}; {messages.NOT_REACHED}"

    def _explain_by_nodes(self, thing: Thing, nodes: Sequence[str]) -> Explanation | None:
        """Return what a claim waits for on some nodes, as if there were no others; None if that cannot be told."""
        known = [name for name in nodes if name in self.nodes]
        if not known:
            return None
        inventory = self._some_nodes.inventory(known)
        allocator = self._allocator(Decider.KUBE_SCHEDULER, self._share_ids, inventory)
        decision = allocator.allocate((thing.obj,))
        if isinstance(decision, Allocated):
            return None
        explanation = allocator.explain((thing.obj,), decision)[0]
        return replace(explanation, message=f"on {listed(known)}: {explanation.message}")

    def settled(self, thing: Thing) -> Outcome | None:
        """Return what a claim comes to of which nothing is decided; None for another."""
        claim: ResourceClaim = thing.obj
        metadata = claim.metadata
        if claim.status.allocation is not None:
            broken = self._broken.get(claim_key(claim))
            state = State.HELD if broken is None else State.BROKEN
            return Outcome(thing, state, claim.status.allocation, message=broken or "")
        if metadata.deletion_timestamp:
            return Outcome(thing, State.LEFT_ALONE, message="it is being deleted")
        if metadata.labels.get(OPT_OUT_LABEL) == "false":
            return Outcome(thing, State.LEFT_ALONE, message=f'label {OPT_OUT_LABEL} is "false"')
        return None

    def _choose_nodes(self, gathered: Gathered, wanted: Sequence[str]) -> dict[str, Node]:
        """Return the nodes that claims may go to."""
        nodes: dict[str, Node] = {thing.obj.metadata.name: thing.obj for thing in gathered.of("Node")}
        named = _named_nodes(gathered)
        asked = gathered.of("ResourceClaim") or gathered.of("Pod") or gathered.of("PodGroup")
        # What comes from a cluster comes with its slices, if it has any.
        is_new = gathered.daemon_sets or any(not thing.obj.metadata.uid for thing in asked)
        if is_new and not gathered.of("ResourceSlice") and "ResourceSlice" not in gathered.refused:
            self.notes.append(_NO_SLICES)
        if not nodes:
            names = sorted({*named, *wanted}) or [_MADE_UP]
            nodes = {name: Node(Metadata(name=name, labels={_HOSTNAME: name})) for name in names}
            if asked or gathered.daemon_sets:
                self.notes.append(_assumed(names, named, wanted))
        elif missing := [name for name in named if name not in nodes]:
            self.notes.append(f"slices name nodes that are not given: {listed(missing)}")
        self.notes += _undeclared(gathered, nodes)
        if unknown := [name for name in wanted if name not in nodes]:
            raise UnknownNodeError(f"there is no node {listed(unknown)}; there is {listed(sorted(nodes))}")
        if wanted:
            self.notes.append(
                f"only {listed(sorted(set(wanted)))} may be chosen; other nodes count as unusable"
            )
        for name, node in sorted(nodes.items()):
            self._inventory.put(node)
            if wanted and name not in wanted:
                # Nothing that a Node can have says so.
                self._inventory.nodes[name] = replace(self._inventory.nodes[name], unusable=_NOT_CHOSEN)
        return {name: node for name, node in sorted(nodes.items()) if not wanted or name in wanted}


def _broken_allocations(gathered: Gathered, inventory: Inventory) -> dict[ClaimKey, str]:
    """Return what is wrong with each allocation that is broken. Nodes that nobody gives are not gone."""
    allocations = BrokenAllocations(inventory, missing_seconds=0)
    for thing in gathered.of("ResourceClaim"):
        allocations.put(claim_key(thing.obj), thing.obj.status.allocation)
    allocations.refresh(0.0, time.time())
    are_nodes_given = any(True for _ in gathered.of("Node"))
    found = {
        key: [item for item in breakages if are_nodes_given or item.cause is not Cause.NODE_GONE]
        for key, breakages in allocations.found.items()
    }
    return {key: messages.broken(breakages) for key, breakages in found.items() if breakages}


def pending(thing: Thing, explanation: Explanation) -> Outcome:
    """Return a claim that waits, and why."""
    return Outcome(thing, State.PENDING, reason=explanation.reason.value, message=explanation.message)


def _find_owners(gathered: Gathered) -> list[str]:
    """Return the rules and slices with the taint by which devices are the operator's, as texts have them."""
    rules = [thing.obj for thing in gathered.of("DeviceTaintRule")]
    slices = [thing.obj for thing in gathered.of("ResourceSlice")]
    owners = [f"DeviceTaintRule {rule.metadata.name}" for rule in rules if owns(rule)]
    owners += [
        f"ResourceSlice {item.metadata.name}"
        for item in slices
        if any(is_owned_taint(taint) for device in item.spec.devices for taint in device.taints)
    ]
    return sorted(owners)


def _owning(owners: Sequence[str]) -> str:
    return (
        f"the operator allocates only the devices that it owns (by {listed(owners)}), to claims that no pod uses, and "
        "kube-scheduler only the others"
    )


def _idle_rules(inventory: Inventory) -> Iterator[str]:
    """Yield a line for each taint rule that taints no device: after a slip it does so without a word."""
    slices = [content for pool in inventory.pools.values() for content in pool.slices.values()]
    for name, rule in sorted(inventory.rules.items()) if slices else ():
        if inventory.rule_selectors.problem(name) or any(
            inventory.tainted_by(rule, content) for content in slices
        ):
            continue
        selector = rule.spec.device_selector
        if selector is None:
            why = "it has no deviceSelector; {} selects all devices"
        else:
            parts = {
                "driver": selector.driver,
                "pool": selector.pool,
                "device": selector.device,
                "class": selector.device_class_name,
            }
            named = ", ".join(f"{key} {value}" for key, value in parts.items() if value is not None)
            matched = " that its selectors match" if selector.selectors else ""
            why = f"no published device is of {named or 'any driver'}{matched}"
        yield f'DeviceTaintRule "{name}": taints nothing: {why}'


def _odd_labels(gathered: Gathered) -> Iterator[str]:
    """Yield a line for each claim or template whose label says neither that it is left alone nor that it is not.

    Claims with a controller, as those made of a template, are not the operator's, and their template may have its line.
    """
    for kind in ("ResourceClaim", "ResourceClaimTemplate"):
        for thing in gathered.of(kind):
            metadata = thing.obj.metadata
            if any(owner.controller for owner in metadata.owner_references):
                continue
            labels = metadata.labels if kind == "ResourceClaim" else thing.obj.spec.metadata.labels
            if problem := messages.odd_label(labels):
                yield f'{kind} "{metadata.namespace}/{metadata.name}": {problem}'


def _undeclared(gathered: Gathered, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield a line for each new slice that the API server would refuse for what its nodes do not declare."""
    for thing in gathered.of("ResourceSlice"):
        item: ResourceSlice = thing.obj
        lacking = {
            name
            for device in ([] if item.metadata.uid else item.spec.devices)
            if device.node_allocatable_resources
            for name in _nodes_of(device if item.spec.per_device_node_selection else item.spec, nodes)
            if name not in nodes or _ALLOCATABLE_RESOURCES not in nodes[name].status.declared_features
        }
        if lacking:
            yield (
                f'ResourceSlice "{item.metadata.name}": the API server takes it only once these nodes declare '
                f"{_ALLOCATABLE_RESOURCES} in status.declaredFeatures: {listed(sorted(lacking))}"
            )


def _nodes_of(fields: ResourceSliceSpec | Device, nodes: Mapping[str, Node]) -> list[str]:
    """Return the nodes that a slice or a device is for."""
    if fields.node_name:
        return [fields.node_name]
    selector = fields.node_selector
    if selector is None:
        return [*nodes] if fields.all_nodes else []
    try:
        return [name for name, node in nodes.items() if matches(selector, name, node.metadata.labels)]
    except NodeSelectorError:
        return []


def pinned_to(selector: NodeSelector | None) -> str | None:
    """Return the node that a node selector names, or None if it selects in another way, or all nodes."""
    if selector is None or len(selector.node_selector_terms) != 1:
        return None
    term = selector.node_selector_terms[0]
    for item in term.match_fields:
        if (item.key, item.operator) == ("metadata.name", "In") and len(item.values) == 1:
            return item.values[0]
    return None


def by_name(outcome: Outcome) -> tuple[str, str]:
    """Return what outcomes are sorted by when they are shown: namespace and name of the claim."""
    return outcome.claim.metadata.namespace, outcome.claim.metadata.name


def by_age(thing: Thing) -> tuple[bool, str, bool, str, str]:
    """Return what objects are sorted by when they are decided: the oldest first, and last those without an age.

    Of these, claims made for pods are younger than those that are written down, as they are made when the pod is there.
    """
    metadata = thing.obj.metadata
    created = metadata.creation_timestamp
    made = created is None and POD_CLAIM_NAME in metadata.annotations
    return created is None, created or "", made, metadata.namespace, metadata.name


def _named_nodes(gathered: Gathered) -> list[str]:
    """Return the nodes that slices and devices name, or select by name, sorted."""
    slices: list[ResourceSlice] = [thing.obj for thing in gathered.of("ResourceSlice")]
    names = {item.spec.node_name for item in slices}
    names |= {device.node_name for item in slices for device in item.spec.devices}
    selectors = [item.spec.node_selector for item in slices]
    selectors += [device.node_selector for item in slices for device in item.spec.devices]
    for selector in selectors:
        names |= _selected_by_name(selector)
    return sorted(name for name in names if name)


def _selected_by_name(selector: NodeSelector | None) -> set[str | None]:
    return {
        value
        for term in (selector.node_selector_terms if selector is not None else ())
        for item in (*term.match_fields, *term.match_expressions)
        if item.key in ("metadata.name", _HOSTNAME) and item.operator == "In"
        for value in item.values
    }


def _assumed(names: Sequence[str], named: Sequence[str], wanted: Sequence[str]) -> str:
    """Return what is assumed about some nodes, given those that slices name and those that are asked for."""
    text = f"no Node is given: {listed(names)} assumed, ready and with no label but {_HOSTNAME}"
    if only_wanted := sorted({*wanted} - {*named}):
        return f"{text}; only --node names {listed(only_wanted)}, no slice does"
    return text if named else f"{text}; no slice names a node"


def _share_ids(gathered: Gathered) -> Callable[[], str]:
    """Return a source of share ids: the same each time, and none of those in use."""
    used = {
        result.share_id
        for thing in gathered.of("ResourceClaim")
        if thing.obj.status.allocation is not None
        for result in thing.obj.status.allocation.devices.results
    }
    numbers = Random(0)  # noqa: S311 - the ids need to be the same each time, not secret

    def fresh() -> str:
        while (found := share_id(numbers.getrandbits)) in used:
            pass
        return found

    return fresh
