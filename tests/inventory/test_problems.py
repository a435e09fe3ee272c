"""What is wrong with objects, found before a claim stumbles over it."""

from typing import Any

import pytest

from dra_operator.inventory import Inventory


def test_a_sound_inventory_has_no_problems(make: Any, make_slice: Any, inventory: Inventory) -> None:
    """A complete pool and a class that compiles are no news."""
    inventory.put(make_slice("a", ["1"], nodeName="node-1"))
    inventory.put(
        make("DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": 'device.driver == "gpu"'}}]})
    )

    assert inventory.problems() == ()


def test_a_selector_that_does_not_compile_is_told_on_its_class(make: Any, inventory: Inventory) -> None:
    """The class, the selector by number, and what is wrong with it."""
    inventory.put(make("DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": "nonsense"}}]}))

    ((kind, name, message),) = inventory.problems()
    assert (kind, name) == ("DeviceClass", "gpu")
    assert message.startswith("selector #0 does not compile at column 1: no such name")


def test_a_problem_goes_when_its_cause_goes(make_slice: Any, inventory: Inventory) -> None:
    """A pool that gets its missing slice is no problem any more."""
    inventory.put(make_slice("a", ["1"], count=2))
    before = inventory.problems()
    inventory.put(make_slice("b", ["2"], count=2))

    assert [problem.message for problem in before] == [
        "pool gpu/pool is incomplete: 1 of 2 slices of generation 1"
    ]
    assert inventory.problems() == ()


def test_a_node_selector_that_cannot_be_parsed_is_told_on_its_slice(
    make_slice: Any, inventory: Inventory
) -> None:
    """Also when no node has asked for it yet."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["x"]}]}]
    inventory.put(make_slice("a", ["1"], nodeSelector={"nodeSelectorTerms": terms}))

    ((kind, name, message),) = inventory.problems()
    assert (kind, name) == ("ResourceSlice", "a")
    assert message.startswith("node selector cannot be parsed")


@pytest.mark.parametrize(
    "what", ["pools", "devices", "slices", "classes", "nodes", "usable_nodes", "incomplete_pools"]
)
def test_the_summary_counts_everything(make: Any, make_slice: Any, inventory: Inventory, what: str) -> None:
    """Each thing put in once is counted once."""
    inventory.put(make_slice("a", ["1"], count=2))
    inventory.put(make("Node", "node-1"))
    inventory.put(make("DeviceClass", "gpu", spec={}))

    assert inventory.summary()[what] == 1
