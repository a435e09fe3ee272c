"""The groups of a node's devices, and how long they are kept."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from dra_operator.allocator import groups as groups_module
from dra_operator.allocator.groups import groups_of
from dra_operator.api.attributes import AttributeValue


def test_groups_by_ever_new_attributes_are_forgotten(scene: Any, ask: Callable[..., Any]) -> None:
    """Whoever names an attribute of their own in each claim does not fill the memory with what no device has."""
    scene.nodes("n")
    scene.slice("s", "1", "2")
    for number in range(100):
        claim = scene.claim(ask("r", 2), constraints=[{"matchAttribute": f"example.com/wrong-{number}"}])
        assert scene.picks(claim) is None
    view = scene.allocator.availability.views.of_node("n")

    assert 0 < len(view.groups) <= 32


def value(text: str) -> tuple[AttributeValue]:
    """Return a value of one attribute."""
    return (AttributeValue("string", text),)


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


def test_more_groups_than_there_is_room_for_are_left_to_the_plain_search(
    scene: Any, ask: Callable[..., Any]
) -> None:
    """Two lists of 16 are in 256 groups, which for thousands of devices would take gigabytes, and half a minute."""
    devices = [
        {
            "name": f"d{number:04}",
            "attributes": {
                "links": {"ints": [(number * step) % 509 for step in range(1, 17)]},
                "rails": {"ints": [(number * step) % 503 for step in range(1, 17)]},
            },
        }
        for number in range(1, 1025)
    ]
    scene.nodes("n")
    for first in range(0, 1024, 64):
        scene.slice(f"s{first:04}", *devices[first : first + 64], count=16)

    assert scene.picks(scene.claim(ask("r", 2), constraints=MATCH)) == ["r=d0001", "r=d0002"]
    view = scene.allocator.availability.views.of_node("n")
    both, *each = (
        found for _, found in sorted(view.groups.items(), key=lambda item: len(item[0]), reverse=True)
    )
    assert not both.groups
    assert both.odd.bit_count() == 1024
    assert all(found.overlapping for found in each)


@pytest.mark.parametrize("limit", ["_MOST_PLACES", "_MOST_BITS"])
def test_lists_are_too_many_but_not_one_value_of_each(
    scene: Any, ask: Callable[..., Any], limit: str
) -> None:
    """There always is a group for each device, as without lists."""
    scene.nodes("n")
    scene.slice(
        "s",
        *({"name": name, "attributes": {"links": {"ints": [int(name), 9]}}} for name in "12"),
        *({"name": name, "attributes": {"rails": {"int": int(name)}}} for name in "345"),
    )
    with patch.object(groups_module, limit, 0):
        for constraint, picks in zip(MATCH, (["r=1", "r=2"], None), strict=True):
            assert scene.picks(scene.claim(ask("r", 2), constraints=[constraint])) == picks
    found = scene.allocator.availability.views.of_node("n").groups

    assert len(found[f"{DRIVER}/rails",].groups) == 3
