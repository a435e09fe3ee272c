"""Claims that no pod uses get other devices when theirs can be used no more; what a pod names is reported."""

from datetime import UTC, datetime

import pytest
from cycle_bench import Bench, fits, writes

from cluster import allocation, claim, node, resource_slice
from dra_operator.api.names import FINALIZER
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stored
from dra_operator.controller.claims import ClaimScope, PodUse
from dra_operator.controller.facts import EventRequest
from dra_operator.inventory.ownership import Settlement

NODE = Delta("Node", "", "node-1", None)
USER = [{"resource": "pods", "name": "pod", "uid": "1"}]
POD = PodUse("default", "pod", frozenset({"ours"}), uid="1")
EVICTING = {"key": "broken", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}


def put(kind, body):
    """The difference that brings an object of the cluster."""
    return Delta(kind, "", body["metadata"]["name"], body)


def devices(*names, **fields):
    """The difference that brings the slice of the pool."""
    return put("ResourceSlice", resource_slice(*names, **fields))


class World:
    """Claims that have devices, on a bench: annotations are written at once."""

    def __init__(self, bench, *names, count=8, used=None, **metadata):
        self.bench, self.clock, self.used = bench, bench.clock, used
        self.metadata = {"finalizers": [FINALIZER], **metadata}
        bench.run(put("Node", node()), devices(*[f"gpu-{number}" for number in range(count)]))
        self.run(*[self.has(name, f"gpu-{number}") for number, name in enumerate(names)])

    def has(self, name, device, **annotations):
        """The difference by which a claim has a device."""
        body = claim(name, **{**self.metadata, **({"annotations": annotations} if annotations else {})})
        return self.bench.delta(body, allocation=allocation(device), reservedFor=self.used)

    def run(self, *items):
        """Run passes until nothing but allocations and withdrawals is to be done; return all effects."""
        effects, new = [], self.bench.run(*items)
        while written := writes(new, "annotate"):
            effects += new
            new = self.bench.run(*[Stored(write, {}) for write in written])
        return effects + new

    def moved(self, *items):
        """Run, and return the names of the claims whose allocation is taken back."""
        return [write.key[1] for write in writes(self.run(*items), "withdraw")]

    def wait(self, seconds):
        """Let time pass."""
        self.clock.now += seconds
        return self.moved()


def messages(effects):
    """The sentences of Events, by kind and name of their objects."""
    found = [effect for effect in effects if isinstance(effect, EventRequest)]
    return {(event.subject.kind, event.subject.name): event.message for event in found}


@pytest.fixture
def world(bench):
    """A claim of ours that no pod names, with gpu-0 of eight devices."""
    return World(bench, "ours")


def test_allocation_on_a_node_that_is_gone_is_taken_back_at_once(world):
    """Nobody can use it; the message says what becomes of it."""
    effects = world.run(NODE)

    (write,) = writes(effects, "withdraw")
    assert write.key[1] == "ours"
    expected = "node node-1 is gone; no pod uses this claim, so it gets other devices"
    assert messages(effects) == {("ResourceClaim", "ours"): expected}
    assert world.bench.metric("reallocations_total", cause="node-gone") == 1


def test_claim_that_was_taken_back_is_decided_anew(world):
    """Like one that has just been created."""
    (write,) = writes(world.run(NODE), "withdraw")
    world.bench.allocator.answers = {"ours": fits("gpu-9")}

    effects = world.run(world.bench.delta(claim("ours")), Stored(write, {}))

    assert [each.key[1] for each in writes(effects, "allocate")] == ["ours"]


def test_device_must_be_missing_for_five_minutes(world):
    """From a pool that is complete, in a newer generation; a minute suffices for the message."""
    assert world.moved(devices("gpu-1", generation=2)) == []
    assert world.wait(60) == []
    assert world.wait(239) == []

    assert world.wait(1) == ["ours"]


def test_taint_must_outlast_its_toleration(bench, clock):
    """The claim keeps its device for as long as its request tolerates the taint."""
    start = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + 10
    bench.wall = lambda: datetime.fromtimestamp(start + clock.now - 1000, UTC)
    world = World(bench)
    has = allocation()
    tolerates = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}
    has["devices"]["results"][0]["tolerations"] = [tolerates]
    world.run(bench.delta(claim("ours", finalizers=[FINALIZER]), allocation=has))

    assert world.moved(devices("gpu-0", taints=[EVICTING], generation=2)) == []
    assert world.wait(19) == []
    assert world.wait(1) == ["ours"]


