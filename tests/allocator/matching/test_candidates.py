"""Which devices of a view a key admits, and which of them somebody had to ask about."""

from typing import Any

import pytest

from dra_operator.allocator import Failed, Limits, SearchMode, Unsatisfied
from dra_operator.cel import PreparedDevice, Selector

UUID = 'device.attributes["gpu.example.com"].uuid'


class Watched:
    """A selector that remembers which devices it was asked about."""

    def __init__(self, program: Selector, asked: list[Any]) -> None:
        self.reads, self.may_take_long = program.reads, program.may_take_long
        self.match = lambda device: asked.append(seen(device)) or program.match(device)


def seen(device: PreparedDevice) -> Any:
    """Return the value that tells a device here from others."""
    return device.attributes.get("gpu.example.com/uuid")


def gpus(*uuids: str, **fields: Any) -> list[dict[str, Any]]:
    """Return GPUs that differ in a value."""
    return [{"name": f"gpu-{uuid}", "attributes": {"uuid": {"string": uuid}}, **fields} for uuid in uuids]


def test_a_device_in_use_on_which_a_selector_fails_is_no_error(scene: Any, ask: Any) -> None:
    """Nobody asks about it: whoever is served by a free device is served."""
    scene.nodes("n")
    scene.slice("s", {"name": "plain"}, *gpus("a"), nodeName="n")
    scene.hold("holder", "plain", "n")

    assert scene.picks(scene.claim(ask("r", 1, f'{UUID} == "a"'))) == ["r=gpu-a"]


@pytest.mark.parametrize("searching", [*SearchMode])
def test_taints_keep_nobody_away_where_their_feature_is_switched_off(
    scene_with: Any, ask: Any, searching: SearchMode
) -> None:
    """Whichever search is asked."""
    scene = scene_with(device_taints=False)
    scene.allocator.searching = searching
    scene.nodes("n")
    scene.slice("s", *gpus("a", taints=[{"key": "k", "effect": "NoSchedule"}]), nodeName="n")

    assert scene.picks(scene.claim(ask())) == ["r=gpu-a"]


def test_an_attempt_that_ran_out_of_time_goes_on_where_it_ended(ticking: Any, ask: Any) -> None:
    """With an expression that takes long, on one pool of many slices no two of which are alike."""
    scene = ticking(Limits(steps=None, seconds=100))
    scene.nodes("n")
    for number in range(15):
        devices = [{**gpus(f"{number}-{at}")[0], "name": f"d{number}-{at}"} for at in range(10)]
        scene.slice(f"s{number:02d}", *devices, pool="wide", count=15)
    texts = ", ".join(f'"{number}"' for number in range(32))
    slow = f"[{texts}].all(x, [{texts}].all(y, {UUID} != x + y))"
    claim = scene.claim(ask("r", 1, f'{slow} && {UUID} == ""'))

    assert [type(scene.decide(claim)) for _ in range(2)] == [Failed, Unsatisfied]


def _disks(number: int) -> list[dict[str, Any]]:
    """Return disks that can be shared, no two of which have the same of anything."""
    return [
        {
            "name": f"disk-{place:03}",
            "allowMultipleAllocations": True,
            "capacity": {f"c{name}": {"value": str(1 + place * (name + 1))} for name in range(6)},
        }
        for place in range(number)
    ]


def test_devices_are_asked_by_their_own_capacity_however_they_differ(scene: Any, ask: Any) -> None:
    """Where few of them are alike and where many are, and where some lack what others have."""
    scene.nodes("n")
    few = [{**disk, "name": f"few-{disk['name']}", "capacity": {"c0": {"value": "9"}}} for disk in _disks(3)]
    scene.slice("few", *few, "none", pool="a")
    scene.slice("many", *_disks(16), pool="b")

    for amount, picks in (("9", "few-disk-000"), ("10", "disk-009"), ("16", "disk-015"), ("17", None)):
        claim = scene.claim(ask("r", 1, capacity={"requests": {"c0": amount}}))
        assert scene.picks(claim) == (picks and [f"r={picks}"])
    last = scene.claim(ask("r", 1, capacity={"requests": {"c0": "1", "c5": "91"}}))
    assert scene.picks(last) == ["r=disk-015"]
