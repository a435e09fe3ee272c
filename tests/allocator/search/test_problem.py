"""What is found out about devices that are shared, or draw on counters, and drivers, is kept until it may change."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Failed


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


@pytest.fixture
def halves(counted_only: Any) -> Any:
    """One node with 24 processors, each of which is there as a whole and as two halves."""
    sets = [{"name": f"set-{n:02}", "counters": {"cores": {"value": "2"}}} for n in range(24)]
    devices = [
        {
            "name": f"{n:02}-{part}",
            "attributes": {"parent": {"int": n}, "part": {"string": part}},
            "consumesCounters": [
                {
                    "counterSet": f"set-{n:02}",
                    "counters": {"cores": {"value": "2" if part == "whole" else "1"}},
                }
            ],
        }
        for n in range(24)
        for part in ("half-a", "half-b", "whole")
    ]
    counted_only.slice("sets", count=2, nodeName="n", sharedCounters=sets)
    counted_only.slice("devices", *devices, count=2, nodeName="n")
    return counted_only


def of_different_parents(scene: Any, ask: Callable[..., Any], count: int) -> Any:
    """Return a claim for so many whole processors."""
    whole = ask("r", count, 'device.attributes["gpu.example.com"].part == "whole"')
    return scene.claim(whole, constraints=[{"distinctAttribute": "gpu.example.com/parent"}])


def test_counters_that_have_changed_are_asked_again(halves: Any, ask: Callable[..., Any]) -> None:
    """A whole processor can be had again once both halves have come back, and not before."""
    for number in range(24):
        halves.use(f"a{number}", ask("r", 1, 'device.attributes["gpu.example.com"].part == "half-a"'))
    halves.use("b", ask("r", 1, 'device.attributes["gpu.example.com"].part == "half-b"'))
    pair = of_different_parents(halves, ask, 2)
    assert halves.picks(pair) is None

    halves.ledger.withdraw("team", "a0")
    halves.ledger.withdraw("team", "a3")

    assert halves.picks(pair) is None

    halves.ledger.withdraw("team", "b")

    assert halves.picks(pair) == ["r=00-whole", "r=03-whole"]


@pytest.fixture
def time_shared(counted_only: Any) -> Any:
    """One node with a processor that is there as `half` and as `whole`; four may have a share of either."""
    counters = {"half": "1", "whole": "2"}
    devices = [
        {
            "name": name,
            "attributes": {"name": {"string": name}},
            "allowMultipleAllocations": True,
            "capacity": {"time": {"value": "4"}},
            "consumesCounters": [{"counterSet": "set", "counters": {"cores": {"value": cores}}}],
        }
        for name, cores in counters.items()
    ]
    sets = [{"name": "set", "counters": {"cores": {"value": "2"}}}]
    counted_only.slice("sets", count=2, nodeName="n", sharedCounters=sets)
    counted_only.slice("devices", *devices, count=2, nodeName="n")
    return counted_only


def test_the_first_share_of_a_device_pays_its_counters(time_shared: Any, ask: Callable[..., Any]) -> None:
    """While somebody has a share, more of that device can be had, and none of one whose counters are used up."""

    def quarter_of(name: str) -> Any:
        selector = f'device.attributes["gpu.example.com"].name == "{name}"'
        return ask("r", 1, selector, capacity={"requests": {"time": "1"}})

    claims = {name: time_shared.claim(quarter_of(name)) for name in ("half", "whole")}
    time_shared.use("first", quarter_of("whole"))

    assert time_shared.picks(claims["whole"]) == ["r=whole"]
    assert time_shared.picks(claims["half"]) is None

    time_shared.use("second", quarter_of("whole"))
    time_shared.ledger.withdraw("team", "first")

    assert time_shared.picks(claims["half"]) is None

    time_shared.ledger.withdraw("team", "second")

    assert time_shared.picks(claims["half"]) == ["r=half"]


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
