"""Which slices count, and records of pools that follow inventory and ledger."""

import random
from typing import Any

import pytest

from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Allocated, Explanation, Unsatisfied
from dra_operator.allocator.reasons import Reason
from dra_operator.explain import Explainer
from dra_operator.explain.stages import published_slices

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
    said = (each.explain((claim,), Unsatisfied())[0] for each in (scene.explainer, Explainer(fresh)))
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
def moved(scene: Any) -> Any:
    """A pool whose driver has moved to another node and left the old slice behind."""
    scene.nodes("n1", "n2")
    old = {"name": "old", "attributes": {"model": {"string": "a"}}}
    scene.slice("s1", old, "both", pool="p", generation=1, nodeName="n1")
    scene.slice("s2", "both", pool="p", generation=2, nodeName="n2")
    return scene


def names(scene: Any) -> list[str]:
    """Return the slices that count."""
    scene.allocator.refresh()
    return [slice_.name for slice_ in published_slices(scene.allocator.availability.views)]


def test_an_old_generation_counts_as_long_as_a_node_sees_it(moved: Any) -> None:
    """One that cannot be used does not, nor one that sees the newer generation as well."""
    assert names(moved) == ["s2", "s1"]
    moved.put("Node", "n1", spec={"unschedulable": True})
    assert names(moved) == ["s2"]
    moved.nodes("n1")
    moved.slice("s2", "both", pool="p", generation=2, allNodes=True)
    assert names(moved) == ["s2"]


def test_its_devices_are_counted_and_told(moved: Any, ask: Any) -> None:
    """Who deletes the old slice takes them away; who does not know of it looks for them in vain."""
    moved.hold("holder", "both", "p")
    found = moved.explain(moved.claim(ask("r", 2)))

    assert found.reason is Reason.NOT_ENOUGH_DEVICES
    assert found.message == (
        "request r: 3 devices published, 3 in class gpu, 2 in use by 1 claim (holder), 1 left, "
        "at most 1 on one node (n1), 2 requested"
    )
