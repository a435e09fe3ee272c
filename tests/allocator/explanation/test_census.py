"""The census: groups of pools that follow inventory and ledger."""

import random
from typing import Any

import pytest

from dra_operator.allocator import Allocated, Allocator, Explanation, Unsatisfied
from dra_operator.allocator.explanation import census
from dra_operator.allocator.explanation.census import Census

MODEL = 'device.attributes["gpu.example.com"].model == "{}"'
INDEX = 'device.attributes["gpu.example.com"].index == {}'
SHARE = {"capacity": {"requests": {"memory": "30Gi"}}}
COUNTERS = [{"name": "set", "counters": {"memory": {"value": "40Gi"}}}]
DRAW = [{"counterSet": "set", "counters": {"memory": {"value": "30Gi"}}}]


def device(name: str, random_: random.Random) -> dict[str, Any]:
    """Return a device with a few traits of few values."""
    made: dict[str, Any] = {"name": name, "capacity": {"memory": {"value": random_.choice(["40Gi", "80Gi"])}}}
    if random_.random() < 0.8:
        attributes = {"model": {"string": random_.choice("ab")}, "index": {"int": random_.randrange(3)}}
        made["attributes"] = attributes
    if random_.random() < 0.2:
        made["taints"] = [{"key": "k", "value": random_.choice("xy"), "effect": "NoSchedule"}]
    if random_.random() < 0.3:
        made["allowMultipleAllocations"] = True
    if random_.random() < 0.3:
        made["consumesCounters"] = DRAW
    return made


def change(scene: Any, ask: Any, random_: random.Random) -> None:
    """Change one thing of the cluster."""
    node = f"n{random_.randrange(4)}"
    match random_.randrange(9):
        case 0 | 1 | 2:
            devices = [device(f"d{number}", random_) for number in range(random_.randrange(1, 4))]
            count = random_.choice([1, 2, 2, 2])
            scene.slice(f"s-{node}", *devices, nodeName=node, count=count)
            scene.slice(f"c-{node}", nodeName=node, count=count, sharedCounters=COUNTERS)
        case 3:
            scene.put("Node", node, spec={"unschedulable": random_.random() < 0.4})
        case 4:
            scene.inventory.remove("Node", node)
        case 5:
            where = random_.choice([{"allNodes": True}, {"nodeName": node}])
            generation = random_.choice([1, 1, 2])
            devices = [device(f"d{number}", random_) for number in range(3)]
            scene.slice(f"shared-{generation}", *devices, pool="net", generation=generation, count=1, **where)
        case 6:
            scene.inventory.remove(
                "ResourceSlice", random_.choice([f"s-{node}", f"c-{node}", "shared-1", "shared-2"])
            )
        case 7:
            scene.ledger.withdraw("team", f"u{random_.randrange(6)}")
        case _:
            name = f"u{random_.randrange(6)}"
            scene.ledger.withdraw("team", name)
            claim = scene.claim(ask("r", 1, **random_.choice([SHARE, {}])), name=name)
            if isinstance(decision := scene.decide(claim), Allocated):
                scene.ledger.assume("team", name, decision.results[0])


def tell(scene: Any, claim: Any) -> tuple[Explanation, Explanation]:
    """Return what the allocator of a scene says about a claim that fits nowhere, and what a new one says."""
    fresh = Allocator(scene.inventory, scene.ledger, clock=lambda: 0.0, share_ids=str)
    said = (allocator.explain((claim,), Unsatisfied())[0] for allocator in (scene.allocator, fresh))
    return next(said), next(said)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_told_never_depends_on_what_was_told_before(scene: Any, ask: Any, seed: int) -> None:
    """After any change the allocator that has followed everything says what one says that sees it anew."""
    random_ = random.Random(seed)  # noqa: S311 - a test needs chance, not secrets
    scene.nodes("n0", "n1", "n2", "n3")
    claims = [
        scene.claim(ask("r", 9)),
        scene.claim(ask("r", 9, "has(device.attributes['x'].y)")),
        scene.claim(ask("r", 2, MODEL.format("a"))),
        scene.claim(ask("r", 1, f"{MODEL.format('b')} && {INDEX.format(7)}")),
        scene.claim(ask("r", 9, "size(device.attributes['gpu.example.com']) == 2")),
        scene.claim(ask("r", 9, **SHARE)),
        scene.claim(ask("r", 9, adminAccess=True)),
    ]
    for _ in range(40):
        change(scene, ask, random_)
        for claim in random_.sample(claims, 3):
            followed, fresh = tell(scene, claim)

            assert followed == fresh


@pytest.fixture
def followed(scene: Any) -> tuple[Any, Census]:
    """A census of ten equal nodes."""
    scene.nodes(*(f"n{number}" for number in range(10)))
    for number in range(10):
        attributes = {"model": {"string": "a"}, "serial": {"string": f"x{number}"}}
        scene.slice(f"n{number}", {"name": "d", "attributes": attributes}, nodeName=f"n{number}")
    allocator = scene.allocator
    allocator.refresh()
    return scene, Census(scene.inventory, allocator.availability, allocator.features)


def sizes(census: Census, *names: str) -> list[int]:
    """Return the sizes of the groups that are told apart by attributes of these names."""
    grouping = census.grouping(frozenset(f"gpu.example.com/{name}" for name in names))
    return sorted(len(group.members) for group in grouping.groups.values())


def test_pools_are_told_apart_only_by_what_is_read(followed: Any) -> None:
    """Serial numbers divide the pools for who reads them, and for nobody else."""
    _, census = followed

    assert sizes(census) == sizes(census, "model") == [10]
    assert sizes(census, "model", "serial") == [1] * 10


def test_only_pools_that_changed_change_their_group(followed: Any, ask: Any) -> None:
    """A use, a node or a slice moves its pool and leaves the group of the others as it was."""
    scene, census = followed
    (group,) = census.grouping(frozenset()).groups.values()
    scene.use("a", ask())
    scene.put("Node", "n1", spec={"unschedulable": True})
    scene.allocator.refresh()

    assert sizes(census) == [1, 1, 8]
    assert group in census.grouping(frozenset()).groups.values()


def test_a_pool_that_goes_leaves_its_group(followed: Any) -> None:
    """And a group without pools is dropped."""
    scene, census = followed
    for number in range(10):
        scene.inventory.remove("ResourceSlice", f"n{number}")
    scene.allocator.refresh()

    assert sizes(census) == []


@pytest.mark.parametrize("kept", [0, 3, 16])
def test_the_claims_that_hold_some_devices(
    scene: Any, ask: Any, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Are found for any set of them, whether there is room to keep the answer or not."""
    monkeypatch.setattr(census, "_MAX_OWNERS", kept)
    scene.nodes("n1")
    shareable = {"capacity": {"memory": {"value": "80Gi"}}, "allowMultipleAllocations": True}
    scene.slice("s", *({"name": f"d{number}", **(shareable if number > 2 else {})} for number in range(5)))
    for number in range(7):
        scene.use(f"u{number}", ask("r", 1, **(SHARE if number > 2 else {})))
    availability = scene.allocator.availability
    scene.allocator.refresh()
    followed = Census(scene.inventory, availability, scene.allocator.candidates.features)
    ((group,),) = [followed.grouping(None).groups.values()]

    for _ in range(2):
        for devices in range(1 << 5):
            names = [f"d{index}" for index in range(5) if devices >> index & 1]
            held = scene.ledger.holders(("gpu.example.com", "pool"), names)
            assert group.example.owners(availability, (devices,)) == held
            assert group.owners(availability, (devices,)) == held
