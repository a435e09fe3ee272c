"""What is overcommitted, and whether claims or slices brought it about."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger, Overcommitments, Resource
from opcodes import opcodes

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


def test_of_several_counters_only_what_is_overdrawn_is_told(holding: Any) -> None:
    """With what is drawn of that one alone, and the slice that publishes it."""
    scene = Scene()
    uses = [{"counterSet": "gpu-0", "counters": amounts(cores=3, memory=1)}]
    scene.put("a", 1, devices=[{"name": name, "consumesCounters": uses} for name in "ab"])
    scene.put("b", 1, sharedCounters=[{"name": "gpu-0", "counters": amounts(cores=6, memory=1)}])
    for name in "ab":
        scene.ledger.put(holding(name, name))

    (found,) = scene.overcommitments.find()
    assert (found.name, found.total, found.used, found.slice_name) == ("memory", NANO, 2 * NANO, "b")
    assert [part.amount for part in found.parts] == [NANO, NANO]


def test_of_several_shares_only_those_of_the_device_are_told(holding: Any) -> None:
    """And only those that consume the capacity of which there is too little."""
    scene = Scene()
    scene.put("a", 1, devices=[nic(2), {**nic(9), "name": "other"}])
    scene.put("b", 1)
    scene.ledger.put(holding("a", share("nic", 3), share("other", 4)))
    scene.ledger.put(holding("b", {**share("nic", 0), "consumedCapacity": {}}))
    scene.ledger.put(holding("c", share("nic", 0)))

    (found,) = scene.overcommitments.find()
    assert [(part.claims, part.amount) for part in found.parts] == [(frozenset({("team", "a")}), 3 * NANO)]


def test_as_much_as_there_is_is_not_too_much(scene: Scene, holding: Any) -> None:
    """Nor is a share of a device that has paid its counters already, nor admin access."""
    scene.ledger.put(holding("a", share("d", 0), share("nic", 2)))
    scene.ledger.put(holding("b", share("d", 0), {"device": "a", "adminAccess": True}))

    assert scene.found() == []


def test_a_shared_partition_comes_back_with_its_last_claim(scene: Scene, holding: Any) -> None:
    """It pays its counters once, so nothing is returned when one of its claims goes."""
    scene.ledger.put(holding("a", share("d", 0)))
    scene.ledger.put(holding("b", share("d", 0)))
    scene.ledger.put(holding("c", "c"))

    (found,) = scene.overcommitments.find()
    assert found.returned([("team", "a")]) == 0
    assert found.returned([("team", "a"), ("team", "b")]) == 2 * NANO


def test_a_slice_that_shrank_is_told_apart(scene: Scene, holding: Any) -> None:
    """What fitted before is not the fault of any claim."""
    scene.ledger.put(holding("a", "a", share("nic", 2)))
    scene.ledger.put(holding("b", "b"))
    scene.overcommitments.find()
    scene.publish(memory=1, rate=1)

    assert scene.found() == [("rate", False), ("memory", False)]


def test_a_claim_that_comes_to_a_slice_that_shrank_is_not_to_blame(scene: Scene, holding: Any) -> None:
    """Without it there is still too much."""
    scene.ledger.put(holding("a", "a"))
    scene.ledger.put(holding("b", "b"))
    scene.overcommitments.find()
    scene.publish(memory=1)
    scene.overcommitments.find()
    scene.ledger.put(holding("c", "c"))

    assert scene.found() == [("memory", False)]


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


def test_a_claim_that_comes_during_an_update_of_the_pool_is_remembered(scene: Scene, holding: Any) -> None:
    """It is judged when the pool is complete again, and what was published before that is known still."""
    scene.ledger.put(holding("a", "a"))
    scene.ledger.put(holding("b", "b"))
    scene.overcommitments.find()
    scene.put("counters", 2, sharedCounters=[{"name": "gpu-0", "counters": amounts(memory=2)}])
    scene.overcommitments.find()
    scene.ledger.put(holding("c", "c"))
    meanwhile = scene.found()
    scene.publish(generation=2)

    assert (meanwhile, scene.found()) == ([], [("memory", True)])


def test_who_came_and_went_during_an_update_of_the_pool_is_forgotten(scene: Scene, holding: Any) -> None:
    """Nodes may use a pool for weeks that as a whole has too many slices, and claims come and go."""
    scene.put("counters", 2)
    scene.ledger.put(holding("stays", "a"))
    for number in range(1000):
        scene.ledger.put(holding(f"claim-{number}", "b"))
        scene.found()
        scene.ledger.remove("team", f"claim-{number}")

    remembered = scene.overcommitments._pools[POOL].unjudged.claims
    assert ("team", "stays") in remembered
    assert len(remembered) <= 100


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
    assert not any(pool.by_claims for pool in scene.overcommitments._pools.values())


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


def test_counters_that_were_not_there_before(scene: Scene, holding: Any) -> None:
    """Where each counter stands is not remembered longer than it is so."""
    scene.ledger.put(holding("a", "a"))
    scene.overcommitments.find()
    scene.publish(cores=1)
    scene.overcommitments.find()
    scene.ledger.put(holding("b", "b"))
    scene.ledger.put(holding("c", "c"))

    assert scene.found() == [("memory", True)]


def test_a_device_that_is_not_shared_any_more(scene: Scene, holding: Any) -> None:
    """What its shares may consume is no question then."""
    scene.ledger.put(holding("a", share("nic", 2)))
    scene.overcommitments.find()
    alone, other = {**nic(1), "allowMultipleAllocations": False}, {**nic(1), "name": "other"}
    scene.put("devices", 1, devices=[alone, other])

    assert scene.found() == []


def test_our_own_decisions_cost_nothing(scene: Scene, holding: Any) -> None:
    """No pool is looked at again because of what we decided and the API server confirmed."""
    quiet = opcodes(scene.overcommitments.find)
    claim = holding("a", "a")
    scene.ledger.assume("team", "a", claim.status.allocation)
    assumed = opcodes(scene.overcommitments.find)
    scene.ledger.put(claim)

    assert assumed == opcodes(scene.overcommitments.find) == quiet


def test_what_stays_too_much_costs_little(scene: Scene, holding: Any) -> None:
    """It is not counted anew in each pass: a slip of a driver can bring it about in thousands of pools."""
    scene.ledger.put(holding("a", "a", "b", "c", share("d", 0)))
    first = opcodes(scene.overcommitments.find)

    assert opcodes(scene.overcommitments.find) * 3 < first
    assert scene.found() == [("memory", True)]


EVENT = st.one_of(
    st.tuples(
        st.just("claim"), st.sampled_from("xyz"), st.lists(st.sampled_from("abcdn"), max_size=2, unique=True)
    ),
    st.tuples(st.just("publish"), st.integers(0, 4), st.integers(0, 3)),
    st.tuples(st.just("look"), st.none(), st.none()),
)


@given(st.lists(EVENT, max_size=20))
def test_what_is_found_is_what_does_not_add_up(events: list[Any]) -> None:
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
            scene.ledger.put(claim_of(first, results))

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


def claim_of(name: str, results: list[Any]) -> Any:
    """Return a claim with these results."""
    listed = [{"request": "r", "driver": "gpu", "pool": "pool", **result} for result in results]
    status = {"allocation": {"devices": {"results": listed}}} if results else {}
    return read_object(
        {"metadata": {"name": name, "namespace": "team"}, "spec": {}, "status": status}, "ResourceClaim"
    )
