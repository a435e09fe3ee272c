"""Nodes, which can be used, and which node selectors can concern them."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.api.core import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.read import read_object
from dra_operator.inventory import Features, Inventory, Views, bits
from dra_operator.inventory.nodes import NodeFields, NodeRecord, SelectorIndex, read_node


@pytest.mark.parametrize(
    ("fields", "unusable"),
    [
        pytest.param({}, None, id="nothing said"),
        pytest.param({"spec": {"unschedulable": True}}, "cordoned", id="cordoned"),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "not ready", id="not ready"
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            "not ready",
            id="gone silent",
        ),
        pytest.param({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, None, id="ready"),
        pytest.param(
            {"status": {"conditions": [{"type": "Disk", "status": "False"}]}}, None, id="something else"
        ),
    ],
)
def test_a_node_can_be_used_unless_it_says_otherwise(
    make: Any, fields: dict[str, Any], unusable: str | None
) -> None:
    """Absent fields mean usable; cordoned, Ready=False and Ready=Unknown mean not."""
    assert read_node(make("Node", "node-1", **fields)).unusable == unusable


def test_a_node_that_declares_the_feature_can_skip_operations(make: Any) -> None:
    """The kubelet's declared feature is what counts."""
    node = make("Node", "node-1", status={"declaredFeatures": ["DRAOptionalNodeOperations"]})

    assert read_node(node).skips_operations
    assert not read_node(make("Node", "node-2")).skips_operations


Wire = dict[str, Any]
VALUES = ("", "1", "2", "x")
NODES = ("n0", "n1", "n2", "n3")
OPERATORS = ("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like")

values = st.lists(st.sampled_from(VALUES), max_size=3)
labels = st.dictionaries(st.sampled_from(("a", "b")), st.sampled_from(VALUES))
expressions = st.builds(
    lambda key, operator, found: {"key": key, "operator": operator, "values": found},
    st.sampled_from(("a", "b", "c")),
    st.sampled_from(OPERATORS),
    values,
)
fields = st.builds(
    lambda key, operator, found: {"key": key, "operator": operator, "values": found},
    st.sampled_from(("metadata.name", "metadata.name", "other")),
    st.sampled_from(("In", "In", "NotIn", "Exists")),
    st.lists(st.sampled_from((*NODES, "")), min_size=1, max_size=2)
    | st.lists(st.sampled_from(NODES), min_size=1, max_size=1),
)
# Some requirements are as an API server admits them, since one that is not spoils all terms of a selector.
sound = st.builds(
    lambda key, found: {"key": key, "operator": "In", "values": found},
    st.sampled_from(("a", "b")),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
)
terms = st.builds(
    lambda asked, named: {"matchExpressions": asked, "matchFields": named},
    st.lists(sound, max_size=2) | st.lists(expressions, max_size=2),
    st.just([]) | st.lists(fields, max_size=1),
)
selectors = st.builds(lambda found: {"nodeSelectorTerms": found}, st.lists(terms, max_size=3))
places: st.SearchStrategy[Wire] = st.one_of(
    st.builds(lambda name: {"nodeName": name}, st.sampled_from(NODES)),
    st.just({"allNodes": True}),
    st.builds(lambda selector: {"nodeSelector": selector}, selectors),
    st.builds(lambda selector: {"nodeSelector": selector}, selectors),
    st.just({}),
)
slices: st.SearchStrategy[Wire] = st.builds(
    lambda place, each: {**place, "each": []} if place is not None else {"each": each},
    st.none() | places,
    st.lists(places, max_size=4),
)
worlds = st.tuples(
    st.dictionaries(st.sampled_from(NODES), labels),
    st.dictionaries(st.sampled_from(("a1", "a2", "b1", "c1")), slices),
)


def read_selector(wire: Wire) -> NodeSelector:
    """Return a node selector as the API has it."""

    def read(found: Iterable[Wire]) -> tuple[NodeSelectorRequirement, ...]:
        return tuple(
            NodeSelectorRequirement(each["key"], each["operator"], tuple(each["values"])) for each in found
        )

    return NodeSelector(
        tuple(
            NodeSelectorTerm(read(term["matchExpressions"]), read(term["matchFields"]))
            for term in wire["nodeSelectorTerms"]
        )
    )


def asked(place: Wire, node: str, having: dict[str, str]) -> bool:
    """Return whether node fields concern a node, asked as upstream does."""
    if "nodeName" in place:
        return bool(place["nodeName"] == node)
    if "nodeSelector" in place:
        return matches(read_selector(place["nodeSelector"]), node, having)
    return "allNodes" in place


def concerns(place: Wire, node: str, having: dict[str, str]) -> bool:
    """Return whether a node has to ask: it is concerned, or finds an error."""
    try:
        return asked(place, node, having)
    except NodeSelectorError:
        return True


