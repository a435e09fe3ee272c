"""What nodes see."""

from typing import Any

import pytest

from dra_operator.inventory import Features, Inventory, Verdict, Views, bits

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


def test_a_new_generation_on_one_node_is_noticed_on_others(two_nodes: Inventory, make_slice: Any) -> None:
    """Where slices lack, a newer generation elsewhere makes the pool obsolete."""
    for number in (1, 2):
        two_nodes.put(make_slice(f"s{number}", [f"{number}"], count=2, nodeName=f"node-{number}"))
    views = refreshed(two_nodes)
    two_nodes.put(make_slice("s1", ["1"], count=2, generation=2, nodeName="node-1"))
    views.refresh()

    assert [view.verdict for view in views.of_node("node-1").pools] == [Verdict.INCOMPLETE]
    assert views.of_node("node-2").pools == ()
