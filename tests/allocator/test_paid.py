"""Devices that are shared and draw on counters: the first share pays for those that follow, also in one claim."""

from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Unsatisfied
from dra_operator.api.names import ADMIN_ACCESS_LABEL
from dra_operator.api.read import read_object

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


def test_two_requests_share_what_only_one_can_pay(counted_only: Any, ask: Any) -> None:
    """The second share of a device draws on nothing."""
    publish(counted_only, {"set": 2}, part("a", 2, 2), part("b", 2, 2))

    assert counted_only.picks(counted_only.claim(share(ask, "p"), share(ask, "q"))) == ["p=a", "q=a"]
    assert counted_only.decide(counted_only.claim(share(ask, "p", 2), share(ask, "q"))) == Unsatisfied()
    assert counted_only.decide(counted_only.claim(share(ask, "p", count=2))) == Unsatisfied()


def test_a_device_that_somebody_shares_costs_nothing(counted_only: Any, ask: Any) -> None:
    """What it draws is paid, so what is left is there for the other one."""
    publish(counted_only, {"set": 4}, part("a", 2, 3), part("b", 2, 3))
    counted_only.use("first", share(ask, "r"))

    claim = counted_only.claim(share(ask, "p", 2), share(ask, "q", 2))
    assert counted_only.picks(claim) == ["p=a", "q=b"]


@pytest.mark.parametrize("requests", ["p", "pq"])
def test_of_a_pool_that_is_overdrawn_only_what_is_paid_can_be_had(
    scene: Any, ask: Any, requests: str
) -> None:
    """One counter below zero closes the pool to whoever draws on any, and sharers draw on none."""
    scene.nodes("n")
    devices = [part("a", 2, 3), part("b", 1, 3, of="other")]
    publish(scene, {"set": 2, "other": 9}, *devices)
    scene.use("first", share(ask, "r"))
    publish(scene, {"set": 1, "other": 9}, *devices)
    claim = scene.claim(*[share(ask, name) for name in requests])

    assert scene.picks(claim) == [f"{name}=a" for name in requests]

    scene.use("second", share(ask, "r", 2))

    assert scene.picks(claim) is None


@pytest.mark.parametrize("requests", ["p", "pq"])
def test_a_device_that_is_shared_no_longer_is_paid_again(scene: Any, ask: Any, requests: str) -> None:
    """Old shares of it have paid for shares alone."""
    scene.nodes("n")
    publish(scene, {"set": 3, "other": 9}, part("a", 2, 3), part("b", 1, 3, of="other"))
    scene.use("first", share(ask, "r"))
    publish(scene, {"set": 3, "other": 9}, part("a", 2, 3, shared=False), part("b", 1, 3, of="other"))

    picked = scene.picks(scene.claim(*[share(ask, name) for name in requests]))
    assert picked == [f"{name}=b" for name in requests]


@pytest.mark.parametrize("requests", ["p", "pq"])
def test_without_the_feature_no_share_pays(scene_with: Any, ask: Any, requests: str) -> None:
    """State that is given raw may have shares all the same: the device is to be had as a whole, and draws again."""
    scene = scene_with(consumable_capacity=False)
    scene.nodes("n")
    publish(scene, {"set": 2}, part("a", 2, 3))
    shared = {"driver": GPU, "pool": "n", "device": "a", "shareID": "s"}
    status = {"allocation": {"devices": {"results": [{"request": "r", **shared}]}}}
    scene.slice("more", {"name": "b"}, pool="more", nodeName="n")
    scene.ledger.put(
        read_object({"metadata": {"name": "old"}, "spec": {}, "status": status}, "ResourceClaim")
    )
    claim = scene.claim(*[ask(name) for name in requests])

    assert scene.picks(claim) == (["p=b"] if requests == "p" else None)
    assert "set/cores 0 left < 2" in scene.explain(scene.claim(ask("p", 2))).message


def test_without_the_feature_no_share_takes_room(scene_with: Any, ask: Any) -> None:
    """Shares that are given raw may fill devices, many of which are asked about at once: each is had as a whole."""
    scene = scene_with(consumable_capacity=False)
    scene.nodes("n")
    names = [f"{number:02}" for number in range(20)]
    full = {"driver": GPU, "pool": "n", "shareID": "s", "consumedCapacity": {"time": "2"}}
    room = {"allowMultipleAllocations": True, "capacity": {"time": {"value": "2"}}}
    scene.slice("s", *[{"name": name, **room} for name in names], nodeName="n")
    results = [{"request": "r", "device": name, **full} for name in names]
    status = {"allocation": {"devices": {"results": results}}}
    scene.ledger.put(
        read_object({"metadata": {"name": "old"}, "spec": {}, "status": status}, "ResourceClaim")
    )

    assert scene.picks(scene.claim(ask("p"), ask("q"))) == ["p=00", "q=01"]


def test_what_a_share_pays_is_seen_where_no_counter_changes(scene: Any, ask: Any) -> None:
    """Somebody has the whole device at the same time, so its counters were taken before the share, and are after."""
    scene.nodes("n")
    scene.put("Namespace", "team", labels={ADMIN_ACCESS_LABEL: "true"})
    publish(scene, {"set": 2}, part("a", 2, 3))
    granted = scene.decide(scene.claim(share(ask, "r")))
    scene.hold("other", "a", "n")
    admin = [ask(name, adminAccess=True, capacity={"requests": {"time": "1"}}) for name in "pq"]
    assert scene.picks(scene.claim(*admin)) is None

    scene.ledger.assume("team", "first", granted.results[0])

    assert scene.picks(scene.claim(*admin)) == ["p=a", "q=a"]

    scene.ledger.withdraw("team", "first")

    assert scene.picks(scene.claim(*admin)) is None


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
