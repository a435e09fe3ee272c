"""What is overcommitted, and whether claims or slices brought it about."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger, Overcommitments, Resource

NANO = 10**9
POOL = ("gpu", "pool")


class Scene:
    """A pool of a GPU with two units of memory, its partitions, and a device that is shared."""

    def __init__(self) -> None:
        self.inventory, self.ledger = Inventory(), Ledger()
        self.overcommitments = Overcommitments(self.inventory, self.ledger)

    def publish(
        self, memory: int = 2, rate: int = 2, generation: int = 1, each: int = 1, **others: int
    ) -> None:
        """Publish the pool with this much memory, this much for each partition, the shared rate, and other counters."""
        self.put(
            "counters",
            generation,
            sharedCounters=[{"name": "gpu-0", "counters": amounts(memory=memory, **others)}],
        )
        self.put("devices", generation, devices=[*(partition(name, each) for name in "abcdz"), nic(rate)])

    def put(self, name: str, generation: int, **content: Any) -> None:
        """Put one of the pool's two slices."""
        pool = {"name": "pool", "generation": generation, "resourceSliceCount": 2}
        spec = {"driver": "gpu", "nodeName": "node-1", "pool": pool, **content}
        self.inventory.put(read_object({"metadata": {"name": name}, "spec": spec}, "ResourceSlice"))

    def found(self) -> list[tuple[str, bool]]:
        """Return what is overcommitted by name, and whether claims brought it about."""
        return [(item.name, item.by_claims) for item in self.overcommitments.find()]


def amounts(**of: int) -> Any:
    """Return amounts as they are published."""
    return {name: {"value": str(value)} for name, value in of.items()}


def partition(name: str, memory: int) -> Any:
    """Return a partition that takes this much memory; d takes twice as much and can be shared, z takes none."""
    memory *= {"d": 2, "z": 0}.get(name, 1)
    uses = [{"counterSet": "gpu-0", "counters": amounts(memory=memory)}]
    return {"name": name, "allowMultipleAllocations": name == "d", "consumesCounters": uses}


def nic(rate: int) -> Any:
    """Return a device that is shared."""
    return {"name": "nic", "allowMultipleAllocations": True, "capacity": amounts(rate=rate)}


def share(device: str, rate: int) -> Any:
    """Return the result of a share that consumes this much."""
    return {"device": device, "shareID": "s", "consumedCapacity": {"rate": str(rate)}}


@pytest.fixture
def scene() -> Scene:
    """Return a pool of which nothing is in use, looked at once."""
    scene = Scene()
    scene.publish()
    scene.overcommitments.find()
    return scene


def test_partitions_that_are_more_than_the_device(scene: Scene, holding: Any) -> None:
    """Counter set, amounts, node and the claims that take some of the counter are told; who takes none is not."""
    for name in "abcz":
        scene.ledger.put(holding(name, name))
    scene.ledger.put(holding("other", share("nic", 1)))

    (found,) = scene.overcommitments.find()
    assert (found.pool, found.resource, found.owner, found.name) == (
        POOL,
        Resource.COUNTER,
        "gpu-0",
        "memory",
    )
    assert (found.total, found.used, found.excess, found.node) == (2 * NANO, 3 * NANO, NANO, "node-1")
    assert (found.slice_name, found.by_claims) == ("counters", True)
    assert found.claims == (("team", "a"), ("team", "b"), ("team", "c"))


def test_shares_that_are_more_than_the_device(scene: Scene, holding: Any) -> None:
    """Device, capacity, amounts and claims are told; a claim with two shares takes part with both."""
    scene.ledger.put(holding("a", share("nic", 1), share("nic", 1)))
    scene.ledger.put(holding("b", share("nic", 1)))

    (found,) = scene.overcommitments.find()
    assert (found.resource, found.owner, found.name) == (Resource.CAPACITY, "nic", "rate")
    assert (found.total, found.used, found.node) == (2 * NANO, 3 * NANO, "node-1")
    assert {part.claims: part.amount for part in found.parts} == {
        frozenset({("team", "a")}): 2 * NANO,
        frozenset({("team", "b")}): NANO,
    }


def test_a_slice_that_shrank_is_told_apart(scene: Scene, holding: Any) -> None:
    """What fitted before is not the fault of any claim."""
    scene.ledger.put(holding("a", "a", share("nic", 2)))
    scene.ledger.put(holding("b", "b"))
    scene.overcommitments.find()
    scene.publish(memory=1, rate=1)

    assert scene.found() == [("rate", False), ("memory", False)]


def test_a_claim_that_comes_with_the_slice_that_shrank_is_not_either(scene: Scene, holding: Any) -> None:
    """Which of them came first, nobody knows: both devices may have fitted until then."""
    scene.ledger.put(holding("a", "a", share("nic", 2)))
    scene.overcommitments.find()
    scene.publish(memory=1, rate=1)
    scene.ledger.put(holding("b", "b", share("nic", 1)))

    assert scene.found() == [("rate", False), ("memory", False)]


