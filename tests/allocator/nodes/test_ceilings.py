"""Nodes for which less was too much are left out, and nothing is decided otherwise."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Allocated, Failed, Unsatisfied
from opcodes import opcodes

SLOW = 'device.attributes["gpu.example.com"].model == "slow"'
SMALL_STEPS = {"validRange": {"min": "1m", "step": "1m"}}
DEFAULT_ONLY = {"default": "5", "validRange": {"step": "1"}}
"""No amount is on steps without a beginning, but the default is permitted."""


def device(
    name: str, model: str, policy: dict[str, Any] | None = SMALL_STEPS, **capacity: int
) -> dict[str, Any]:
    """Return a device that can be shared by some capacities."""
    rule = {"requestPolicy": policy} if policy else {}
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": {"model": {"string": model}},
        "capacity": {key: {"value": str(value), **rule} for key, value in capacity.items()},
    }


@pytest.fixture
def amounts(ask: Any) -> Callable[..., dict[str, Any]]:
    """Write a request for amounts of a slow device: `amounts(memory=3)`."""
    return lambda name="r", **asked: ask(
        name, 1, SLOW, capacity={"requests": {key: str(value) for key, value in asked.items()}}
    )


@pytest.fixture
def both(amounts: Any) -> Callable[[str], Sequence[dict[str, Any]]]:
    """Write two requests for the same amount, as each of them alone is weighed: `both("4")`."""
    return lambda memory: (amounts("r", memory=memory), amounts("s", memory=memory))


@pytest.fixture
def slow(scene: Any) -> Any:
    """Ten nodes with a slow device, which has 40 on the last and 10 on the others."""
    return _slow_devices(scene, 10)


@pytest.fixture
def unfit(scene: Any) -> Any:
    """Three nodes with fast devices of 50, and one, n3, for whatever a test puts there."""
    for index in range(3):
        scene.slice(f"n{index}", device("fast", "fast", memory=50, cores=50), nodeName=f"n{index}")
    scene.nodes("n0", "n1", "n2", "n3")
    return scene


def _slow_devices(scene: Any, number: int) -> Any:
    for index in range(number):
        name = f"n{index:03d}"
        scene.nodes(name)
        scene.slice(name, device("slow", "slow", memory=40 if index == number - 1 else 10), nodeName=name)
    return scene


def test_a_node_is_not_searched_for_more_than_was_too_much(slow: Any, both: Any, searched: list[str]) -> None:
    """Two searches in vain, and the nodes that others have found to have too little are known."""
    assert slow.decide(slow.claim(*both("6"))).node == "n009"
    searched.clear()

    assert slow.decide(slow.claim(*both("7"))).node == "n009"
    assert searched == ["n000", "n001", "n009"]


def test_a_node_is_searched_for_less_than_was_too_much(slow: Any, both: Any) -> None:
    """It may have that."""
    assert slow.decide(slow.claim(*both("6"))).node == "n009"
    assert slow.decide(slow.claim(*both("4500m"))).node == "n000"


def test_the_same_amount_written_in_another_way_is_no_less(slow: Any, both: Any, searched: list[str]) -> None:
    """What was too much for a node is still too much."""
    assert slow.decide(slow.claim(*both("6"))).node == "n009"
    searched.clear()

    assert slow.decide(slow.claim(*both("6000m"))).node == "n009"
    assert searched == ["n000", "n001", "n009"]


def test_a_node_where_something_came_back_is_searched_once_more(
    slow: Any, both: Any, searched: list[str]
) -> None:
    """It may have more than it had then; if not, it is known again."""
    slow.slice("n004", device("slow", "slow", memory=18), nodeName="n004")
    slow.use("holder", *both("5500m"))
    assert slow.decide(slow.claim(*both("7"))).node == "n009"
    slow.ledger.withdraw("team", "holder")

    assert slow.decide(slow.claim(*both("8"))).node == "n004"
    assert slow.decide(slow.claim(*both("9500m"))).node == "n009"
    searched.clear()
    assert slow.decide(slow.claim(*both("9600m"))).node == "n009"
    assert searched == ["n000", "n001", "n009"]


def test_a_node_that_changed_is_searched(slow: Any, both: Any) -> None:
    """Its driver has published more."""
    assert slow.decide(slow.claim(*both("6"))).node == "n009"
    slow.slice("n006", device("slow", "slow", memory=19), nodeName="n006")

    assert slow.decide(slow.claim(*both("7"))).node == "n006"


def test_each_amount_counts(unfit: Any, amounts: Any) -> None:
    """More of one capacity and less of another is another question."""
    unfit.slice("n3", device("slow", "slow", memory=5, cores=4), nodeName="n3")

    assert unfit.decide(unfit.claim(amounts(memory=4, cores=6))) == Unsatisfied()
    assert unfit.decide(unfit.claim(amounts(memory=4, cores=7))) == Unsatisfied()
    assert unfit.decide(unfit.claim(amounts(memory=5, cores=4))).node == "n3"


@pytest.mark.parametrize(
    ("harder", "easier"),
    [
        ({"count": 4}, {"count": 1}),
        ({}, {"tolerations": [{"key": "kept", "operator": "Exists"}]}),
        ({"selector": SLOW.replace("slow", "none")}, {}),
        ({"capacity": "cores"}, {}),
        ({"constraints": [{"matchAttribute": "gpu.example.com/uuid"}]}, {}),
        (
            {"constraints": [{"matchAttribute": "gpu.example.com/uuid"}]},
            {"constraints": [{"matchAttribute": "gpu.example.com/model"}]},
        ),
        (
            {"constraints": [{"matchAttribute": "gpu.example.com/uuid"}]},
            {"constraints": [{"requests": ["r"], "matchAttribute": "gpu.example.com/uuid"}]},
        ),
    ],
    ids=[
        "count",
        "tolerations",
        "selectors",
        "capacity",
        "constraints",
        "attribute of a constraint",
        "requests of a constraint",
    ],
)
def test_claims_that_differ_in_more_than_amounts_are_searched_for(
    unfit: Any, ask: Any, harder: dict[str, Any], easier: dict[str, Any]
) -> None:
    """What was too much for one of them need not be for another, though it asks for more."""
    taint = {"taints": [{"key": "kept", "effect": "NoSchedule"}]} if "tolerations" in easier else {}
    names = ("a", "b", "c")
    devices = [{**device(name, "slow", memory=9), **taint} for name in names]
    for name, item in zip(names, devices, strict=True):
        item["attributes"]["uuid"] = {"string": name}
    unfit.slice("n3", *devices, nodeName="n3")

    def claim(
        memory: str,
        *,
        count: int = 1,
        selector: str = SLOW,
        capacity: str = "memory",
        tolerations: Sequence[dict[str, Any]] = (),
        constraints: Sequence[dict[str, Any]] = (),
    ) -> Any:
        asked = {"requests": {capacity: memory}}
        requests = [
            ask(name, count, selector, capacity=asked, tolerations=list(tolerations)) for name in ("r", "s")
        ]
        return unfit.claim(*requests, constraints=list(constraints))

    assert unfit.decide(claim("5", **harder)) == Unsatisfied()
    assert unfit.decide(claim("6", **easier)).node == "n3"


def test_a_policy_may_permit_more_and_not_less(unfit: Any, amounts: Any) -> None:
    """The default is permitted even if no other amount is, so nothing is kept of such a node."""
    unfit.slice("n3", device("slow", "slow", DEFAULT_ONLY, memory=9), nodeName="n3")

    assert unfit.decide(unfit.claim(amounts(memory=4))) == Unsatisfied()
    assert unfit.decide(unfit.claim(amounts(memory=5))).node == "n3"


def test_an_amount_that_is_an_error_is_one_whatever_was_too_much(unfit: Any, amounts: Any) -> None:
    """Its range is in thousandths, so that it cannot be computed."""
    unfit.slice("n3", device("slow", "slow", memory=1), nodeName="n3")

    assert unfit.decide(unfit.claim(amounts(memory=4))) == Unsatisfied()
    assert isinstance(unfit.decide(unfit.claim(amounts(memory="4000001u"))), Failed)


def test_nodes_of_one_view_are_told_apart_if_their_kubelets_differ(scene: Any, amounts: Any) -> None:
    """A pool that all nodes see may be usable on one of them only."""
    for number in range(5):
        features = ["DRAOptionalNodeOperations"] * (number == 4)
        scene.put("Node", f"n{number}", status={"declaredFeatures": features})
    scene.slice("all", device("slow", "slow", memory=9), skipNodeOperations=["*"])

    assert scene.decide(scene.claim(amounts(memory=4))).node == "n4"
    assert scene.decide(scene.claim(amounts(memory=5))).node == "n4"


def test_a_claim_costs_few_visits_however_many_nodes_are_full(scene: Any, both: Any) -> None:
    """Nearly all nodes are known from the claims before."""
    _slow_devices(scene, 200)
    assert isinstance(scene.decide(scene.claim(*both("6"))), Allocated)

    def decide() -> None:
        assert isinstance(scene.decide(scene.claim(*both("7"))), Allocated)

    assert opcodes(decide) < 20_000


def test_only_so_many_amounts_are_kept(slow: Any, both: Any) -> None:
    """Claims may ask for less and less, each for another amount."""
    for number in range(300, 0, -1):
        slow.decide(slow.claim(*both(f"{6000 + number}m")))
    (ceiling,) = slow.allocator._walk._ceilings.memory._known.values()

    assert 64 <= len(ceiling.refused) <= 128


@pytest.mark.parametrize("seed", range(30))
def test_decisions_are_those_of_the_plain_search(scene: Any, seed: int, live: Any) -> None:
    """Whatever is taken and comes back, for any number of amounts, requests and alternatives, and odd policies."""
    random = Random(seed)  # noqa: S311 - the same each time
    odd = random.choice([0, 0, 0.1])

    def publish(node: str) -> None:
        devices = []
        for number in range(random.randrange(2, 5)):
            policy = DEFAULT_ONLY if random.random() < odd else random.choice([None, SMALL_STEPS])
            capacity = {name: random.randrange(2, 8) for name in ("memory", "cores")}
            devices.append(device(f"d{number}", "slow" if number else "fast", policy, **capacity))
        scene.slice(node, *devices, nodeName=node)

    def part() -> dict[str, Any]:
        names = random.choice([["memory"], ["memory", "cores"]])
        return {
            "deviceClassName": "gpu",
            "count": random.choice([1, 1, 2]),
            "selectors": [{"cel": {"expression": SLOW}}],
            "capacity": {"requests": {name: f"{random.randrange(1, 12) * 500}m" for name in names}},
        }

    def asked(_: int) -> Any:
        return [[part() for _ in range(random.choice([1, 1, 1, 2]))] for _ in range(random.choice([1, 1, 2]))]

    live(random, publish, asked)
