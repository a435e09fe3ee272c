"""What nodes see."""

from typing import Any

import pytest

from dra_operator.inventory import Features, Inventory, Renumbering, Verdict, Views, bits
from opcodes import opcodes

ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
BROKEN = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]}]}


@pytest.fixture
def two_nodes(make: Any, inventory: Inventory) -> Inventory:
    """An inventory with node-1 in zone a and node-2 in zone b."""
    inventory.put(make("Node", "node-1", labels={"zone": "a"}))
    inventory.put(make("Node", "node-2", labels={"zone": "b"}))
    return inventory


def devices(views: Views, node: str) -> list[str]:
    """Return the devices that a node sees, in search order."""
    found = []
    for pool in views.of_node(node).pools:
        for position in bits.each(pool.visible):
            content, index = pool.locate(position)
            found.append(content.names[index])
    return found


def refreshed(inventory: Inventory) -> Views:
    """Return views of an inventory, up to date."""
    views = Views(inventory, Features.all_on())
    views.refresh()
    return views


@pytest.mark.parametrize(
    ("where", "node_1", "node_2"),
    [
        pytest.param({"nodeName": "node-1"}, ["1"], [], id="node name"),
        pytest.param({"allNodes": True}, ["1"], ["1"], id="all nodes"),
        pytest.param({"nodeSelector": ZONE}, ["1"], [], id="selector"),
        pytest.param({}, [], [], id="nothing known"),
    ],
)
def test_a_slice_concerns_the_nodes_it_names(
    two_nodes: Inventory, make_slice: Any, where: dict[str, Any], node_1: list[str], node_2: list[str]
) -> None:
    """By node name, for all, or by selector; a slice that says nothing known is left out."""
    two_nodes.put(make_slice("a", ["1"], **where))
    views = refreshed(two_nodes)

    assert (devices(views, "node-1"), devices(views, "node-2")) == (node_1, node_2)


def test_devices_can_choose_their_nodes_themselves(two_nodes: Inventory, make_slice: Any) -> None:
    """With per-device selection a node sees the devices that name it."""
    own = [
        {"name": "1", "nodeName": "node-1"},
        {"name": "2", "nodeSelector": ZONE},
        {"name": "3", "allNodes": True},
    ]
    two_nodes.put(make_slice("a", own, perDeviceNodeSelection=True))
    views = refreshed(two_nodes)

    assert devices(views, "node-1") == ["1", "2", "3"]
    assert devices(views, "node-2") == ["3"]