def test_a_claim_that_comes_with_a_slice_that_says_the_same_is(scene: Scene, holding: Any) -> None:
    """There was no more before it, either."""
    scene.ledger.put(holding("a", "a", share("nic", 1)))
    scene.overcommitments.find()
    scene.publish(memory=1, rate=1)
    scene.overcommitments.find()
    scene.publish(memory=1, rate=1)
    scene.ledger.put(holding("b", "b", share("nic", 1)))

    assert scene.found() == [("rate", True), ("memory", True)]


def test_of_what_is_there_at_the_start_nobody_knows(holding: Any) -> None:
    """Which came first, claim or slice, cannot be told when everything has just been listed."""
    scene = Scene()
    scene.publish(memory=1)
    scene.ledger.put(holding("a", "a"))
    scene.ledger.put(holding("b", "b"))

    assert scene.found() == [("memory", False)]


def test_an_update_of_the_pool_makes_nobody_forget(scene: Scene, holding: Any) -> None:
    """While it is incomplete nothing is said, and afterwards the claims are still to blame."""
    for name in "abc":
        scene.ledger.put(holding(name, name))
    scene.overcommitments.find()
    scene.put("counters", 2, sharedCounters=[{"name": "gpu-0", "counters": amounts(memory=2)}])
    meanwhile = scene.found()
    scene.publish(generation=2)

    assert (meanwhile, scene.found()) == ([], [("memory", True)])


def test_another_amount_makes_it_another_case(scene: Scene, holding: Any) -> None:
    """What claims brought about is no reason to take back what a slice brought about later."""
    for name in "abc":
        scene.ledger.put(holding(name, name))
    scene.overcommitments.find()
    scene.publish(memory=1)

    assert scene.found() == [("memory", False)]


@pytest.mark.parametrize("end", ["claim", "slice", "pool"])
def test_it_ends(scene: Scene, holding: Any, end: str) -> None:
    """When a claim goes, when the driver publishes more, and when the pool goes."""
    for name in "abc":
        scene.ledger.put(holding(name, name))
    before = scene.found()
    if end == "claim":
        scene.ledger.remove("team", "a")
    elif end == "slice":
        scene.publish(memory=3)
    else:
        scene.inventory.remove("ResourceSlice", "counters")
        scene.inventory.remove("ResourceSlice", "devices")

    assert (before, scene.found()) == ([("memory", True)], [])
    assert not any(scene.overcommitments._by_claims.values())


def test_what_comes_after_a_case_is_over_is_judged_anew(scene: Scene, holding: Any) -> None:
    """That claims took too much once does not make them guilty of slices in which partitions take more."""
    for name in "abc":
        scene.ledger.put(holding(name, name))
    before = scene.found()
    scene.ledger.remove("team", "c")
    between = scene.found()
    scene.publish(each=2)

    assert (before, between, scene.found()) == ([("memory", True)], [], [("memory", False)])


def test_a_claim_that_says_something_else_has_not_come(scene: Scene, holding: Any) -> None:
    """An annotation on a claim that fitted does not make it guilty of a slice that shrank."""
    scene.ledger.put(holding("a", "a"))
    scene.ledger.put(holding("b", "b"))
    scene.overcommitments.find()
    scene.publish(memory=1)
    scene.ledger.put(holding("b", "b"))

    assert scene.found() == [("memory", False)]


EVENT = st.one_of(
    st.tuples(
        st.just("claim"), st.sampled_from("xyz"), st.lists(st.sampled_from("abcdn"), max_size=2, unique=True)
    ),
    st.tuples(st.just("publish"), st.integers(0, 4), st.integers(0, 3)),
    st.tuples(st.just("look"), st.none(), st.none()),
)


@given(st.lists(EVENT, max_size=20))
def test_what_is_found_is_what_does_not_add_up(holding: Any, events: list[Any]) -> None:
    """Whatever happens, and whenever somebody looks, the sums of the claims beyond what is published are found."""
    scene = Scene()
    memory, rate, claims = 2, 2, dict[str, list[str]]()
    scene.publish(memory, rate)
    for event, first, second in events:
        if event == "look":
            scene.overcommitments.find()
        elif event == "publish":
            memory, rate = first, second
            scene.publish(memory, rate)
        else:
            claims[first] = second
            results = [
                share("nic", 1) if name == "n" else share("d", 0) if name == "d" else {"device": name}
                for name in second
            ]
            scene.ledger.put(holding(first, *results))

    taken = {name for names in claims.values() for name in names} - {"n"}
    drawn = len(taken - {"d"}) + 2 * ("d" in taken)
    shared = sum("n" in names for names in claims.values())
    found = {item.name: item for item in scene.overcommitments.find()}
    assert {name: item.used // NANO for name, item in found.items()} == {
        name: used
        for name, used, total in (("memory", drawn, memory), ("rate", shared, rate))
        if used > total
    }
    for item in found.values():
        assert item.returned(item.claims) == item.used
