"""The groups of a node's devices, and how long they are kept."""

from itertools import combinations_with_replacement
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.matching import groups as groups_module
from dra_operator.allocator.matching.groups import Grouping, _size
from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import Features, bits


def value(text: str) -> AttributeValue:
    """Return a value of an attribute."""
    return AttributeValue("string", text)


DRIVER = "gpu.example.com"


MATCH = [{"matchAttribute": f"{DRIVER}/{name}"} for name in ("links", "rails")]


def test_when_groups_are_too_many_all_are_forgotten(scene: Any) -> None:
    """A pool that all nodes see has a value for each of many devices, and each node has a device of its own."""
    names = [f"n{number}" for number in range(8)]
    scene.nodes(*names)
    scene.slice("all", *[{"name": f"d{n}", "attributes": {"rail": {"int": n}}} for n in range(100)])
    for name in names:
        scene.slice(name, {"name": name, "attributes": {"rail": {"string": name}}}, nodeName=name)
    scene.allocator.refresh()
    grouping, views = Grouping(Features()), scene.allocator.availability.views
    with patch.object(groups_module, "_MOST_KEPT", 500_000):
        for name in names:
            groups = grouping.find(views.of_node(name), f"{DRIVER}/rail")
            sizes = [_size(kept) for kept in grouping._known.values()]

            assert len(groups.groups) == 101
            assert sum(sizes) == grouping._size <= 500_000

    assert grouping.find(views.of_node("n0"), f"{DRIVER}/rail").members == bits.first(101)


NUMBERS = st.integers(0, 3)
VALUES = (
    st.none()
    | st.fixed_dictionaries({"int": NUMBERS})
    | st.fixed_dictionaries({"string": st.sampled_from("12")})
)
LISTS = st.fixed_dictionaries({"ints": st.lists(NUMBERS, min_size=1, max_size=3)})
DEVICES = st.lists(
    st.fixed_dictionaries(
        {"links": VALUES | LISTS, f"{DRIVER}/links": VALUES, "other.io/rail": VALUES | LISTS}
    ),
    min_size=1,
    max_size=4,
)
ATTRIBUTES = [f"{DRIVER}/links", "other.io/rail", "other.io/none"]


def agreeing(device: dict[str, Any], name: str, *, lists: bool) -> set[Any] | None:
    """Return what a device may have in common with others in an attribute; None if that is not told."""
    value = device.get(name) or (device["links"] if name == f"{DRIVER}/links" else None)
    if value is None:
        return set()
    ((kind, content),) = value.items()
    if kind != "ints":
        return {(kind, content)}
    return {("int", item) for item in content} if lists else None


@pytest.mark.parametrize("lists", [True, False])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=st.lists(st.lists(DEVICES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_groups_are_of_devices_that_agree(scene_with: Any, lists: bool, nodes: Any) -> None:  # noqa: FBT001
    """By what each of them has, in any slice of any node; with lists off, nobody can tell of who has one."""
    scene, grouping = scene_with(), Grouping(Features(list_type_attributes=lists))
    for number, slices in enumerate(nodes):
        scene.nodes(f"n{number}")
        for place, devices in enumerate(slices):
            bodies = [
                {
                    "name": f"{place}-{index}",
                    "attributes": {name: value for name, value in item.items() if value},
                }
                for index, item in enumerate(devices)
            ]
            scene.slice(f"n{number}-{place}", *bodies, nodeName=f"n{number}", count=len(slices))
    scene.allocator.refresh()
    for number, slices in enumerate(nodes):
        view = scene.allocator.availability.views.of_node(f"n{number}")
        row = [item for devices in slices for item in devices]
        for attribute in ATTRIBUTES:
            found = grouping.find(view, attribute)
            expected = [agreeing(item, attribute, lists=lists) for item in row]
            known = [item or set() for item in expected]

            assert found.odd == bits.from_flags([item is None for item in expected])
            assert found.members == bits.from_flags(known)
            assert found.open & bits.first(len(row)) == found.members
            assert found.overlapping or found.open == found.members
            for one, other in combinations_with_replacement(range(len(row)), 2):
                together = any(group >> one & group >> other & 1 for group in found.groups)
                assert together == bool(known[one] & known[other]) == bool(found.beside[one] >> other & 1)
