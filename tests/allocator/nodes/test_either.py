"""Alternatives with and without amounts: nodes with nothing for either are left out, and no decision is another."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Failed

NIC = "nic.example.com"
NODES = 20
RANGE = {"validRange": {"min": "1", "step": "1"}}
ODD = {"validRange": {"min": "-1", "step": "1"}}
"""With this an amount is an error."""


def nic(memory: int, policy: dict[str, Any] | None = RANGE, name: str = "nic") -> dict[str, Any]:
    """Return a NIC that is shared by memory."""
    amount = {"value": str(memory), **({"requestPolicy": policy} if policy else {})}
    return {"name": name, "allowMultipleAllocations": True, "capacity": {"memory": amount}}


@pytest.fixture
def cluster(scene: Any) -> Any:
    """Nodes with a NIC of ten, and a GPU that is in use; the last node has twice as large a NIC."""
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    scene.device_class("nic", f'device.driver == "{NIC}"')
    for number in range(NODES):
        node = f"n{number:02d}"
        scene.nodes(node)
        scene.slice(node, "gpu", nodeName=node)
        scene.slice(f"{node}-nic", nic(20 if number == NODES - 1 else 10), nodeName=node, driver=NIC)
        scene.hold(f"holder-{node}", "gpu", node)
    return scene


@pytest.fixture
def choice() -> Callable[..., dict[str, Any]]:
    """Write a request for an amount of a NIC, or else for a GPU: `choice(3)`."""

    def build(much: float, *, first: bool = True) -> dict[str, Any]:
        share = {"deviceClassName": "nic", "capacity": {"requests": {"memory": f"{round(1000 * much)}m"}}}
        items = [{"name": "share", **share}, {"name": "whole", "deviceClassName": "gpu"}]
        return {"name": "r", "firstAvailable": items[:: 1 if first else -1]}

    return build


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_nodes_that_have_nothing_for_either_are_not_searched_again(
    cluster: Any, choice: Any, searched: list[str], *, first: bool
) -> None:
    """Each claim brings an amount of its own, before or behind the alternative that others ask for as well."""
    for much in (11.0, 11.1, 11.2):
        searched.clear()
        assert cluster.decide(cluster.claim(choice(much, first=first))).node == "n19"

    assert searched == ["n19"]


def test_nodes_that_have_something_for_one_are_searched(cluster: Any, choice: Any) -> None:
    """Whichever comes back is found, although the node has nothing for the other one."""
    for much in (11.0, 11.1, 11.2):
        cluster.decide(cluster.claim(choice(much)))
    cluster.ledger.remove("team", "holder-n07")
    cluster.slice("n05-nic", nic(12), nodeName="n05", driver=NIC)

    assert cluster.decide(cluster.claim(choice(11.3))).node == "n05"
    assert cluster.decide(cluster.claim(choice(12.1))).node == "n07"
    assert cluster.picks(cluster.claim(choice(12.2))) == ["r/whole=gpu"]


def test_an_error_is_met_where_there_is_nothing_for_either(cluster: Any, choice: Any) -> None:
    """A policy by which the amount is an error ends the attempt there, although a later node would fit."""
    for much in (11.0, 11.1, 11.2):
        cluster.decide(cluster.claim(choice(much)))
    cluster.slice("n05-nic", nic(12, ODD), nodeName="n05", driver=NIC)

    found = cluster.decide(cluster.claim(choice(13)))

    assert isinstance(found, Failed)
    assert f"{NIC}/n05/nic" in found.message


@pytest.mark.parametrize("seed", range(30))
def test_decisions_are_those_of_the_plain_search(scene: Any, seed: int, live: Any) -> None:
    """Whatever is taken, comes back and changes, and with errors on the way."""
    random = Random(seed)  # noqa: S311 - the same each time
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    scene.device_class("nic", f'device.driver == "{NIC}"')

    def publish(node: str) -> None:
        gpus = [{"name": f"g{n}", "attributes": {"n": {"int": n}}} for n in range(random.randrange(1, 3))]
        policy = ODD if random.random() < 0.01 else random.choice([None, RANGE])
        scene.slice(node, *gpus, nodeName=node)
        scene.slice(f"{node}-nic", nic(random.randrange(5, 12), policy), nodeName=node, driver=NIC)

    def asked(turn: int) -> Any:
        share = {"deviceClassName": "nic", "capacity": {"requests": {"memory": f"{4000 + 40 * turn}m"}}}
        whole: dict[str, Any] = {"deviceClassName": "gpu", "count": random.choice([1, 2])}
        if random.random() < 0.3:
            whole["selectors"] = [{"cel": {"expression": 'device.attributes["gpu.example.com"].n == 0'}}]
        parts = random.sample([share, whole, {**share, "count": 2}], random.choice([2, 3]))
        return [parts, [{"deviceClassName": "gpu"}]] if random.random() < 0.2 else [parts]

    live(random, publish, asked)
