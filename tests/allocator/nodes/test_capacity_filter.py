"""Claims with amounts of their own: nodes that have too little left are left out, and nothing is decided otherwise."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from dra_operator.allocator import Allocated, Failed, SearchMode, Unsatisfied
from dra_operator.allocator.nodes.capacity_filter import CapacityFilter
from opcodes import opcodes

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
def weighed(recorded: Any) -> Iterator[list[str]]:
    """Record the nodes that are weighed."""
    with recorded(CapacityFilter, "rejects") as nodes:
        yield nodes


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


def test_nodes_with_too_little_left_are_not_searched(used: Any, amount: Any, searched: list[str]) -> None:
    """Only the one that has enough."""
    assert used.picks(used.claim(amount("r", 4))) == ["r=d"]
    assert searched == ["n19"]


def test_nodes_that_were_looked_at_are_not_looked_at_again(
    used: Any, amount: Any, weighed: list[str]
) -> None:
    """What they have left is known until something is taken or comes back there, for all amounts."""
    used.decide(used.claim(amount("r", 4)))
    weighed.clear()
    used.decide(used.claim(amount("r", 5)))

    assert weighed == ["n19"]


def test_nodes_filled_since_others_asked_for_as_much_are_left_out_after_two_searches(
    scene: Any, amount: Any, searched: list[str]
) -> None:
    """They have not said no to this amount, but others have weighed them since."""
    for number in range(20):
        scene.nodes(f"n{number:02d}")
        scene.slice(f"n{number:02d}", shared("d", 10), nodeName=f"n{number:02d}")
    scene.decide(scene.claim(amount("r", 4)))
    for number in range(19):
        scene.use(f"holder-{number}", amount("r", 7))
    scene.decide(scene.claim(amount("r", 5)))
    searched.clear()
    scene.decide(scene.claim(amount("r", 4)))

    assert searched == ["n00", "n01", "n19"]


def test_a_claim_that_fits_nowhere_costs_little_however_many_nodes_there_are(scene: Any, amount: Any) -> None:
    """All of them are left out together."""

    def cost(nodes: int) -> int:
        for number in range(nodes):
            name = f"n{nodes}-{number}"
            scene.nodes(name)
            scene.slice(name, shared("d", 10, RANGE), nodeName=name)
        scene.decide(scene.claim(amount("r", 100 + nodes)))
        return opcodes(lambda: scene.decide(scene.claim(amount("r", 200 + nodes))))

    assert cost(200) < 1.5 * cost(20)


@pytest.fixture
def models(scene: Any) -> Any:
    """Ten nodes with a device of kind y that has 100, and one of kind x, of 10 on the last and less on the others."""
    for number in range(10):
        name = f"n{number}"
        scene.nodes(name)
        x = shared("x", 10 if number == 9 else 1 + number % 3, RANGE, kind={"string": "x"})
        scene.slice(name, shared("y", 100, RANGE, kind={"string": "y"}), x, nodeName=name)
    return scene


def test_only_what_is_selected_is_weighed_after_a_search_in_vain(
    models: Any, amount: Any, searched: list[str]
) -> None:
    """Each node has enough left on a device that the selectors refuse; if nobody shares them, searches find out."""
    assert models.picks(models.claim(amount("r", 4, KIND))) == ["r=x"]
    assert len(searched) > 2
    searched.clear()

    assert models.picks(models.claim(amount("r", 5, KIND))) == ["r=x"]
    assert searched == ["n0", "n9"]


def test_nodes_are_known_by_what_is_selected(
    models: Any, amount: Any, searched: list[str], weighed: list[str]
) -> None:
    """Who selects the same is not held up by any of them; who selects something else finds what that has."""
    for much in (4, 5):
        models.decide(models.claim(amount("r", much, KIND)))
    searched.clear()
    weighed.clear()

    assert models.decide(models.claim(amount("r", 6, KIND))).node == "n9"
    assert weighed == searched == ["n9"]
    assert models.decide(models.claim(amount("r", 7))).node == "n0"
    assert models.decide(models.claim(amount("r", 8, KIND.replace('"x"', '"y"')))).node == "n0"


@pytest.mark.parametrize("who", ["the request", "the class"])
def test_nodes_whose_devices_are_refused_are_left_out_after_a_search_in_vain(
    scene: Any, amount: Any, searched: list[str], who: str
) -> None:
    """Whatever they have left, and for all amounts that follow."""
    scene.device_class("gpu", *[KIND] * (who == "the class"))
    for number in range(10):
        kind = {"kind": {"string": "x" if number == 9 else "y"}}
        scene.nodes(f"n{number}")
        scene.slice(f"n{number}", shared("d", 100, RANGE, **kind), nodeName=f"n{number}")
    selectors = [KIND] * (who == "the request")
    scene.decide(scene.claim(amount("r", 3, *selectors)))
    searched.clear()

    assert scene.decide(scene.claim(amount("r", 4, *selectors))).node == "n9"
    assert scene.decide(scene.claim(amount("r", 5, *selectors))).node == "n9"
    assert searched == ["n0", "n9", "n9"]


def test_nobody_looks_closer_for_long_where_that_tells_nothing(
    scene: Any, amount: Any, recorded: Any
) -> None:
    """What is selected has enough left for each request, and not for both."""
    for number in range(10):
        kinds = ("x", "y") if number < 9 else ("x", "x")
        devices = [shared(f"d{place}", 10, RANGE, kind={"string": kind}) for place, kind in enumerate(kinds)]
        scene.nodes(f"n{number}")
        scene.slice(f"n{number}", *devices, nodeName=f"n{number}")
    scene.decide(scene.claim(amount("r", 6, KIND), amount("s", 6, KIND)))
    with recorded(CapacityFilter, "narrow_to_selected") as looks:
        assert scene.decide(scene.claim(amount("r", 5, KIND), amount("s", 7, KIND))).node == "n9"

    assert len(looks) == 2


def test_what_differs_from_slice_to_slice_is_not_weighed_on_each(scene: Any, amount: Any) -> None:
    """Selectors that read a value which no two devices have say little about other devices: few nodes are weighed."""
    for number in range(200):
        name = f"n{number:03d}"
        scene.nodes(name)
        scene.slice(name, shared("d", 10, RANGE, serial={"int": number}), nodeName=name)
    serial = 'device.attributes["gpu.example.com"].serial >= 199'
    for much in (3, 4, 5):
        assert scene.decide(scene.claim(amount("r", much, serial))).node == "n199"

    assert not any(
        left.known.bit_count() > 64 for left in scene.allocator.availability.node_capacity.selected.values()
    )


def test_what_is_selected_comes_back(models: Any, amount: Any) -> None:
    """Whatever is selected, and in whichever pool of the node it is: one that had nothing for anybody counts."""
    other = {**shared("z", 50, None, kind={"string": "x"}), "allowMultipleAllocations": None}
    models.slice("n4-other", other, nodeName="n4", pool="n4-other")
    models.use("holder", amount("r", 20, KIND))
    models.decide(models.claim(amount("r", 9, KIND)))
    before = models.decide(models.claim(amount("r", 8, KIND)))
    models.ledger.withdraw("team", "holder")

    assert before.node == "n9"
    assert models.decide(models.claim(amount("r", 7, KIND))).node == "n4"


def test_what_comes_back_is_found(used: Any, amount: Any, outcome: Any) -> None:
    """A node that was left out is looked at again."""
    before = outcome(used.decide(used.claim(amount("r", 6))))
    used.ledger.withdraw("team", "holder-7")

    assert before[0] == "n19"
    assert used.decide(used.claim(amount("r", 5))).node == "n07"


def test_what_is_taken_is_gone(used: Any, amount: Any) -> None:
    """Also on a node that had enough when it was looked at."""
    assert used.use("first", amount("r", 7)) == ["d"]

    assert used.decide(used.claim(amount("r", 5))) == Unsatisfied()
    assert used.picks(used.claim(amount("r", 3))) == ["r=d"]


def test_a_slice_that_changes_is_looked_at_again(used: Any, amount: Any) -> None:
    """It may have more, whatever was left."""
    used.decide(used.claim(amount("r", 11)))
    used.slice("n05", shared("d", 30, RANGE), nodeName="n05")

    assert used.decide(used.claim(amount("r", 12))).node == "n05"


def test_nodes_are_known_by_their_names(used: Any, amount: Any) -> None:
    """When one goes, all behind it have other numbers."""
    used.decide(used.claim(amount("r", 11)))
    used.inventory.remove("Node", "n00")

    for much in (6, 5):
        assert used.decide(used.claim(amount("r", much))).node == "n19"


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


def test_a_step_that_nothing_can_hold_is_an_error_where_nothing_is_left(used: Any, amount: Any) -> None:
    """An amount that is rounded up to it is beyond what can be represented."""
    policy = {"validRange": {"min": "1", "step": str(2**63 - 1)}}
    used.slice("n15", shared("d", 10, policy), nodeName="n15")
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


def test_a_request_that_no_policy_can_compute_is_not_weighed(used: Any, amount: Any) -> None:
    """Less than a thousandth ends the attempt on the first device."""
    assert isinstance(used.decide(used.claim(amount("r", "100100100n"))), Unsatisfied | Failed | Allocated)
    found = used.decide(used.claim(amount("r", "5000100u")))
    used.search(SearchMode.PLAIN)

    assert isinstance(found, Failed)
    assert used.decide(used.claim(amount("r", "5000100u"))) == found


def test_slices_are_told_apart_by_what_a_class_reads(scene: Any, amount: Any) -> None:
    """Those of the first nodes are alike in what the request reads, and the class takes none of them."""
    scene.device_class("gpu", KIND)
    for name, kind in (("n0", "y"), ("n1", "y"), ("n2", "x")):
        scene.nodes(name)
        scene.slice(name, shared("d", 10, RANGE, kind={"string": kind}, size={"int": 1}), nodeName=name)
    size = 'device.attributes["gpu.example.com"].size == 1'

    assert scene.decide(scene.claim(amount("r", 4, size))).node == "n2"


def test_a_pool_that_nodes_share_is_weighed_with_each(scene: Any, amount: Any) -> None:
    """Its nodes are not known by what is left, as all of them would have to be looked at after each share."""
    names = [f"n{number}" for number in range(6)]
    scene.nodes(*names)
    scene.slice("all", shared("wide", 20, RANGE))
    for name in names:
        scene.slice(name, shared(f"own-{name}", 2, RANGE), nodeName=name)
    assert scene.use("first", amount("r", 15), amount("s", 2)) == ["wide", "own-n0"]

    assert scene.decide(scene.claim(amount("r", 6))) == Unsatisfied()
    assert scene.picks(scene.claim(amount("r", 5), amount("s", 1))) == ["r=wide", "s=own-n1"]
    assert not scene.allocator.availability.node_capacity.every.known


def test_a_node_with_room_is_not_looked_at_further(scene: Any, amount: Any) -> None:
    """What it has left is about to change, and of those with too little it is kept."""
    scene.nodes("n0", "n1")
    scene.slice("n0", shared("a", 2, RANGE), nodeName="n0")
    scene.slice("n1", shared("b", 9, RANGE), nodeName="n1")

    assert scene.picks(scene.claim(amount("r", 7))) == ["r=b"]
    assert scene.allocator.availability.node_capacity.every.known == 0b01


def test_kinds_beyond_number_are_counted(scene: Any, amount: Any, searched: list[str]) -> None:
    """Where the selectors read a value that no two devices have, the scales leave nodes to the search."""
    for number in range(100):
        name = f"n{number:02d}"
        scene.nodes(name)
        scene.slice(name, shared("d", 10, RANGE, kind={"string": f"k{number}"}), nodeName=name)
    claim = scene.claim(amount("r", 3, KIND.replace('"x"', '"k98"')), amount("s", 4))

    assert scene.decide(claim).node == "n98"
    assert len(searched) < 100


@pytest.mark.parametrize("seed", range(30))
def test_decisions_are_those_of_the_plain_search(scene: Any, seed: int, live: Any) -> None:
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
    live(random, publish, asked)
