"""What nodes have said is kept until something comes back there; who refused smaller amounts refuses larger ones."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Allocated, Allocator, Failed, SearchMode, Unsatisfied

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


@pytest.mark.parametrize("field", ["selector", "count", "class", "capacity"])
def test_only_claims_that_differ_in_amounts_alone_are_compared(
    used: Any, amount: Any, searches: Any, field: str
) -> None:
    """Whoever selects otherwise, or names another capacity, is searched for."""
    used.device_class("other")
    used.decide(used.claim(amount("r", 4)))
    claim = {
        "selector": lambda: used.claim(amount("r", 5, "true")),
        "count": lambda: used.claim(amount("r", 5), amount("s", 1)),
        "class": lambda: used.claim(amount("r", 5, tolerations=[{"operator": "Exists"}])),
        "capacity": lambda: used.claim(amount("r", 5) | {"name": "s"}, amount("t", 1)),
    }[field]()
    with searches() as asked:
        used.decide(claim)

    assert len(asked) == 20


def test_an_amount_that_only_the_default_permits_fits_where_less_is_refused(scene: Any, amount: Any) -> None:
    """Such a node is searched again for the larger amount."""
    scene.nodes("n")
    scene.slice("n", shared("d", 10, {"default": "9", "validValues": ["1", "3"]}), nodeName="n")

    assert scene.decide(scene.claim(amount("r", 5))) == Unsatisfied()
    assert scene.picks(scene.claim(amount("r", 9))) == ["r=d"]


def test_a_device_held_alone_comes_back(scene: Any, amount: Any) -> None:
    """A pool without a free device has nothing left, until one is free."""
    scene.nodes("n")
    scene.slice("n", {**shared("d", 10), "allowMultipleAllocations": None}, shared("e", 2), nodeName="n")
    scene.use("holder", amount("r", 5))
    before = scene.decide(scene.claim(amount("r", 6)))
    scene.ledger.withdraw("team", "holder")

    assert before == Unsatisfied()
    assert scene.picks(scene.claim(amount("r", 7))) == ["r=d"]


@pytest.mark.parametrize("much", [4, 20])
@pytest.mark.parametrize("requests", [1, 2])
def test_an_error_is_met_where_nothing_is_left(
    used: Any, amount: Any, outcome: Any, much: int, requests: int
) -> None:
    """A selector fails on a device, and a policy on an amount, also where too little is left of either."""
    claims = [
        used.claim(*(amount(f"r{number}", much + turn, KIND) for number in range(requests)))
        for turn in range(3)
    ]
    found = [outcome(used.decide(claim)) for claim in claims]
    used.search(SearchMode.PLAIN)

    assert all(isinstance(decision, Failed) for decision in found)
    assert found == [outcome(used.decide(claim)) for claim in claims]


def test_a_policy_by_which_an_amount_is_an_error_is_met(used: Any, amount: Any) -> None:
    """On a node with too little left as well, and again by the next claim."""
    used.slice("n15", shared("d", 10, ODD, uuid={"string": "odd"}), nodeName="n15")
    found = [used.decide(used.claim(amount("r", much))) for much in (4, 11, 12)]

    assert [type(decision) for decision in found] == [Failed, Failed, Failed]


@pytest.mark.parametrize(
    "other",
    [
        {"value": "-1"},
        {"value": "1", "requestPolicy": {"default": "-1"}},
    ],
    ids=["a negative value", "a negative default"],
)
def test_an_amount_that_nobody_asks_for_is_an_error_where_nothing_is_left(
    used: Any, amount: Any, other: dict[str, Any]
) -> None:
    """Who asks for memory is given of the other capacity as well."""
    device = shared("d", 10, RANGE)
    device["capacity"]["other"] = other
    used.slice("n15", device, nodeName="n15")
    found = [used.decide(used.claim(amount("r", much))) for much in (4, 11)]

    assert [type(decision) for decision in found] == [Failed, Failed]


def test_a_node_selector_that_cannot_be_parsed_is_met_where_too_little_is_left(
    used: Any, amount: Any
) -> None:
    """On a device that has too little as well, for each claim."""
    terms = [{"matchExpressions": [{"key": "a", "operator": "Bogus", "values": ["b"]}]}]
    odd = {**shared("odd", 10, RANGE), "nodeSelector": {"nodeSelectorTerms": terms}}
    used.slice("all", {**shared("d", 10, RANGE), "allNodes": True}, odd, perDeviceNodeSelection=True)
    found = [used.decide(used.claim(amount("r", much))) for much in (21, 22, 23)]

    assert [type(decision) for decision in found] == [Failed] * 3


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
