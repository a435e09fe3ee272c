"""Allocations that are broken: what makes them so, when, and what is not known."""

from typing import Any

import pytest

from dra_operator.api.read import read_object, read_part
from dra_operator.api.types import DeviceTaint, DeviceToleration
from dra_operator.api.versions import RULES, Version
from dra_operator.inventory import Inventory
from dra_operator.inventory.ownership import Settlement
from dra_operator.ledger import BrokenAllocations, Cause
from dra_operator.ledger.broken import tolerated_until
from recordings import recorded

KEY = ("team", "claim")
NO_EXECUTE = {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}
"""Added 100 s after the beginning of time."""


def pool_slice(*devices: Any, name: str = "s", generation: int = 1, count: int = 1) -> Any:
    """Return a slice of node n; devices are names or objects."""
    listed = [{"name": item} if isinstance(item, str) else item for item in devices]
    pool = {"name": "p", "generation": generation, "resourceSliceCount": count}
    spec = {"driver": "d", "nodeName": "n", "pool": pool, "devices": listed}
    return read_object({"metadata": {"name": name}, "spec": spec}, "ResourceSlice")


def allocation(*devices: str, tolerations: Any = (), nodes: tuple[str, ...] = ("n",), **fields: Any) -> Any:
    """Return an allocation of devices on nodes that it names; without nodes it names none."""
    result = {"driver": "d", "pool": "p", "tolerations": list(tolerations), **fields}
    body: dict[str, Any] = {"devices": {"results": [{**result, "device": device} for device in devices]}}
    if nodes:
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(nodes)}]}]
        body["nodeSelector"] = {"nodeSelectorTerms": terms}
    claim = read_object({"metadata": {"name": "c"}, "status": {"allocation": body}}, "ResourceClaim")
    return claim.status.allocation


class Scene:
    """An inventory with node n, and the allocations that are judged at a time that the test says."""

    def __init__(self) -> None:
        self.inventory = Inventory()
        self.inventory.put(read_object({"metadata": {"name": "n"}}, "Node"))
        self.allocations = BrokenAllocations(self.inventory)
        self.now = 0.0

    def look(self, after: float = 0.0) -> dict[tuple[str, str], bool]:
        """Let time go by and judge; return the claims that were judged, and whether that could be done."""
        self.now += after
        self.allocations.refresh(self.now, self.now)
        judged, self.allocations.judged = self.allocations.judged, {}
        return judged

    def causes(self, after: float = 0.0) -> list[Cause]:
        """Let time go by, and return what is wrong with the claim."""
        self.look(after)
        return [item.cause for item in self.allocations.found.get(KEY, ())]


@pytest.fixture
def scene() -> Scene:
    """A node, and no pool."""
    return Scene()


@pytest.fixture
def held(scene: Scene) -> Scene:
    """A claim that has device a of a complete pool."""
    scene.inventory.put(pool_slice("a", "b"))
    scene.allocations.put(KEY, allocation("a"))
    assert scene.causes() == []
    return scene


def test_a_device_that_is_missing_for_a_minute_breaks_its_allocation(held: Scene) -> None:
    """The newest generation is complete and does not have it; the driver may publish it again before that."""
    held.inventory.put(pool_slice("b", generation=2))

    assert held.look() == {KEY: False}
    assert held.allocations.next_due() == 60
    assert held.causes(59) == []
    assert held.causes(1) == [Cause.DEVICE_MISSING]
    assert held.allocations.found[KEY][0].generation == 2
    assert held.allocations.next_due() is None


def test_a_device_that_comes_back_mends_its_allocation(held: Scene) -> None:
    """However long it was away."""
    held.inventory.put(pool_slice("b"))
    held.look()
    assert held.causes(60) == [Cause.DEVICE_MISSING]
    held.inventory.put(pool_slice("a", "b"))

    assert held.look() == {KEY: True}
    assert held.allocations.found == {}


def test_slices_that_are_away_say_nothing(held: Scene) -> None:
    """A kubelet that restarts takes them away, and nobody knows for how long."""
    held.inventory.remove("ResourceSlice", "s")
    assert held.look() == {KEY: False}
    assert held.causes(20) == []
    held.inventory.put(pool_slice("a", "b"))
    assert held.causes() == []

    held.inventory.remove("ResourceSlice", "s")
    assert held.causes(3600) == []


@pytest.mark.parametrize(
    "published",
    [
        pytest.param([("b",), {"generation": 2, "count": 2}], id="a slice is missing"),
        pytest.param([("b", "b"), {"generation": 2}], id="a name is there twice"),
    ],
)
def test_a_pool_that_is_not_complete_says_nothing(held: Scene, published: Any) -> None:
    """What is missing may be in what is still to come."""
    devices, pool = published
    held.inventory.put(pool_slice(*devices, **pool))

    assert held.causes() == []
    assert held.causes(3600) == []


def test_a_node_that_is_gone_breaks_what_is_bound_to_it(held: Scene) -> None:
    """Until it is there again."""
    held.inventory.remove("Node", "n")
    assert held.causes() == [Cause.NODE_GONE]
    held.inventory.put(read_object({"metadata": {"name": "n"}}, "Node"))

    assert held.causes() == []


@pytest.mark.parametrize("nodes", [("n", "m"), ()], ids=["one of two nodes is there", "no node is named"])
def test_an_allocation_that_other_nodes_can_use_is_not_broken(held: Scene, nodes: tuple[str, ...]) -> None:
    """It is not bound to the node that is gone."""
    held.inventory.put(read_object({"metadata": {"name": "m"}}, "Node"))
    held.allocations.put(KEY, allocation("a", nodes=nodes))
    held.inventory.remove("Node", "n")

    assert held.causes() == []


