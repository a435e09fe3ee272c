"""Which nodes are asked, and which need not be."""

from typing import Any

import pytest

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Failed, Unsatisfied
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.read import read_object


@pytest.fixture
def three_nodes(scene: Any) -> Any:
    """Three nodes with a device each."""
    scene.nodes("n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        scene.slice(node, node, nodeName=node)
    return scene


def test_full_nodes_are_not_searched(three_nodes: Any, ask: Any, searches: Any) -> None:
    """A node without a free device cannot serve a request for a number of them."""
    three_nodes.use("other", ask())
    with searches() as asked:
        three_nodes.decide(three_nodes.claim(ask()))

    assert asked == ["n2"]


def test_a_node_is_searched_for_the_error_of_a_device_it_cannot_use(scene: Any, ask: Any) -> None:
    """Selectors are evaluated on all devices of a slice, also on those kept for other nodes."""
    scene.nodes("n1", "n2")
    kept = [{"name": "a", "nodeName": "n2"}, {"name": "b", "nodeName": "n1"}]
    scene.slice("s", *kept, perDeviceNodeSelection=True)
    scene.use("other", ask())
    decision = scene.decide(scene.claim(ask("r", 1, 'device.attributes["x"].y')), nodes=["n1"])

    assert isinstance(decision, Failed)


def test_a_claim_that_fits_nowhere_is_not_searched_again(three_nodes: Any, ask: Any, searches: Any) -> None:
    """Each node has said no, and nothing has come back; another claim that asks the same knows it, too."""
    three_nodes.decide(three_nodes.claim(ask("r", 2)))
    with searches() as asked:
        first = three_nodes.decide(three_nodes.claim(ask("r", 2)))
        second = three_nodes.decide(three_nodes.claim(ask("other", 2), name="other"))

    assert (first, second) == (Unsatisfied(), Unsatisfied())
    assert asked == []


def test_only_the_node_where_something_came_back_is_searched(
    three_nodes: Any, ask: Any, searches: Any
) -> None:
    """A freed device puts its node back into question."""
    for name in "abc":
        three_nodes.use(name, ask())
    three_nodes.decide(three_nodes.claim(ask()))
    three_nodes.ledger.withdraw("team", "b")
    with searches() as asked:
        decision = three_nodes.decide(three_nodes.claim(ask()))

    assert asked == ["n2"]
    assert isinstance(decision, Allocated)


def test_a_class_that_is_missing_is_found_when_it_comes(three_nodes: Any, ask: Any) -> None:
    """The error names the class, and is gone with it."""
    claim = three_nodes.claim(ask("r", 1, deviceClassName="new"))
    missing = three_nodes.decide(claim)
    three_nodes.device_class("new")

    assert isinstance(missing, Failed)
    assert missing.subject == ("DeviceClass", "new")
    assert isinstance(three_nodes.decide(claim), Allocated)


def hard(scene: Any, ask: Any) -> Any:
    """Return a claim that trying one device at a time proves infeasible too late: 25 shares of 3 of eight times 10."""
    scene.allocator.searching = SearchMode.PLAIN
    scene.nodes("n1")
    shareable = {"allowMultipleAllocations": True, "capacity": {"m": {"value": "10"}}}
    scene.slice("s", *({"name": f"d{n}", **shareable} for n in range(8)))
    return scene.claim(*(ask(f"r{n}", capacity={"requests": {"m": "3"}}) for n in range(25)))


def test_too_many_steps_abort(ticking: Any, ask: Any) -> None:
    """The search is given up, which is never a no."""
    scene = ticking(Limits(steps=1000, seconds=None))
    decision = scene.decide(hard(scene, ask))

    assert isinstance(decision, Failed)
    assert (decision.kind, decision.message) == ("aborted", "the search was given up after 1000 steps")


def test_the_deadline_aborts(ticking: Any, ask: Any) -> None:
    """By the clock that was handed in."""
    scene = ticking(Limits(steps=None, seconds=5))
    decision = scene.decide(hard(scene, ask))

    assert isinstance(decision, Failed)
    assert (decision.kind, decision.message) == ("aborted", "the search was given up after 5 s")


def test_evaluating_many_devices_ends_at_the_deadline(ticking: Any, ask: Any) -> None:
    """However few of them a node has: with selectors that take long, nothing else would look at the clock."""
    scene = ticking(Limits(steps=None, seconds=5))
    scene.nodes(*(f"n{number:03d}" for number in range(400)))
    for number in range(400):
        device = {"name": "d", "attributes": {"uuid": {"string": f"u{number}"}}}
        scene.slice(f"s{number:03d}", device, nodeName=f"n{number:03d}", pool=f"p{number:03d}")
    decision = scene.decide(scene.claim(ask("r", 1, 'device.attributes["gpu.example.com"].uuid == "other"')))

    assert isinstance(decision, Failed)
    assert (decision.kind, decision.message) == ("aborted", "the search was given up after 5 s")


def test_taking_a_device_can_help_where_groups_contradict(scene: Any, ask: Any) -> None:
    """The first device in place decides; a foreign writer can put one before those there are."""
    scene.nodes("n1")
    counters = [{"name": "set", "counters": {"cores": {"value": "9"}}}]
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters)
    devices = []
    for name, groups in (("first", []), ("second", ["x"]), ("third", [])):
        use = {"counterSet": "set", "counters": {"cores": {"value": "1"}}, "compatibilityGroups": groups}
        devices.append(
            {"name": name, "attributes": {"grouped": {"bool": bool(groups)}}, "consumesCounters": [use]}
        )
    scene.slice("s", *devices, nodeName="n1", count=2)
    grouped = 'device.attributes["gpu.example.com"].grouped'
    scene.use("holder", ask("r", 1, grouped))
    claim = scene.claim(ask("r", 1, f"!{grouped}"))
    before = scene.decide(claim)
    held = {"request": "r", "driver": "gpu.example.com", "pool": "n1", "device": "first"}
    status = {"allocation": {"devices": {"results": [held]}}}
    scene.ledger.put(read_object({"metadata": {"name": "foreign"}, "status": status}, "ResourceClaim"))

    assert before == Unsatisfied()
    assert scene.picks(claim) == ["r=third"]


def test_a_share_of_less_than_nothing_helps(scene: Any, ask: Any) -> None:
    """What is consumed is added up, and the API server lets other writers say anything."""
    scene.nodes("n1")
    memory = {"capacity": {"memory": {"value": "6"}}}
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True, **memory}, nodeName="n1")
    scene.use("holder", ask("r", 1, capacity={"requests": {"memory": "3"}}))
    claim = scene.claim(ask("r", 1, capacity={"requests": {"memory": "4"}}))
    before = scene.decide(claim)
    share = {"driver": "gpu.example.com", "pool": "n1", "device": "a", "shareID": "id"}
    results = [{**share, "consumedCapacity": {"memory": "-2"}}]
    status = {"allocation": {"devices": {"results": results}}}
    scene.ledger.put(read_object({"metadata": {"name": "foreign"}, "status": status}, "ResourceClaim"))

    assert before == Unsatisfied()
    assert scene.picks(claim) == ["r=a"]
