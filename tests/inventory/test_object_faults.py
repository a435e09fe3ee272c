"""What is wrong with objects, found before a claim stumbles over it."""

from typing import Any

from dra_operator.inventory import Inventory


def test_a_selector_that_does_not_compile_is_told_on_its_class(make: Any, inventory: Inventory) -> None:
    """The class, the selector by number, and what is wrong with it."""
    inventory.put(make("DeviceClass", "gpu", spec={"selectors": [{"cel": {"expression": "nonsense"}}]}))

    ((kind, name, message, *_),) = inventory.problems()
    assert (kind, name) == ("DeviceClass", "gpu")
    assert message.startswith("selector #0 does not compile at column 1: no such name")


def test_a_node_selector_that_cannot_be_parsed_is_told_on_its_slice(
    make_slice: Any, inventory: Inventory
) -> None:
    """Also when no node has asked for it yet."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Like", "values": ["x"]}]}]
    inventory.put(make_slice("a", ["1"], nodeSelector={"nodeSelectorTerms": terms}))

    ((kind, name, message, *_),) = inventory.problems()
    assert (kind, name) == ("ResourceSlice", "a")
    assert message.startswith("node selector cannot be parsed")


def test_a_pool_is_named_that_lacks_slices_and_no_other(make_slice: Any, inventory: Inventory) -> None:
    """Slices that are missing may come in a moment; two devices of one name stay as they are."""
    inventory.put(make_slice("a", ["1"], count=2))
    inventory.put(make_slice("b", ["1", "1"], pool="other"))

    incomplete, invalid = inventory.problems()
    assert (incomplete.incomplete, invalid.incomplete) == (("gpu", "pool"), None)


def test_a_pool_name_that_two_nodes_use_is_told_with_the_nodes(make_slice: Any, inventory: Inventory) -> None:
    """That is no update; who uses the pool nevertheless, and what to do."""
    inventory.put(make_slice("a", ["1"], nodeName="node-1"))
    inventory.put(make_slice("b", ["1"], nodeName="node-2"))

    (found,) = inventory.problems()
    assert (found.kind, found.name) == ("ResourceSlice", "a")
    assert found.message == (
        "pool gpu/pool has too many slices of generation 1 (2 where 1 is announced): most probably nodes node-1, "
        "node-2 use one pool name; nodes that see exactly as many slices as announced still use the pool, "
        "and devices of the same name count as one; give each node a pool name of its own, such as the node's"
    )


def test_slices_that_name_no_node_and_are_too_many_are_not_blamed_on_nodes(
    make_slice: Any, inventory: Inventory
) -> None:
    """What is not known is not said."""
    for name in "abc":
        inventory.put(make_slice(name, [name], count=2, allNodes=True))

    (found,) = inventory.problems()
    assert found.message == (
        "pool gpu/pool has too many slices of generation 1 (3 where 2 are announced): most probably two publishers use "
        "one pool name, or slices of an earlier one were left behind; nodes that see exactly as many slices as "
        "announced still use the pool, and devices of the same name count as one; give each publisher a pool name of "
        "its own, and delete what is left of others"
    )
