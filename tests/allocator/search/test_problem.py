"""What is found out about devices that are shared, or draw on counters, and drivers, is kept until it may change."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator.decision import Failed


@pytest.fixture
def two_drivers(scene: Any) -> Any:
    """A node with three devices of the driver that class `gpu` takes, behind as many of another one."""
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    scene.nodes("n")
    scene.slice("other", "x", "y", "z", nodeName="n", pool="other", driver="a.example.com")
    scene.slice("own", "a", "b", "c", nodeName="n", pool="own")
    return scene


CLAIMS = {
    "one request": [{"count": 1}],
    "one of several": [{"count": 2, "constraints": [{"matchAttribute": "gpu.example.com/place"}]}],
    "several requests": [{"count": 1}, {"count": 2}],
}
"""What each of the fast searches is asked for."""


@pytest.mark.parametrize("asked", CLAIMS.values(), ids=CLAIMS)
def test_a_device_of_another_driver_that_cannot_be_read_is_not_passed_over(
    two_drivers: Any, ask: Callable[..., Any], asked: list[dict[str, Any]]
) -> None:
    """Each selector fails on it, also one that asks for nothing but the driver."""
    scene = two_drivers
    requests = [ask(f"r{n}", item["count"]) for n, item in enumerate(asked)]
    claim = scene.claim(
        *requests, constraints=[rule for item in asked for rule in item.get("constraints", ())]
    )
    assert not isinstance(scene.decide(claim), Failed)

    odd = {"name": "y", "attributes": {"version": {"version": "one"}}}
    scene.slice("other", "x", odd, "z", nodeName="n", pool="other", driver="a.example.com")

    assert isinstance(scene.decide(claim), Failed)
