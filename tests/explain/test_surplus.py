"""Pools with more slices than they announce: nothing is being updated, so waiting does not help."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator.decision import Allocated
from dra_operator.allocator.reasons import Reason

PutSlice = Callable[..., None]
TOO_MANY = "too many slices of generation 1 (2 where 1 is announced)"


@pytest.fixture
def put_slice(scene: Any) -> PutSlice:
    """Publish a slice of pool `p`, by name, for a node, or for all of them."""
    scene.nodes("n1", "n2", "n3")
    scene.device_class("gpu", 'device.driver == "gpu"')

    def put(name: str, *devices: str, count: int = 1, **fields: Any) -> None:
        scene.slice(name, *devices, driver="gpu", pool="p", count=count, **fields)

    return put


def test_slices_that_were_left_behind(scene: Any, put_slice: PutSlice, ask: Any) -> None:
    """The line says what is wrong with the pool, and what to do about it."""
    put_slice("a", "x", allNodes=True)
    put_slice("b", "y", allNodes=True)
    found = scene.explain(scene.claim(ask("r")))

    assert found.reason is Reason.POOL_INCOMPLETE
    assert found.message == (
        f"request r: 2 devices published, 2 in class gpu, 2 in pools with too many slices (gpu/p: {TOO_MANY} on 2; "
        "two publishers use one pool name, or slices were left behind: delete those that nobody updates)"
    )


def test_nodes_that_use_one_pool_name(scene: Any, put_slice: PutSlice, ask: Any) -> None:
    """A node that sees as many slices as are announced uses its own; another says whose pool it is."""
    put_slice("a", "x", nodeName="n1")
    put_slice("b", "y", nodeName="n2")
    put_slice("c", "z", count=2, nodeName="n3")
    decided = scene.decide(scene.claim(ask("r")))
    found = scene.explain(scene.claim(ask("r", 2)))

    assert isinstance(decided, Allocated)
    assert decided.node == "n1"
    assert found.message == (
        "request r: 3 devices published, 3 in class gpu, 1 in pools with too many slices "
        "(gpu/p: too many slices of generation 1 (3 where 1 is announced) on 1; nodes n1, n2, n3 use one pool name: "
        "the driver must give each its own), 2 left, at most 1 on one node (n1), 2 requested"
        "; it would not fit even if no device were in use or tainted"
    )


def test_counters_of_a_pool_that_a_node_uses_nevertheless(scene: Any, put_slice: PutSlice, ask: Any) -> None:
    """What keeps devices away is told as the node sees it: each of two nodes has a pool of the same name."""
    draw = [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]
    devices = [{"name": name, "consumesCounters": draw} for name in "xy"]
    for node in ("n1", "n2"):
        sets = {"name": "s", "counters": {"c": {"value": "1"}}}
        put_slice(f"{node}-sets", nodeName=node, count=2, sharedCounters=[sets])
        put_slice(f"{node}-devices", nodeName=node, count=2, devices=devices)
    scene.use("first", ask("r"))
    found = scene.explain(scene.claim(ask("r")))

    assert found.message == (
        "request r: 4 devices published, 4 in class gpu, 2 in use by 1 claim (first), 2 without enough left of their "
        "counters (s/c 0 left < 1 on 2; in use by 1 claim: first)"
    )
