"""Which slices count: those of the newest generation, and older ones that nodes still see."""

from typing import Any

import pytest

from dra_operator.allocator import Reason
from dra_operator.allocator.explanation.published import Published

MODEL = 'device.attributes["gpu.example.com"].?model.orValue("") == "a"'


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
    published = Published(scene.inventory, scene.allocator.availability.views)
    return [content.name for content in published.slices()]


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
        "at most 1 on one node (n1), 2 requested; "
        "2 of those matching are of an older generation that nodes still see (gpu.example.com/p)"
    )


def test_what_it_has_is_not_said_to_be_on_no_device(moved: Any, ask: Any) -> None:
    """Nor is it blamed on a letter."""
    moved.hold("holder", "old", "p")
    found = moved.explain(
        moved.claim(ask("r", 1, MODEL), constraints=[{"matchAttribute": "gpu.example.com/model"}])
    )

    assert found.message == (
        "request r: 3 devices published, 3 in class gpu, 1 match selector #0, "
        "1 in use by 1 claim (holder); 1 of those matching is of an older generation that nodes still see "
        "(gpu.example.com/p)"
    )


def test_its_counters_are_its_own(scene: Any, ask: Any) -> None:
    """Devices of both generations draw on what their own slices have."""
    scene.nodes("n1", "n2")
    draw = [{"counterSet": "set", "counters": {"memory": {"value": "30Gi"}}}]
    for generation, node, total in ((1, "n1", "40Gi"), (2, "n2", "50Gi")):
        counters = [{"name": "set", "counters": {"memory": {"value": total}}}]
        options = {"pool": "p", "generation": generation, "count": 2, "nodeName": node}
        scene.slice(f"c{generation}", sharedCounters=counters, **options)
        devices = [{"name": name, "consumesCounters": draw} for name in ("a", f"b{generation}")]
        scene.slice(f"d{generation}", *devices, **options)
    scene.hold("holder", "a", "p")
    found = scene.explain(scene.claim(ask("r", 1)))

    assert found.reason is Reason.COUNTERS_EXHAUSTED
    assert (
        "(set/memory 10Gi left < 30Gi on 1, set/memory 20Gi left < 30Gi on 1; in use by 1 claim: holder)"
        in found.message
    )
