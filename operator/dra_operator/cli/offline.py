"""Deciding offline: the objects of files, decided as the operator would decide them in a cluster.

The same inventory, ledger and allocator are used, the claims are decided in the same order and each decision counts
for the next. What a file leaves open is settled here, once: which nodes there are when none is given, and when a
claim was created that does not say so (now: after all those that do).
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from random import Random

from dra_operator.allocator import Allocator, Decider, Limits
from dra_operator.allocator.decision import claim_key
from dra_operator.api.core import Metadata, Node, NodeSelector
from dra_operator.api.names import share_id
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.read import ObjectError
from dra_operator.api.text import listed
from dra_operator.api.types import Device, ResourceSlice, ResourceSliceSpec
from dra_operator.cli.load import LoadResult
from dra_operator.controller import messages
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Settlement, is_owned_taint, owns
from dra_operator.ledger import BrokenAllocations, Cause, ClaimKey, Ledger, Overcommitments
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.placement import PodPlacement
from dra_operator.pods.scheduler import Outcome, Scheduler, State
from dra_operator.pods.workloads import part

_ENOUGH = dict.fromkeys(("cpu", "memory", "ephemeral-storage", "pods"), "1P")
_HOSTNAME = "kubernetes.io/hostname"
_MADE_UP = "node-1"
_NOT_CHOSEN = "left out by --node"
_ALLOCATABLE_RESOURCES = "DRANodeAllocatableResources"
_MOST_LOOKED_AT = 1000
"""So many allocated claims are looked at for selectors that fail elsewhere: each may have its own."""
_NO_SLICES = "no ResourceSlice is given: add what `kubectl get deviceclasses,resourceslices -o yaml` prints"


class UnknownNodeError(Exception):
    """A node was asked for that is not there; the text names it and those that are."""


class Cluster:
    """The cluster that some objects make. `notes` are lines about what was assumed, and what is wrong in it.

    `nodes` holds those that claims may go to, by name; the argument restricts them and is empty for all.
    Raises UnknownNodeError.
    """

    def __init__(self, gathered: LoadResult, nodes: Sequence[str] = ()) -> None:
        self.notes: list[str] = []
        owners = _find_owners(gathered)
        settlement = Settlement() if owners else None
        self._inventory, self._ledger = Inventory(settlement=settlement), Ledger()
        for kind in ("DeviceClass", "Namespace", "DeviceTaintRule", "ResourceSlice"):
            for record in gathered.of_kind(kind):
                self._inventory.put(record.obj)
        self.nodes = self._choose_nodes(gathered, nodes)
        for record in gathered.of_kind("ResourceClaim"):
            self._ledger.put(record.obj)
        if owners:
            # All that is said to be owned counts as such: files do not tell for how long.
            self._inventory.settle(self._inventory.rules.keys(), self._inventory.pools.keys())
            self.notes.append(_owning(owners))
        new_allocator = partial(self._allocator, _share_ids(gathered))
        self._allocator_of_operator = allocator = new_allocator(Decider.OPERATOR, self._inventory)
        # Where nothing is owned, both may take the same devices.
        others = new_allocator(Decider.KUBE_SCHEDULER, self._inventory) if owners else allocator
        self.notes += [
            f'{found.kind} "{found.name}": {found.message}' for found in self._inventory.problems()
        ]
        self.notes += _idle_rules(self._inventory)
        self.notes += _odd_labels(gathered)
        self.notes += [
            messages.allocated_twice(item.device, item.claims) for item in self._ledger.collisions()
        ]
        self.scheduler = Scheduler(
            gathered,
            self.nodes,
            self._ledger,
            {Decider.OPERATOR: allocator, Decider.KUBE_SCHEDULER: others},
            new_allocator,
            _broken_allocations(gathered, self._inventory),
            _placement(gathered, self.nodes),
        )
        self.notes += [
            f'ResourceSlice "{case.slice_name}": {messages.too_much(case)}; {messages.room_for(case)}'
            for case in Overcommitments(self._inventory, self._ledger).find()
        ]

    def _allocator(self, share_ids: Callable[[], str], decider: Decider, inventory: Inventory) -> Allocator:
        return Allocator(
            inventory,
            self._ledger,
            limits=Limits(),
            clock=time.monotonic,
            share_ids=share_ids,
            decider=decider,
        )

    def find_failing(self, outcomes: Sequence[Outcome]) -> Iterator[str]:
        """Yield a line for each selector of claims allocated here that fails on devices which were not reached."""
        claims: dict[str, list[str]] = {}
        allocated = (outcome.claim for outcome in outcomes if outcome.state is State.ALLOCATED)
        for claim in islice(allocated, _MOST_LOOKED_AT):
            for text in self._allocator_of_operator.find_failing(claim):
                claims.setdefault(text, []).append(f'"{claim.metadata.namespace}/{claim.metadata.name}"')
        for text, names in claims.items():
            yield f"ResourceClaim {listed(names)}: {text}; {messages.NOT_REACHED}"

    def _choose_nodes(self, gathered: LoadResult, wanted: Sequence[str]) -> dict[str, Node]:
        """Return the nodes that claims may go to."""
        nodes: dict[str, Node] = {record.obj.metadata.name: record.obj for record in gathered.of_kind("Node")}
        named = _named_nodes(gathered)
        asked = gathered.of_kind("ResourceClaim") or gathered.of_kind("Pod") or gathered.of_kind("PodGroup")
        # What comes from a cluster comes with its slices, if it has any.
        is_new = gathered.daemon_sets or any(not record.obj.metadata.uid for record in asked)
        if is_new and not gathered.of_kind("ResourceSlice") and "ResourceSlice" not in gathered.refused:
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


def _placement(gathered: LoadResult, nodes: Mapping[str, Node]) -> PodPlacement:
    """Return where pods can run, as far as the files say.

    What a node does not say to have of each, it has enough of. A volume claim that is not given counts for nothing, nor
    does one that nobody had the time to bind.
    """
    cluster = ClusterPods()
    for kind in ("DeviceClass", "Pod"):
        for record in gathered.of_kind(kind):
            # Of a pod with a slip in its status the rest counts.
            with suppress(ObjectError):
                cluster.put(kind, record.body)
    bodies = {record.obj.metadata.name: record.body for record in gathered.of_kind("Node")}
    for name, node in nodes.items():
        body = bodies.get(name, {"metadata": {"name": name, "labels": node.metadata.labels}})
        status = body.get("status") or {}
        allocatable = {**_ENOUGH, **(status.get("allocatable") or {})}
        cluster.put("Node", {**body, "status": {**status, "allocatable": allocatable}})
    claims: set[tuple[str, str]] = set()
    for (kind, namespace, name), body in gathered.volumes.items():
        is_claim = kind == "PersistentVolumeClaim"
        if is_claim and not (body["metadata"].get("uid") or part(body, "spec").get("volumeName")):
            continue
        cluster.put(kind, body)
        if is_claim:
            claims.add((namespace, name))
    return PodPlacement(cluster, nodes, claims)


def _broken_allocations(gathered: LoadResult, inventory: Inventory) -> dict[ClaimKey, str]:
    """Return what is wrong with each allocation that is broken. Nodes that nobody gives are not gone."""
    allocations = BrokenAllocations(inventory, missing_seconds=0)
    for record in gathered.of_kind("ResourceClaim"):
        allocations.put(claim_key(record.obj), record.obj.status.allocation)
    allocations.refresh(0.0, time.time())
    are_nodes_given = any(True for _ in gathered.of_kind("Node"))
    found = {
        key: [item for item in breakages if are_nodes_given or item.cause is not Cause.NODE_GONE]
        for key, breakages in allocations.found.items()
    }
    return {key: messages.broken(breakages) for key, breakages in found.items() if breakages}


def _find_owners(gathered: LoadResult) -> list[str]:
    """Return the rules and slices with the taint by which devices are the operator's, as texts have them."""
    rules = [record.obj for record in gathered.of_kind("DeviceTaintRule")]
    slices = [record.obj for record in gathered.of_kind("ResourceSlice")]
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


