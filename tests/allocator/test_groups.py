"""The groups of a node's devices, and how long they are kept."""

from collections.abc import Callable
from typing import Any

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