@pytest.mark.parametrize(
    "changes",
    [
        [Delta("ResourceSlice", "", "slice-1", None), devices("gpu-0", generation=2)],
        [put("Node", node(unschedulable=True))],
        [devices("gpu-0", taints=[{**EVICTING, "effect": "NoSchedule"}], generation=2)],
    ],
    ids=["kubelet restarts", "node is cordoned", "device is tainted NoSchedule"],
)
def test_nothing_else_moves_a_claim(world, changes):
    """The device is there, or will be again."""
    moved = []
    for change in changes:
        moved += world.moved(change) + world.wait(20)

    assert moved + world.wait(3600) == []


class TestUsed:
    """A pod names the claim."""

    @pytest.mark.parametrize(
        ("change", "fate"),
        [
            (NODE, "node node-1 is gone; kube-controller-manager deletes this pod"),
            (
                devices("gpu-0", taints=[EVICTING], generation=2),
                (
                    "device gpu.example.com/pool-1/gpu-0 has the taint broken:NoExecute, which is not tolerated; "
                    "kube-controller-manager evicts this pod"
                ),
            ),
        ],
        ids=["node gone", "tainted"],
    )
    def test_it_is_told_on_the_pod_as_well(self, bench, change, fate):
        """With what kube-controller-manager does about it; nothing is taken back."""
        world = World(bench, "ours", used=USER)
        world.run(POD)

        effects = world.run(change)

        assert messages(effects)["Pod", "pod"] == f'claim "ours": {fate}'
        assert writes(effects, "withdraw") == []
        assert world.wait(3600) == []

    def test_pod_that_comes_later_is_told_too(self, bench):
        """It waits for a device that is gone, and nothing will evict it."""
        world = World(bench, "ours", used=[{"resource": "pods", "name": "first", "uid": "0"}])
        world.run(NODE)

        found = messages(world.run(POD))

        expected = (
            'claim "ours": node node-1 is gone; nothing evicts a pod without a node: '
            "delete this one, and then the claim, if it is still there"
        )
        assert found["Pod", "pod"] == expected

    def test_claim_moves_when_its_last_pod_is_gone(self, world):
        """kube-controller-manager has let go of it, or it was never reserved."""
        world.run(POD)
        assert world.moved(NODE) == []

        assert world.moved(PodUse("default", "pod", frozenset())) == ["ours"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"dra-operator.io/allocate": "false"}},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": True}
            ]
        },
    ],
    ids=["opted out", "being deleted", "made for a pod"],
)
def test_claim_that_is_not_ours_does_not_move(bench, metadata):
    """It is left to its owner, or goes anyway."""
    assert World(bench, "ours", **metadata).moved(NODE) == []


def test_allocation_of_devices_that_are_not_owned_does_not_move(clock):
    """Where the operator owns devices, somebody else has made it."""
    world = World(Bench(clock, Settlement()), "theirs")

    effects = world.run(NODE)

    assert writes(effects, "withdraw") == []
    assert messages(effects)["ResourceClaim", "theirs"].endswith("a new claim gets other devices")


def test_claim_whose_node_and_slices_are_all_gone_moves(clock):
    """Whose devices they were nobody knows any more; that no pod names the claim shows that it was ours."""
    world = World(Bench(clock, Settlement()), "ours")
    assert world.moved(Delta("ResourceSlice", "", "slice-1", None)) == []

    assert world.moved(NODE) == ["ours"]


def test_claim_that_nobody_decides_anew_is_not_promised_other_devices(clock):
    """With `claims: gated` a claim without pods only loses what it has."""
    world = World(Bench(clock, scope=ClaimScope.GATED), "ours")

    found = messages(world.run(NODE))

    expected = "node node-1 is gone; no pod uses this claim, so its devices are taken back"
    assert found["ResourceClaim", "ours"] == expected


def test_claim_that_shares_its_device_does_not_move(world):
    """kube-scheduler would forget that the device is in use."""
    world.run(world.has("other", "gpu-0"))

    assert world.moved(NODE) == []


class TestQuarter:
    """Of a pool a quarter moves at once."""

    def test_it_takes_a_minute_for_each_quarter(self, bench):
        """A driver that errs about all its devices is seen before all claims have moved."""
        names = [f"claim-{number}" for number in range(8)]
        world = World(bench, *names)

        found = [world.moved(NODE)] + [world.wait(60) for _ in range(2)]

        assert [len(moved) for moved in found] == [2, 2, 2]
