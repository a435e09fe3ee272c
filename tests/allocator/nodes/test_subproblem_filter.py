"""Claims that have a part in common: nodes that have nothing for it are left out, and nothing is decided otherwise."""

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from dra_operator.allocator import Allocated, Allocator, Failed, SearchMode, Unsatisfied
from dra_operator.allocator.nodes import subproblem_filter
from dra_operator.allocator.nodes.subproblem_filter import SubproblemFilter

NIC = "nic.example.com"
PART = 'device.attributes["gpu.example.com"].kind == "x"'
ROOM = f'device.attributes["{NIC}"].kind == "x"'
RANGE = {"validRange": {"min": "1", "step": "1"}}
ODD = {"validRange": {"min": "-1", "step": "1"}}
"""With this an amount is an error."""
NODES = 20


@pytest.fixture
def asked(recorded: Any) -> Iterator[list[str]]:
    """Record the nodes that are asked for a common part."""
    with recorded(SubproblemFilter, "_has_nothing") as nodes:
        yield nodes


@pytest.fixture
def gpu(ask: Any) -> dict[str, Any]:
    """A request that many claims have in common."""
    return ask("g", 1, PART)


@pytest.fixture
def room() -> Callable[..., dict[str, Any]]:
    """Write a request for an amount of a NIC: `room(3)`."""
    return lambda much, name="m", **fields: {
        "name": name,
        "exactly": {
            "deviceClassName": "nic",
            "count": 1,
            "capacity": {"requests": {"memory": str(much)}},
            **fields,
        },
    }


def nic(name: str = "nic", policy: dict[str, Any] = RANGE, **attributes: Any) -> dict[str, Any]:
    """Return a NIC that is shared by memory."""
    capacity = {"memory": {"value": "1000", "requestPolicy": policy}}
    return {"name": name, "allowMultipleAllocations": True, "attributes": attributes, "capacity": capacity}


@pytest.fixture
def cluster(scene: Any) -> Any:
    """Nodes with a NIC that has room for anybody, and two GPUs; only on the last one that of kind x is free."""
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    scene.device_class("nic", f'device.driver == "{NIC}"')
    gpus = [{"name": f"gpu-{kind}", "attributes": {"kind": {"string": kind}}} for kind in "xy"]
    for number in range(NODES):
        node = f"n{number:02d}"
        scene.nodes(node)
        scene.slice(node, *gpus, nodeName=node)
        scene.slice(f"{node}-nic", nic(kind={"string": "x"}), nodeName=node, driver=NIC)
        if number < NODES - 1:
            scene.hold(f"holder-{node}", "gpu-x", node)
    return scene


def node_of(decision: Any) -> str | None:
    """Return the node of a decision, or None."""
    return decision.node if isinstance(decision, Allocated) else None


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_nodes_without_a_common_part_are_not_searched_again(
    cluster: Any, gpu: Any, room: Any, searched: list[str], order: int
) -> None:
    """Each claim brings an amount of its own, before or behind what it has in common with the others."""
    for much in range(3, 6):
        searched.clear()
        claim = cluster.claim(*[gpu, room(much)][::order])
        assert node_of(cluster.decide(claim)) == "n19"

    assert searched == ["n19"]


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_what_comes_back_is_found(cluster: Any, gpu: Any, room: Any, order: int) -> None:
    """A node that had nothing for the common part is asked again."""
    for much in range(3, 6):
        cluster.decide(cluster.claim(*[gpu, room(much)][::order]))
    cluster.ledger.remove("team", "holder-n07")

    assert node_of(cluster.decide(cluster.claim(*[gpu, room(6)][::order]))) == "n07"


def test_claims_of_one_pod_have_a_part_in_common(
    cluster: Any, gpu: Any, room: Any, searched: list[str]
) -> None:
    """Whichever of the claims brings what is new."""
    for much in range(3, 6):
        searched.clear()
        claims = [cluster.claim(room(much), name="room"), cluster.claim(gpu, name="gpu")]
        assert node_of(cluster.decide(*claims)) == "n19"

    assert searched == ["n19"]


