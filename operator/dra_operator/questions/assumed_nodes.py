"""Nodes: those that are given, or else those that slices name, which are assumed to be ready.

What files leave open is settled here: without Nodes nobody knows more of them than their names. Where an API server has
listed none, there is none, and nothing is assumed.
"""

from collections.abc import Iterator, Mapping, Sequence

from dra_operator.api.core import Metadata, Node, NodeSelector
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.text import listed
from dra_operator.api.types import Device, ResourceSlice, ResourceSliceSpec
from dra_operator.questions.contents import LoadResult

_HOSTNAME = "kubernetes.io/hostname"
_MADE_UP = "node-1"
_ALLOCATABLE_RESOURCES = "DRANodeAllocatableResources"
_NO_SLICES = "no ResourceSlice is given: add what `kubectl get deviceclasses,resourceslices -o yaml` prints"


class UnknownNodeError(Exception):
    """A node was asked for that is not there; the text names it and those that are."""


def choose_nodes(gathered: LoadResult, wanted: Sequence[str]) -> tuple[dict[str, Node], bool, list[str]]:
    """Return all nodes by name, sorted, whether none was given so that they are assumed, and lines about that.

    `wanted` are those that claims may go to, all if empty.

    Raises UnknownNodeError for one of these that is not there.
    """
    notes: list[str] = []
    nodes: dict[str, Node] = {record.obj.metadata.name: record.obj for record in gathered.of_kind("Node")}
    named = _named_nodes(gathered)
    asked = gathered.of_kind("ResourceClaim") or gathered.of_kind("Pod") or gathered.of_kind("PodGroup")
    # What comes from a cluster comes with its slices, if it has any.
    is_new = gathered.daemon_sets or any(not record.obj.metadata.uid for record in asked)
    if is_new and not gathered.of_kind("ResourceSlice") and "ResourceSlice" not in gathered.refused:
        notes.append(_NO_SLICES)
    are_assumed = not nodes and "Node" not in gathered.listed
    if are_assumed:
        names = sorted({*named, *wanted}) or [_MADE_UP]
        nodes = {name: Node(Metadata(name=name, labels={_HOSTNAME: name})) for name in names}
        if asked or gathered.daemon_sets:
            notes.append(_assumed(names, named, wanted))
    elif missing := [name for name in named if name not in nodes]:
        notes.append(f"slices name nodes that are not given: {listed(missing)}")
    notes += _undeclared(gathered, nodes)
    if unknown := [name for name in wanted if name not in nodes]:
        there_is = listed(sorted(nodes)) or "none"
        raise UnknownNodeError(f"there is no node {listed(unknown)}; there is {there_is}")
    if wanted:
        notes.append(f"only {listed(sorted(set(wanted)))} may be chosen; other nodes count as unusable")
    return dict(sorted(nodes.items())), are_assumed, notes


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
