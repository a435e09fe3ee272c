"""What nodes have said is kept until something comes back there; who refused smaller amounts refuses larger ones."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Allocated, Unsatisfied
from dra_operator.allocator.search.chain import SearchMode

NIC = "nic.example.com"
KIND = 'device.attributes["gpu.example.com"].kind == "x"'
RANGE = {"validRange": {"min": "1", "step": "1"}}
POLICIES: list[dict[str, Any] | None] = [
    None,
    RANGE,
    {"default": "2", "validRange": {"min": "2", "max": "6", "step": "2"}},
    {"default": "1", "validValues": ["1", "3", "5"]},
]
ODD = {"validRange": {"min": "-1", "step": "1"}}
"""With this an amount is an error."""


def shared(
    name: str, memory: int, policy: dict[str, Any] | None = None, **attributes: dict[str, Any]
) -> dict[str, Any]:
    """Return a device that can be shared by memory."""
    amount = {"value": str(memory), **({"requestPolicy": policy} if policy else {})}
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "attributes": attributes,
        "capacity": {"memory": amount},
    }


@pytest.fixture
def amount(ask: Any) -> Callable[..., dict[str, Any]]:
    """Write a request for an amount of memory: `amount("r", 3)`."""
    return lambda name, much, *selectors, **fields: ask(
        name, 1, *selectors, capacity={"requests": {"memory": str(much)}}, **fields
    )


@pytest.fixture
def used(scene: Any, amount: Any) -> Any:
    """Twenty nodes with a device of 10 each, on all but the last of which little is left: 0 to 3."""
    for number in range(20):
        name = f"n{number:02d}"
        scene.nodes(name)
        scene.slice(name, shared("d", 10, RANGE, uuid={"string": name}), nodeName=name)
    for number in range(19):
        scene.use(f"holder-{number}", amount("r", 10 - number % 4))
    return scene


def test_who_refused_less_is_not_searched(used: Any, amount: Any, searches: Any) -> None:
    """The nodes that had too little for a smaller amount have too little for each larger one."""
    used.decide(used.claim(amount("r", 4)))
    with searches() as asked:
        assert used.decide(used.claim(amount("r", 5))).node == "n19"
        assert used.decide(used.claim(amount("r", 11))) == Unsatisfied()

    assert asked == ["n19", "n19"]


def test_who_refused_more_is_searched(used: Any, amount: Any, searches: Any) -> None:
    """A smaller amount may fit."""
    used.decide(used.claim(amount("r", 4)))
    with searches() as asked:
        assert used.decide(used.claim(amount("r", 2))).node == "n02"

    assert asked == ["n00", "n01", "n02"]


@pytest.mark.parametrize("seed", range(30))
def test_decisions_are_those_of_the_plain_search(scene: Any, seed: int, outcome: Any) -> None:
    """Whatever is taken, comes back and changes; for requests of each kind, and with errors on the way."""
    random = Random(seed)  # noqa: S311 - the same each time
    odd = random.choice([0, 0, 0.03])
    scene.device_class("nic", f'device.driver == "{NIC}"')
    if random.random() < 0.8:
        scene.device_class("gpu", 'device.driver == "gpu.example.com"')

    def device(name: str) -> dict[str, Any]:
        kind = {} if random.random() < odd else {"kind": {"string": random.choice("xxy")}}
        policy = ODD if random.random() < odd else random.choice(POLICIES)
        device = shared(name, random.randrange(3, 9), policy, **kind)
        if random.random() < 0.3:
            cores = {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}}
            device["capacity"]["cores"] = cores
        if random.random() < 0.15:
            device["allowMultipleAllocations"] = None
        return device

    def publish(node: str) -> None:
        scene.slice(node, *[device(f"d{number}") for number in range(random.randrange(1, 4))], nodeName=node)
        if random.random() < 0.7:
            scene.slice(f"{node}-nic", device("nic"), nodeName=node, driver=NIC)

    def part(turn: int) -> dict[str, Any]:
        kind = random.choice(["gpu", "gpu", "nic"])
        wanted: dict[str, Any] = {"deviceClassName": kind, "count": random.choice([1, 1, 2])}
        if kind == "gpu" and random.random() < 0.4:
            wanted["selectors"] = [{"cel": {"expression": KIND}}]
        if random.random() < 0.9:
            # Hardly any two claims ask for the same.
            amounts = {"memory": f"{random.randrange(5000) + turn}m"}
            wanted["capacity"] = {"requests": amounts | ({"cores": "1"} if random.random() < 0.2 else {})}
        return wanted

    def asked(turn: int) -> Any:
        return [[part(turn) for _ in range(random.choice([1, 1, 2]))] for _ in range(random.randrange(1, 4))]

    if random.random() < 0.3:
        scene.slice("all", device("wide"), driver=NIC)
    names = [f"n{number}" for number in range(10)]
    scene.nodes(*names)
    for name in names:
        publish(name)
    plain = Allocator(
        scene.inventory,
        scene.ledger,
        clock=scene.allocator.clock,
        share_ids=scene.allocator.share_ids,
        searching=SearchMode.PLAIN,
    )
    for turn in range(50):
        if random.random() < 0.3:
            scene.ledger.withdraw("team", f"c{random.randrange(turn + 1)}")
        if random.random() < 0.05:
            publish(random.choice(names))
        requests = [
            {"name": f"r{number}", "exactly": parts[0]}
            if len(parts) == 1
            else {
                "name": f"r{number}",
                "firstAvailable": [{"name": f"s{n}", **part} for n, part in enumerate(parts)],
            }
            for number, parts in enumerate(asked(turn))
        ]
        claim = scene.claim(*requests, name=f"c{turn}")
        plain._nodes._memory.forget()
        found = scene.decide(claim)
        assert outcome(found) == outcome(plain.allocate([claim]))
        if isinstance(found, Allocated):
            scene.ledger.assume("team", f"c{turn}", found.results[0])