@pytest.mark.parametrize(
    ("bad", "wanted"),
    [
        (nic(), {"selectors": [{"cel": {"expression": ROOM}}]}),
        (nic(policy=ODD), {}),
    ],
    ids=["a selector", "an amount"],
)
def test_an_error_before_the_common_part_is_met(
    cluster: Any, gpu: Any, room: Any, searched: list[str], *, bad: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Behind it nobody comes to the error, as the node has nothing for the first request."""
    before, behind = [], []
    for much in range(3, 7):
        if much == 5:
            cluster.slice("n05-nic", bad, nodeName="n05", driver=NIC)
        before.append(cluster.decide(cluster.claim(room(much, **wanted), gpu)))
        searched.clear()
        behind.append(cluster.decide(cluster.claim(gpu, room(much, **wanted))))

    assert [type(decision) for decision in before] == [Allocated, Allocated, Failed, Failed]
    assert [node_of(decision) for decision in behind] == ["n19"] * 4
    assert searched == ["n19"]


@pytest.mark.parametrize("pods", [1, 2])
def test_what_follows_an_odd_amount_is_in_no_part(cluster: Any, ask: Any, room: Any, pods: int) -> None:
    """An amount that nobody can compute is an error on the first node, also where no node has the rest."""
    pair = ask("g", 2, PART)

    def decide(much: str) -> Any:
        requests = [room(much), pair]
        if pods == 1:
            return cluster.decide(cluster.claim(*requests))
        return cluster.decide(
            *(cluster.claim(item, name=f"c{number}") for number, item in enumerate(requests))
        )

    assert [decide(much) for much in ("3", "4")] == [Unsatisfied(), Unsatisfied()]
    assert isinstance(decide("5000100u"), Failed)


def test_a_part_that_fits_nowhere_costs_little(
    cluster: Any, ask: Any, room: Any, searched: list[str], asked: list[str]
) -> None:
    """Two GPUs of a kind of which each node has one: the third claim that wants them asks no node."""
    pair = ask("g", 2, PART)
    for much in range(3, 6):
        searched.clear()
        asked.clear()
        assert cluster.decide(cluster.claim(room(much), pair)) == Unsatisfied()

    assert searched == asked == []


def test_what_nobody_asked_for_before_is_no_part(cluster: Any, ask: Any, room: Any, asked: list[str]) -> None:
    """To ask for it twice would cost as much again, and nobody else will."""
    for much in range(3, 6):
        cluster.decide(cluster.claim(ask("g", 1, f"{much} > 0 && {PART}"), room(much)))

    assert asked == []


def test_claims_of_known_requests_alone_have_no_part(
    cluster: Any, gpu: Any, ask: Any, asked: list[str]
) -> None:
    """They are a problem that others will have as well, and each node is searched for them once."""
    more = ask("o", 1, PART.replace('"x"', '"y"'))
    for requests in ([gpu], [more], [gpu, more], [more, gpu]):
        assert node_of(cluster.decide(cluster.claim(*requests))) is not None

    assert asked == []


@pytest.mark.parametrize("order", [1, -1], ids=["first", "last"])
def test_where_the_first_node_fits_nobody_is_asked(
    cluster: Any, gpu: Any, room: Any, asked: list[str], order: int
) -> None:
    """As in a cluster with room."""
    cluster.ledger.remove("team", "holder-n00")
    for much in range(3, 6):
        assert node_of(cluster.decide(cluster.claim(*[gpu, room(much)][::order]))) == "n00"

    assert asked == []


def test_nodes_that_have_the_part_are_not_asked_on_and_on(
    cluster: Any, room: Any, ask: Any, asked: list[str]
) -> None:
    """Where the first ones have it, it is something else that fails."""
    other = ask("o", 1, PART.replace('"x"', '"y"'))
    mine = [ask("g", 1, f"{number} >= 0 && {PART}") for number in range(3)]
    for number in range(3):
        asked.clear()
        assert node_of(cluster.decide(cluster.claim(other, mine[number], room(number + 3)))) == "n19"

    assert 0 < len(asked) < NODES / 2


def test_an_expression_of_its_own_ends_the_part(cluster: Any, gpu: Any, room: Any, asked: list[str]) -> None:
    """It would have to be asked about all devices of each node, before it is known that the rest fits nowhere."""
    for much in range(3, 6):
        own = room(much, selectors=[{"cel": {"expression": f"{much} > 0 && {ROOM}"}}])
        assert node_of(cluster.decide(cluster.claim(own, gpu))) == "n19"

    assert asked == []


@pytest.mark.parametrize(("seconds", "expected"), [(0, Allocated), (11, Failed)], ids=["time", "no time"])
def test_a_part_that_takes_too_long_is_left_open(
    cluster: Any, gpu: Any, ask: Any, room: Any, *, seconds: int, expected: type
) -> None:
    """The claim is searched for all the same, unless its own time is over."""
    pair = [gpu, ask("o", 1, PART.replace('"x"', '"y"'))]
    for much in (3, 4):
        cluster.decide(cluster.claim(*pair, room(much)))
    cluster.ledger.remove("team", "holder-n00")
    cluster.slice("n00", {"name": "gpu-y", "attributes": {"kind": {"string": "y"}}}, nodeName="n00")
    times = chain([0], repeat(seconds))
    cluster.allocator.clock = lambda: next(times)

    with patch.object(subproblem_filter, "_STEPS", 0):
        assert isinstance(cluster.decide(cluster.claim(*pair, room(5))), expected)


@pytest.mark.parametrize("seed", range(40))
def test_decisions_are_those_of_the_plain_search(scene: Any, seed: int, outcome: Any) -> None:
    """Whatever is taken, comes back and changes between claims, and with errors on the way."""
    world = _World(scene, Random(seed))  # noqa: S311 - the same each time
    allocator = scene.allocator
    plain = Allocator(
        scene.inventory,
        scene.ledger,
        clock=allocator.clock,
        share_ids=allocator.share_ids,
        searching=SearchMode.PLAIN,
    )
    for turn in range(60):
        world.change(turn)
        claims = world.claims(turn)
        found, expected = allocator.allocate(claims), plain.allocate(claims)
        assert outcome(found) == outcome(expected)
        if isinstance(found, Allocated):
            for number, result in enumerate(found.results):
                scene.ledger.assume("team", f"c{turn}-{number}", result)


class _World:
    """Nodes with GPUs and a NIC, and claims for both of which each brings amounts of its own."""

    def __init__(self, scene: Any, random: Random) -> None:
        self.scene, self.random = scene, random
        scene.device_class("gpu", 'device.driver == "gpu.example.com"')
        scene.device_class("nic", f'device.driver == "{NIC}"')
        self.odd = random.choice([0, 0, 0.05])
        self.names = [f"n{number}" for number in range(8)]
        scene.nodes(*self.names)
        for name in self.names:
            self.publish(name)

    def publish(self, node: str) -> None:
        """Publish the slices of a node."""
        random = self.random
        gpus = [
            {
                "name": f"gpu-{number}",
                "attributes": {"kind": {"string": random.choice("xxy")}, "bank": {"int": number // 2}},
            }
            for number in range(random.randrange(4))
        ]
        kind = {} if random.random() < self.odd else {"kind": {"string": random.choice("xy")}}
        policy = ODD if random.random() < self.odd else RANGE
        self.scene.slice(node, *gpus, nodeName=node)
        self.scene.slice(f"{node}-nic", nic(policy=policy, **kind), nodeName=node, driver=NIC)

    def change(self, turn: int) -> None:
        """Let claims go, and now and then change the slices of a node."""
        random = self.random
        if random.random() < 0.4:
            self.scene.ledger.withdraw("team", f"c{random.randrange(turn + 1)}-{random.randrange(2)}")
        if random.random() < 0.05:
            self.publish(random.choice(self.names))

    def claims(self, turn: int) -> list[Any]:
        """Return the claims of a pod: one or two."""
        number = self.random.choice([1, 1, 2])
        return [self.claim(turn, f"c{turn}-{place}") for place in range(number)]

    def claim(self, turn: int, name: str) -> Any:
        """Return a claim."""
        random = self.random
        asked = [self.request(turn, f"r{place}") for place in range(random.randrange(1, 4))]
        rule = {"matchAttribute": "gpu.example.com/bank", "requests": [item["name"] for item in asked[:1]]}
        more = {"constraints": [rule]} if random.random() < 0.3 else {}
        return self.scene.claim(*asked, name=name, **more)

    def request(self, turn: int, name: str) -> dict[str, Any]:
        """Return a request: for GPUs, or for an amount that hardly any other brings."""
        random = self.random
        if random.random() < 0.5:
            wanted: dict[str, Any] = {"deviceClassName": "gpu", "count": random.choice([1, 1, 2])}
            selector = PART
        else:
            amount = {"memory": str(random.randrange(100, 500) + turn)}
            wanted = {"deviceClassName": "nic", "count": 1, "capacity": {"requests": amount}}
            selector = ROOM
        if random.random() < 0.4:
            wanted["selectors"] = [{"cel": {"expression": selector}}]
        return {"name": name, "exactly": wanted}