def test_search_order_is_pool_slice_device(two_nodes: Inventory, make_slice: Any) -> None:
    """Pools and slices by name, devices as published, pools with binding conditions last."""
    ready = {"name": "late", "bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}
    for item in (
        make_slice("d", ["6"], pool="z", allNodes=True),
        make_slice("c", [ready], pool="a", allNodes=True),
        make_slice("b", ["4", "3"], pool="m", count=2, allNodes=True),
        make_slice("a", ["9", "5"], pool="m", count=2, nodeName="node-1"),
    ):
        two_nodes.put(item)

    assert devices(refreshed(two_nodes), "node-1") == ["9", "5", "4", "3", "6", "late"]


def test_nodes_that_see_the_same_share_a_view(two_nodes: Inventory, make_slice: Any) -> None:
    """A pool for all nodes is one view, however many nodes there are."""
    two_nodes.put(make_slice("a", ["1"], allNodes=True))
    views = refreshed(two_nodes)

    assert views.of_node("node-1") is views.of_node("node-2")
    assert views.of_node("node-1").nodes == 0b11


def test_a_broken_node_selector_is_an_error_of_the_nodes_that_ask_it(
    two_nodes: Inventory, make_slice: Any
) -> None:
    """Nobody else is disturbed."""
    two_nodes.put(make_slice("a", ["1"], nodeName="node-1"))
    two_nodes.put(make_slice("b", ["2"], pool="other", nodeSelector=BROKEN))
    views = refreshed(two_nodes)

    error = views.of_node("node-1").error
    assert error is not None
    assert error.slice == "b"


def test_a_slice_of_one_node_leaves_the_views_of_others_alone(two_nodes: Inventory, make_slice: Any) -> None:
    """A changed slice costs the view of its own node only."""
    for number in (1, 2):
        two_nodes.put(make_slice(f"s{number}", [f"{number}"], count=2, nodeName=f"node-{number}"))
    views = refreshed(two_nodes)
    other = views.of_node("node-2")
    two_nodes.put(make_slice("s1", ["1", "new"], count=2, nodeName="node-1"))
    changes = views.refresh()

    assert devices(views, "node-1") == ["1", "new"]
    assert views.of_node("node-2") is other
    assert changes is not None
    assert changes.nodes == 0b01


def test_a_device_that_draws_on_counters_is_known_to_other_nodes(
    two_nodes: Inventory, make_slice: Any
) -> None:
    """By its new name, where that is all that changes: what is used of the counters is entered by name."""
    sets = [{"name": "s", "counters": {"memory": {"value": "1Gi"}}}]
    use = [{"counterSet": "s", "counters": {"memory": {"value": "1Gi"}}}]
    two_nodes.put(make_slice("s2", [], count=2, nodeName="node-2", sharedCounters=sets))
    two_nodes.put(make_slice("s1", [{"name": "old", "consumesCounters": use}], count=2, nodeName="node-1"))
    views = refreshed(two_nodes)
    two_nodes.put(make_slice("s1", [{"name": "new", "consumesCounters": use}], count=2, nodeName="node-1"))
    views.refresh()
    (pool,) = views.of_node("node-2").pools

    assert pool.counters is not None
    assert list(pool.counters.draws) == ["new"]


def test_the_same_slice_again_changes_nothing(two_nodes: Inventory, make_slice: Any) -> None:
    """A relist is no news."""
    two_nodes.put(make_slice("a", [{"name": "1", "attributes": {"x": {"int": 1}}}], allNodes=True))
    views, version = refreshed(two_nodes), two_nodes.version
    two_nodes.put(make_slice("a", [{"name": "1", "attributes": {"x": {"int": 1}}}], allNodes=True))

    assert views.refresh() is None
    assert two_nodes.version == version


def test_a_new_node_takes_its_place_by_name(two_nodes: Inventory, make: Any, make_slice: Any) -> None:
    """Nodes are numbered by name, and sets of nodes follow."""
    two_nodes.put(make_slice("a", ["1"], nodeName="node-2"))
    views = refreshed(two_nodes)
    two_nodes.put(make("Node", "node-10"))
    changes = views.refresh()

    assert changes is not None
    assert changes.renumbering == Renumbering((), (1,))
    assert views.order == ["node-1", "node-10", "node-2"]
    assert views.of_node("node-2").nodes == 0b100


def test_a_node_that_goes_leaves_no_view(two_nodes: Inventory, make_slice: Any) -> None:
    """Views that nobody has are removed."""
    two_nodes.put(make_slice("a", ["1"], nodeName="node-1"))
    views = refreshed(two_nodes)
    two_nodes.remove("Node", "node-1")
    changes = views.refresh()

    assert changes is not None
    assert [view.key for view in changes.removed] == [("gpu", "pool")]
    assert views.order == ["node-2"]


def test_only_nodes_that_came_or_went_are_said_to_have(two_nodes: Inventory, make: Any) -> None:
    """Not one that changes at the same time."""
    views = refreshed(two_nodes)
    two_nodes.remove("Node", "node-1")
    two_nodes.put(make("Node", "node-2", labels={"zone": "a"}))
    two_nodes.put(make("Node", "node-3"))
    changes = views.refresh()

    assert changes is not None
    assert changes.renumbering == Renumbering((0,), (1,))


def test_relabelling_a_node_moves_it(two_nodes: Inventory, make: Any, make_slice: Any) -> None:
    """Selectors are asked again for the node that changed."""
    two_nodes.put(make_slice("a", ["1"], nodeSelector=ZONE))
    views = refreshed(two_nodes)
    two_nodes.put(make("Node", "node-2", labels={"zone": "a"}))
    views.refresh()

    assert devices(views, "node-2") == ["1"]


def test_selectors_that_are_gone_leave_little_behind(
    two_nodes: Inventory, make: Any, make_slice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pool whose selector is another one each time, asked about every node, does not make it grow.

    The count of what is kept stays true, also where a node is forgotten.
    """
    monkeypatch.setattr("dra_operator.inventory.views._MAX_MATCHED", 100)
    views = refreshed(two_nodes)
    for number in range(50):
        gone = {"key": "zone", "operator": "NotIn", "values": ["a", f"gone-{number}"]}
        everywhere = {"nodeSelectorTerms": [{"matchExpressions": [gone]}]}
        two_nodes.put(make_slice("a", ["1"], nodeSelector=everywhere))
        two_nodes.put(make("Node", "node-1", labels={"zone": "a", "number": f"{number}"}))
        views.refresh()
        kept = views._matcher._answers.values()

        assert devices(views, "node-2") == ["1"]
        assert sum(map(len, kept)) + 16 * len(kept) == views._matcher.size <= 100


def test_a_view_knows_who_sees_it(two_nodes: Inventory, make: Any, make_slice: Any) -> None:
    """The nodes that do now, and not those that did before."""
    two_nodes.put(make_slice("a", ["1"], nodeSelector=ZONE))
    views = refreshed(two_nodes)
    (pool,) = views.of_node("node-1").pools
    before = pool.nodes
    two_nodes.put(make("Node", "node-2", labels={"zone": "a"}))
    views.refresh()
    both = pool.nodes
    two_nodes.put(make("Node", "node-1", labels={"zone": "b"}))
    views.refresh()

    assert (before, both, pool.nodes) == (0b01, 0b11, 0b10)
    assert list(views.of_pool["gpu", "pool"].values()) == [pool]
    assert (views.of_node("node-2").nodes, views.of_node("node-1").nodes) == (0b10, 0b01)


def test_an_incomplete_pool_is_seen_but_empty(two_nodes: Inventory, make_slice: Any) -> None:
    """A request for all devices has to know of it."""
    two_nodes.put(make_slice("a", ["1"], count=2, allNodes=True))
    views = refreshed(two_nodes)

    assert [view.verdict for view in views.of_node("node-1").pools] == [Verdict.INCOMPLETE]
    assert devices(views, "node-1") == []


def test_a_new_generation_on_one_node_is_noticed_on_others(two_nodes: Inventory, make_slice: Any) -> None:
    """Where slices lack, a newer generation elsewhere makes the pool obsolete."""
    for number in (1, 2):
        two_nodes.put(make_slice(f"s{number}", [f"{number}"], count=2, nodeName=f"node-{number}"))
    views = refreshed(two_nodes)
    two_nodes.put(make_slice("s1", ["1"], count=2, generation=2, nodeName="node-1"))
    views.refresh()

    assert [view.verdict for view in views.of_node("node-1").pools] == [Verdict.INCOMPLETE]
    assert views.of_node("node-2").pools == ()


@pytest.mark.parametrize("use", [[], [{"counterSet": "s1", "counters": {"memory": {"value": "1Gi"}}}]])
def test_a_pool_with_a_slice_a_node_costs_each_node_the_same(
    make: Any, make_slice: Any, use: list[Any]
) -> None:
    """With four times as many nodes, each with a slice of one pool, refreshing views takes four times as many steps."""

    def taken(nodes: int) -> int:
        inventory = Inventory()
        sets = [{"name": "s1", "counters": {"memory": {"value": "100Gi"}}}]
        inventory.put(make_slice("counters", [], count=nodes + 1, nodeName="node-0", sharedCounters=sets))
        for number in range(nodes):
            inventory.put(make("Node", f"node-{number}"))
            device = {"name": f"d{number}", "consumesCounters": use}
            inventory.put(make_slice(f"s{number}", [device], count=nodes + 1, nodeName=f"node-{number}"))
        views = Views(inventory, Features.all_on())
        return opcodes(views.refresh)

    assert taken(200) < 6 * taken(50)


def test_a_node_sees_its_own_slice_beside_those_for_all(
    two_nodes: Inventory, make: Any, make_slice: Any
) -> None:
    """Nodes without one share what they see, and those with one do not share that."""
    two_nodes.put(make("Node", "node-3"))
    two_nodes.put(make_slice("all", ["1"], count=2, allNodes=True))
    two_nodes.put(make_slice("own", ["2"], count=2, nodeName="node-2"))
    views = refreshed(two_nodes)

    assert [devices(views, f"node-{number}") for number in (1, 2, 3)] == [["1"], ["1", "2"], ["1"]]
    assert views.of_node("node-1") is views.of_node("node-3")


def test_the_pools_of_a_node_are_one_row(two_nodes: Inventory, make_slice: Any) -> None:
    """A position there is that of a device in one of them."""
    for pool, names in (("a", ["1", "2"]), ("b", []), ("c", ["3", "4", "5"])):
        two_nodes.put(make_slice(pool, names, pool=pool, allNodes=True))
    view = refreshed(two_nodes).of_node("node-1")

    found = [view.locate(position) for position in range(5)]
    assert [(pool.key[1], place) for pool, place in found] == [
        ("a", 0),
        ("a", 1),
        ("c", 0),
        ("c", 1),
        ("c", 2),
    ]
    assert [view.number_of(position) for position in range(5)] == [0, 0, 2, 2, 2]


def test_what_is_special_about_devices_is_known_by_position(two_nodes: Inventory, make_slice: Any) -> None:
    """Behind the devices of the slices before: a broken selector, counters that are drawn on, and shares."""
    use = [{"counterSet": "set", "counters": {"memory": {"value": "1"}}}]
    own: list[dict[str, Any]] = [
        {"name": "3", "allNodes": True, "allowMultipleAllocations": True},
        {"name": "4", "nodeSelector": BROKEN},
        {"name": "5", "allNodes": True, "consumesCounters": use},
    ]
    counters = [{"name": "set", "counters": {"memory": {"value": "1"}}}]
    two_nodes.put(make_slice("a", ["1", "2"], count=3, allNodes=True))
    two_nodes.put(make_slice("b", own, count=3, perDeviceNodeSelection=True))
    two_nodes.put(make_slice("c", [], count=3, allNodes=True, sharedCounters=counters))
    (pool,) = refreshed(two_nodes).of_node("node-1").pools

    assert (pool.size, pool.visible) == (5, 0b10111)
    assert (pool.shareable, pool.counted) == (0b00100, 0b10000)
    assert pool.selector_errors.keys() == {3}
