"""What is found out about shared devices is kept, of each until its own use changes."""

from collections.abc import Callable
from typing import Any

import pytest

from opcodes import opcodes


@pytest.fixture
def wide(scene: Any) -> Callable[[int], Any]:
    """Make a pool that all nodes see, of so many devices to share; each has room for two of the amount asked for."""

    def build(devices: int) -> Any:
        scene.nodes("n")
        shared = [
            {"name": f"{number:04}", "allowMultipleAllocations": True, "capacity": {"rate": {"value": "40G"}}}
            for number in range(devices)
        ]
        scene.slice("s", *shared)
        return scene

    return build


def asked_for(scene: Any, ask: Callable[..., Any], amount: str = "20G") -> Any:
    """Return a claim for a share of this amount."""
    return scene.claim(ask("r", 1, capacity={"requests": {"rate": amount}}))


@pytest.mark.parametrize("full", [100, 1000])
def test_a_device_that_is_full_is_asked_once(
    wide: Callable[[int], Any], ask: Callable[..., Any], full: int
) -> None:
    """A claim costs the same however many devices of a wide pool have no room left."""
    scene = wide(full + 2)
    for number in range(2 * full):
        scene.use(f"c{number}", ask("r", 1, capacity={"requests": {"rate": "20G"}}))
    claim = asked_for(scene, ask)
    scene.decide(claim)

    assert opcodes(lambda: scene.decide(claim)) < 1500


def test_a_full_device_that_gets_room_again_is_asked_again(
    wide: Callable[[int], Any], ask: Callable[..., Any]
) -> None:
    """What was known of a device goes when its use changes, and of no other device."""
    scene = wide(40)
    for number in range(60):
        scene.use(f"c{number}", ask("r", 1, capacity={"requests": {"rate": "20G"}}))
    assert scene.picks(asked_for(scene, ask)) == ["r=0030"]

    scene.ledger.withdraw("team", "c7")

    assert scene.picks(asked_for(scene, ask)) == ["r=0003"]
    assert scene.picks(asked_for(scene, ask, "30G")) == ["r=0030"]