FOR_EVER = {"key": "k", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("tolerations", "until"),
    [
        pytest.param([], 100, id="nothing is tolerated"),
        pytest.param([FOR_EVER], None, id="tolerated for ever"),
        pytest.param([{**FOR_EVER, "tolerationSeconds": 30}], 130, id="tolerated for a time"),
        pytest.param([{**FOR_EVER, "tolerationSeconds": -5}], 100, id="a time below zero is none"),
        pytest.param(
            [{**FOR_EVER, "tolerationSeconds": 30}, {**FOR_EVER, "tolerationSeconds": 20}],
            120,
            id="the shortest time counts",
        ),
        pytest.param([{**FOR_EVER, "tolerationSeconds": 30}, FOR_EVER], None, id="for ever beats a time"),
        pytest.param(
            [{"key": "k", "operator": "Exists"}], 100, id="without an effect it is not for NoExecute"
        ),
        pytest.param([{**FOR_EVER, "effect": "NoSchedule"}], 100, id="another effect"),
        pytest.param([{**FOR_EVER, "key": "other"}], 100, id="another key"),
        pytest.param([{"operator": "Exists", "effect": "NoExecute"}], None, id="every key"),
        pytest.param([{"key": "k", "value": "v", "effect": "NoExecute"}], None, id="Equal is the default"),
        pytest.param([{"key": "k", "value": "w", "effect": "NoExecute"}], 100, id="another value"),
        pytest.param([{**FOR_EVER, "operator": "Odd"}], 100, id="an unknown operator"),
    ],
)
@pytest.mark.parametrize("source", ["slice", "rule"])
def test_a_taint_breaks_what_does_not_tolerate_it(
    scene: Scene, tolerations: Any, until: float | None, source: str
) -> None:
    """By the rule of the device taint eviction controller, which evicts the pods at that time."""
    scene.inventory.put(pool_slice({"name": "a", "taints": [NO_EXECUTE] if source == "slice" else []}))
    if source == "rule":
        rule = {"deviceSelector": {"driver": "d"}, "taint": NO_EXECUTE}
        scene.inventory.put(read_object({"metadata": {"name": "r"}, "spec": rule}, "DeviceTaintRule"))
    scene.allocations.put(KEY, allocation("a", tolerations=tolerations))
    scene.now = 50.0

    assert scene.causes() == []
    assert scene.allocations.next_due() == until
    if until is not None:
        scene.now = until
        assert scene.causes() == [Cause.TAINTED]
        assert scene.allocations.found[KEY][0].rule == ("r" if source == "rule" else "")


@pytest.mark.parametrize("version", ["1.37", "1.38"])
def test_pods_are_evicted_when_kubernetes_evicts_them(version: Version) -> None:
    """Recorded of each version's own controller, on client-go's fake, which was watched for six seconds."""
    rows = list(recorded("evictions"))
    answers = {}
    for row in rows:
        taint = read_part(DeviceTaint, {**row["taint"], "timeAdded": "1970-01-01T00:01:40Z"})
        tolerations = [read_part(DeviceToleration, item) for item in row["tolerations"]]
        after = tolerated_until(taint, tolerations, RULES[version]) - 100 + row["added"]
        answers[row["name"]] = max(int(after), 0) if after < 6 and taint.effect == "NoExecute" else None

    assert len(rows) == 88
    assert answers == {row["name"]: row["expected"][version] for row in rows}


def test_other_rules_are_a_reason_to_judge_anew(scene: Scene) -> None:
    """An upgrade of the cluster mends what a toleration without an effect covers, and going back breaks it."""
    scene.inventory.put(pool_slice({"name": "a", "taints": [NO_EXECUTE]}))
    scene.allocations.put(KEY, allocation("a", tolerations=[{"key": "k", "operator": "Exists"}]))
    found = [scene.causes(after=200.0)]
    for version in ("1.38", "1.37"):
        scene.allocations.decide_by(RULES[version])
        found.append(scene.causes())

    assert found == [[Cause.TAINTED], [], [Cause.TAINTED]]


def test_what_was_broken_before_is_broken_at_once(scene: Scene) -> None:
    """Whoever begins anew need not wait for a minute to know what the claim says."""
    scene.inventory.put(pool_slice("b"))
    scene.allocations.put(KEY, allocation("a"), was_broken=True)

    assert scene.causes() == [Cause.DEVICE_MISSING]


def test_the_minute_begins_anew_where_nothing_was_heard(held: Scene) -> None:
    """The device may have been published meanwhile; what has lasted stays."""
    held.inventory.put(pool_slice("b"))
    held.look()
    held.now = 50.0
    held.allocations.restart(held.now)

    assert held.causes(59) == []
    assert held.causes(1) == [Cause.DEVICE_MISSING]
    held.allocations.restart(held.now)
    assert held.causes() == [Cause.DEVICE_MISSING]


def test_devices_that_are_not_ours_are_not_tainted() -> None:
    """Where ownership is asked for, a device that is not ours is behind a barrier, which breaks no allocation."""
    inventory = Inventory(settlement=Settlement())
    broken = BrokenAllocations(inventory)
    broken.put(KEY, allocation("gpu-0", nodes=()))

    inventory.put(pool_slice("gpu-0"))
    broken.refresh(1000, 1000)

    assert broken.found == {}
