"""The groups of a node's devices, and how long they are kept."""

from collections.abc import Callable
from typing import Any


def test_groups_by_ever_new_attributes_are_forgotten(scene: Any, ask: Callable[..., Any]) -> None:
    """Whoever names an attribute of their own in each claim does not fill the memory with what no device has."""
    scene.nodes("n")
    scene.slice("s", "1", "2")
    for number in range(100):
        claim = scene.claim(ask("r", 2), constraints=[{"matchAttribute": f"example.com/wrong-{number}"}])
        assert scene.picks(claim) is None
    view = scene.allocator.availability.views.of_node("n")

    assert 0 < len(view.groups) <= 32