def read_fields(place: Wire) -> NodeFields:
    """Return node fields as the inventory has them."""
    selector = place.get("nodeSelector")
    return NodeFields(
        place.get("nodeName"), "allNodes" in place, None if selector is None else read_selector(selector)
    )


def record(name: str, having: dict[str, str]) -> NodeRecord:
    """Return a node."""
    return NodeRecord(name, having, None, skips_operations=False, selector=NodeSelector())


@given(st.lists(places, max_size=5), st.dictionaries(st.sampled_from(NODES), labels))
def test_no_node_misses_what_concerns_it(row: list[Wire], nodes: dict[str, dict[str, str]]) -> None:
    """The index of the fields finds for each node all that plain matching finds."""
    reach = SelectorIndex.from_fields(read_fields(place) for place in row)
    for name, having in nodes.items():
        near = list(reach.near(record(name, having)))

        assert near == sorted(near)
        assert {n for n, place in enumerate(row) if concerns(place, name, having)} <= set(near)


def put_slice(inventory: Inventory, name: str, content: Wire, count: int) -> None:
    """Put a slice into the pool of its first letter."""
    each = content["each"]
    devices = [{"name": f"{name}-{number}", **place} for number, place in enumerate(each)]
    spec = {key: value for key, value in content.items() if key != "each"}
    spec |= {"perDeviceNodeSelection": True} if "each" in content and not spec else {}
    pool = {"name": name[0], "generation": 1, "resourceSliceCount": count}
    whole = {"driver": "gpu", "pool": pool, "devices": devices or [{"name": f"{name}-0"}], **spec}
    inventory.put(
        read_object({"kind": "ResourceSlice", "metadata": {"name": name}, "spec": whole}, "ResourceSlice")
    )


def plainly(world: dict[str, Wire], node: str, having: dict[str, str]) -> set[str] | tuple[str, str]:
    """Return the devices that a node sees, or the first slice with an error and why, all slices asked one by one."""
    found: set[str] = set()
    errors: dict[str, tuple[str, str]] = {}
    for name, content in sorted(world.items(), key=lambda item: ("nodeName" not in item[1], item[0])):
        if name[0] in errors:
            continue
        place = {key: value for key, value in content.items() if key != "each"}
        seen: set[str] = set()
        try:
            if place:
                seen |= {f"{name}-0"} if asked(place, node, having) else set()
            else:
                for number, own in enumerate(content["each"]):
                    if seen and not concerns_soundly(own, node, having):
                        continue
                    seen |= {f"{name}-{number}"} if asked(own, node, having) else set()
        except NodeSelectorError as error:
            errors[name[0]] = (name, str(error))
        found |= seen
    return min(errors.values()) if errors else found


def concerns_soundly(place: Wire, node: str, having: dict[str, str]) -> bool:
    """Return whether node fields concern a node, no if they cannot be parsed."""
    try:
        return asked(place, node, having)
    except NodeSelectorError:
        return False


def seen(views: Views, node: str) -> set[str] | tuple[str, str]:
    """Return the devices that a node sees, or its error."""
    view = views.of_node(node)
    if view.error is not None:
        return view.error
    return {
        content.names[index]
        for pool in view.pools
        for content, index in (pool.locate(position) for position in bits.each(pool.visible))
    }


def move(inventory: Inventory, old: tuple[Any, Any], new: tuple[Any, Any]) -> None:
    """Bring an inventory from one world to another; nodes whose label `a` is `x` cannot be used."""
    (old_nodes, old_slices), (nodes, contents) = old, new
    for name in old_nodes.keys() - nodes:
        inventory.remove("Node", name)
    for name in old_slices.keys() - contents:
        inventory.remove("ResourceSlice", name)
    for name, having in nodes.items():
        spec = {"unschedulable": having.get("a") == "x"}
        metadata = {"name": name, "labels": having}
        inventory.put(read_object({"kind": "Node", "metadata": metadata, "spec": spec}, "Node"))
    for name, content in contents.items():
        put_slice(inventory, name, content, sum(other[0] == name[0] for other in contents))


@settings(max_examples=200)
@given(st.lists(worlds, min_size=1, max_size=4))
def test_nodes_see_what_plain_matching_says_at_each_step(steps: list[tuple[Any, Any]]) -> None:
    """Nodes, labels and slices come, change and go; devices and errors are always those of asking everybody."""
    inventory = Inventory()
    views = Views(inventory, Features.all_on())
    before: tuple[Any, Any] = ({}, {})
    for step in steps:
        move(inventory, before, step)
        views.refresh()
        before = step
        nodes, contents = step

        assert {name: seen(views, name) for name in nodes} == {
            name: plainly(contents, name, having) for name, having in nodes.items()
        }
