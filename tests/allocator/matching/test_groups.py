"""The groups of a node's devices, and how long they are kept."""

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator.matching import groups as groups_module
from dra_operator.allocator.matching.groups import Grouping, _size, groups_of
from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import bits


def value(text: str) -> AttributeValue:
    """Return a value of an attribute."""
    return AttributeValue("string", text)


def test_a_group_within_another_one_is_left_out() -> None:
    """So lists of a place, its row and its room make groups of whole rooms, none of which overlap."""
    sets = {"p0": 0b0001, "row": 0b0011, "room": 0b0111, "same room": 0b0111, "elsewhere": 0b1000}
    groups = groups_of({value(text): devices for text, devices in sets.items()}, odd=0, size=4)

    assert groups.groups == (0b0111, 0b1000)
    assert not groups.overlapping
    assert list(groups.beside) == [0b0111, 0b0111, 0b0111, 0b1000]
    assert dict(zip(groups.values, groups.holders, strict=True))[value("row")] == 0b0011


def test_groups_that_overlap_bear_marks() -> None:
    """Of what is admitted beside each of some devices they tell what is beside all of them."""
    groups = groups_of({value("x"): 0b0011, value("y"): 0b0110, value("z"): 0b1101}, odd=0, size=4)
    first, second = groups.beside[0], groups.beside[1]

    assert groups.overlapping
    assert [group & 0b1111 for group in groups.groups] == [0b1101, 0b0011, 0b0110]
    assert groups.open & 0b1111 == groups.members == 0b1111
    assert (groups.open & first & second) & 0b1111 == 0b0111
    assert groups.common(groups.open & first & second) & 0b1111 == 0b0011


DRIVER = "gpu.example.com"


MATCH = [{"matchAttribute": f"{DRIVER}/{name}"} for name in ("links", "rails")]


@pytest.mark.parametrize(
    ("limit", "most", "told"),
    [
        ("_MOST_PLACES", 8, True),
        ("_MOST_PLACES", 7, False),
        ("_MOST_BITS", 50, True),
        ("_MOST_BITS", 49, False),
        ("_MAX_OF_DEVICE", 4, True),
        ("_MAX_OF_DEVICE", 3, False),
    ],
)
def test_lists_are_too_many_but_not_one_value_of_each(
    scene: Any, ask: Callable[..., Any], limit: str, most: int, *, told: bool
) -> None:
    """Two devices have 5 values in 8 places; there always is a group for each device, as without lists."""
    scene.nodes("n")
    links = [{"links": {"ints": [number, 7, 8, 9]}} for number in (1, 2)]
    devices = [
        {
            "name": f"{number}",
            "attributes": {"rails": {"int": number}, **(links[number] if number < 2 else {})},
        }
        for number in range(5)
    ]
    for name, part in (("s0", devices[:2]), ("s1", devices[2:])):
        scene.slice(name, *part, count=2)
    with patch.object(groups_module, limit, most):
        for constraint, picks in zip(MATCH, (["r=0", "r=1"], None), strict=True):
            assert scene.picks(scene.claim(ask("r", 2), constraints=[constraint])) == picks
    view, grouping = scene.allocator.availability.views.of_node("n"), scene.allocator.candidates.groups

    assert len(grouping.find(view, f"{DRIVER}/rails").groups) == 5
    assert bool(grouping.find(view, f"{DRIVER}/links").members) == told
    assert bool(grouping.find(view, f"{DRIVER}/links").odd) != told


def test_when_groups_are_too_many_all_are_forgotten(scene: Any) -> None:
    """A pool that all nodes see has a value for each of many devices, and each node has a device of its own."""
    names = [f"n{number}" for number in range(8)]
    scene.nodes(*names)
    scene.slice("all", *[{"name": f"d{n}", "attributes": {"rail": {"int": n}}} for n in range(100)])
    for name in names:
        scene.slice(name, {"name": name, "attributes": {"rail": {"string": name}}}, nodeName=name)
    scene.allocator.refresh()
    grouping, views = Grouping(lists=True), scene.allocator.availability.views
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
    scene, grouping = scene_with(), Grouping(lists=lists)
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