def _odd_labels(gathered: LoadResult) -> Iterator[str]:
    """Yield a line for each claim or template whose label says neither that it is left alone nor that it is not.

    Claims with a controller, as those made of a template, are not the operator's, and their template may have its line.
    """
    for kind in ("ResourceClaim", "ResourceClaimTemplate"):
        for record in gathered.of_kind(kind):
            metadata = record.obj.metadata
            if any(owner.controller for owner in metadata.owner_references):
                continue
            labels = metadata.labels if kind == "ResourceClaim" else record.obj.spec.metadata.labels
            if problem := messages.odd_label(labels):
                yield f'{kind} "{metadata.namespace}/{metadata.name}": {problem}'


def _undeclared(gathered: LoadResult, nodes: Mapping[str, Node]) -> Iterator[str]:
    """Yield a line for each new slice that the API server would refuse for what its nodes do not declare."""
    for record in gathered.of_kind("ResourceSlice"):
        item: ResourceSlice = record.obj
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


def _named_nodes(gathered: LoadResult) -> list[str]:
    """Return the nodes that slices and devices name, or select by name, sorted."""
    slices: list[ResourceSlice] = [record.obj for record in gathered.of_kind("ResourceSlice")]
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


def _share_ids(gathered: LoadResult) -> Callable[[], str]:
    """Return a source of share ids: the same each time, and none of those in use."""
    used = {
        result.share_id
        for record in gathered.of_kind("ResourceClaim")
        if record.obj.status.allocation is not None
        for result in record.obj.status.allocation.devices.results
    }
    numbers = Random(0)  # noqa: S311 - the ids need to be the same each time, not secret

    def fresh() -> str:
        while (found := share_id(numbers.getrandbits)) in used:
            pass
        return found

    return fresh
