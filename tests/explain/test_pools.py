"""Which slices count, and records of pools that follow inventory and ledger."""

from typing import Any

import pytest

from dra_operator.allocator.reasons import Reason
from dra_operator.explain.stages import published_slices


@pytest.fixture
def moved(scene: Any) -> Any:
    """A pool whose driver has moved to another node and left the old slice behind."""
    scene.nodes("n1", "n2")
    old = {"name": "old", "attributes": {"model": {"string": "a"}}}
    scene.slice("s1", old, "both", pool="p", generation=1, nodeName="n1")
    scene.slice("s2", "both", pool="p", generation=2, nodeName="n2")
    return scene


def names(scene: Any) -> list[str]:
    """Return the slices that count."""
    scene.allocator.refresh()
    return [slice_.name for slice_ in published_slices(scene.allocator.availability.views)]


def test_an_old_generation_counts_as_long_as_a_node_sees_it(moved: Any) -> None:
    """One that cannot be used does not, nor one that sees the newer generation as well."""
    assert names(moved) == ["s2", "s1"]
    moved.put("Node", "n1", spec={"unschedulable": True})
    assert names(moved) == ["s2"]
    moved.nodes("n1")
    moved.slice("s2", "both", pool="p", generation=2, allNodes=True)
    assert names(moved) == ["s2"]


def test_its_devices_are_counted_and_told(moved: Any, ask: Any) -> None:
    """Who deletes the old slice takes them away; who does not know of it looks for them in vain."""
    moved.hold("holder", "both", "p")
    found = moved.explain(moved.claim(ask("r", 2)))

    assert found.reason is Reason.NOT_ENOUGH_DEVICES
    assert found.message == (
        "request r: 3 devices published, 3 in class gpu, 2 in use by 1 claim (holder), 1 left, "
        "at most 1 on one node (n1), 2 requested"
    )
