"""Devices that are shared and draw on counters: the first share pays for those that follow, also in one claim."""

from random import Random
from typing import Any

import pytest

GPU = "gpu.example.com"


def part(name: str, cores: int, time: int, *, of: str = "set", shared: bool = True) -> dict[str, Any]:
    """Return a device that draws on a counter; if it is shared, so many may have a share."""
    return {
        "name": name,
        "attributes": {"cores": {"int": cores}},
        "allowMultipleAllocations": shared,
        "capacity": {"time": {"value": str(time)}},
        "consumesCounters": [{"counterSet": of, "counters": {"cores": {"value": str(cores)}}}],
    }


def publish(scene: Any, sets: dict[str, int], *devices: dict[str, Any]) -> None:
    """Publish devices and the counters that they draw on, as seen by node n."""
    totals = [{"name": name, "counters": {"cores": {"value": str(cores)}}} for name, cores in sets.items()]
    scene.slice("sets", count=2, nodeName="n", sharedCounters=totals)
    scene.slice("devices", *devices, count=2, nodeName="n")


def share(ask: Any, name: str, time: int = 1, count: int = 1) -> dict[str, Any]:
    """Return a request for shares of so much time."""
    request: dict[str, Any] = ask(name, count, capacity={"requests": {"time": str(time)}})
    return request


@pytest.mark.parametrize("seed", range(40))
def test_decisions_are_those_of_the_plain_search(
    scene: Any, ask: Any, seed: int, take_as_plainly: Any
) -> None:
    """Whoever pays, whatever else has to match or differ, and however long it takes to find out."""
    random = Random(seed)  # noqa: S311 - the same each time
    scene.nodes("n")
    devices = [
        part(
            f"d{number}",
            random.randrange(1, 4),
            random.randrange(1, 4),
            of=random.choice("st"),
            shared=random.random() < 0.8,
        )
        for number in range(random.randrange(4, 9))
    ]
    publish(scene, {"s": random.randrange(3, 9), "t": random.randrange(3, 9)}, *devices)
    for turn in range(40):
        scene.ledger.withdraw("team", f"c{random.randrange(turn + 1)}")
        asked = [
            share(ask, f"r{number}", random.randrange(1, 3), random.choice([1, 1, 2]))
            for number in range(random.randrange(1, 6))
        ]
        rule = {random.choice(["matchAttribute", "distinctAttribute"]): f"{GPU}/cores"}
        claim = scene.claim(*asked, name=f"c{turn}", constraints=[rule] if random.random() < 0.4 else [])
        take_as_plainly(claim)
