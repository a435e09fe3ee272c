"""Holders: who holds what equals what a reader finds that shares no code with the package."""

import pytest

import clean_worlds as worlds
import world_faults as faults
from dra_operator.questions.answers import UnknownObjectError
from dra_operator.questions.claims import Use
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.manifests import SnapshotHeader, write_header, write_yaml
from naive_usage import Reader

FAULTS = [
    None,
    faults.second_claim_on_a_device,
    faults.device_that_left_its_slice,
    faults.reserved_for_an_earlier_pod_of_the_name,
]


def load(world, **options):
    """The cluster of a world."""
    return Cluster.load(world.bodies, now=worlds.NOW.timestamp(), **options)


def summary(report):
    """The claims, with their devices and whether they are idle."""
    return {
        (each.namespace, each.name): (sorted(item.path for item in each.devices), each.is_idle)
        for each in report.holders
    }


@pytest.mark.parametrize("seed", range(40))
def test_holders_are_those_of_an_independent_reader(seed):
    """Of every node, pool and class: which claims, which devices, and whether the claims are idle."""
    world = worlds.make_world(seed)
    fault = FAULTS[seed % len(FAULTS)]
    if fault is not None:
        fault(world)
    cluster, reader = load(world), Reader(world.bodies)

    for name in world.nodes:
        assert summary(cluster.holders(node=name)) == reader.holders(node=name)
    for name in {key[1] for key in reader.devices}:
        assert summary(cluster.holders(pool=name)) == reader.holders(pool=name)
    for name in ("gpu", "nic", "large"):
        assert summary(cluster.holders(device_class=name)) == reader.holders(device_class=name)


@pytest.fixture
def world():
    """A node with a device that a running pod uses, and a claim that nobody uses."""
    world = worlds.World(worlds.Random(0))
    world.nodes = ["node-1"]
    for name in ("gpu-0", "gpu-1"):
        world.devices.append(worlds.Device(worlds.GPU, "node-1", name, "node-1", is_owned=False))
    world.put(worlds.manifest("Node", "node-1"))
    world.put(worlds.factories.device_class("gpu"))
    world.put(worlds.factories.resource_slice("s", [{"name": "gpu-0"}, {"name": "gpu-1"}]))
    results = [world.take(world.devices[0])]
    claim = world.claim("team-a", world.allocation("node-1", results, worlds.ago(hours=3)), name="used")
    world.pod("team-a", [claim], name="train", node="node-1")
    results = [world.take(world.devices[1])]
    world.claim(
        "team-b", world.allocation("node-1", results, None), name="unused", created=worlds.ago(days=2)
    )
    return world


def test_holder_says_for_which_pod_and_since_when(world):
    """The time of the allocation counts."""
    (holder,) = load(world).holders(device="gpu-0").holders

    assert (holder.namespace, holder.name, holder.node, holder.use) == (
        "team-a",
        "used",
        "node-1",
        Use.RUNNING,
    )
    assert [(each.kind, each.name, each.node) for each in holder.consumers] == [("Pod", "train", "node-1")]
    assert (holder.since, holder.age_seconds, holder.is_since_creation) == (
        worlds.ago(hours=3),
        3 * 3600,
        False,
    )
    assert holder.is_idle is False


def test_holder_that_nobody_uses_is_idle(world):
    """Without the time of its allocation the claim's own age is said to be that."""
    (holder,) = load(world).holders(namespace="team-b").holders

    assert (holder.use, holder.is_idle, holder.is_since_creation) == (Use.UNRESERVED, True, True)
    assert holder.age_seconds == 2 * 24 * 3600


@pytest.mark.parametrize(
    ("phase", "node", "use"),
    [
        ("Running", "node-1", Use.RUNNING),
        ("Pending", "node-1", Use.STARTING),
        ("Pending", "", Use.WAITING),
        ("Failed", "node-1", Use.ENDED),
    ],
)
def test_use_follows_the_pod(world, phase, node, use):
    """Only a pod that runs makes use of devices."""
    pod = world.objects["Pod", "team-a", "train"]
    pod["status"]["phase"] = phase
    pod["spec"]["nodeName"] = node

    (holder,) = load(world).holders(device="gpu-0").holders

    assert (holder.use, holder.is_idle) == (use, use is not Use.RUNNING)


def test_pod_that_only_names_a_claim_is_listed_after_those_it_is_reserved_for(world):
    """It waits for the claim, and has no reservation."""
    claim = world.objects["ResourceClaim", "team-a", "used"]
    world.pod("team-a", [claim], name="another")

    (holder,) = load(world).holders(device="gpu-0").holders

    assert [(each.name, each.use, each.is_reserved) for each in holder.consumers] == [
        ("train", Use.RUNNING, True),
        ("another", Use.WAITING, False),
    ]


def test_idleness_is_not_known_without_pods(world):
    """A user who may not list pods is not told that devices are idle, but of a claim that nobody reserved."""
    del world.objects["Pod", "team-a", "train"]

    report = load(world, unread={"Pod": "not permitted to list pods"}).holders()

    assert {each.name: each.is_idle for each in report.holders} == {"used": None, "unused": True}
    assert report.unread == ("Pod: not permitted to list pods",)


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ({"node": "node-11"}, 'there is no node "node-11"; did you mean "node-1"?'),
        ({"device_class": "gpus"}, 'there is no DeviceClass "gpus"; did you mean "gpu"?'),
        ({"driver": "fpga.test"}, 'there is no driver "fpga.test"'),
        ({"pool": "node-1", "device": "gpu-x"}, 'there is no device "gpu-x"; did you mean "gpu-0"?'),
    ],
)
def test_unknown_subject_is_an_error(world, subject, message):
    """The answer is not that nobody holds it."""
    with pytest.raises(UnknownObjectError) as caught:
        load(world).holders(**subject)

    assert str(caught.value).lower() == message.lower()


def reserved_for_a_pod():
    """Objects with a claim that is reserved for a pod, and no pod."""
    result = worlds.factories.result("gpu-0")
    status = {
        "allocation": worlds.factories.allocation(result),
        "reservedFor": [{"resource": "pods", "name": "train", "uid": "train"}],
    }
    return [
        worlds.factories.resource_slice("slice-1", [{"name": "gpu-0"}]),
        worlds.factories.claim("used", status=status, namespace="team-a"),
    ]


def test_pods_that_a_snapshot_has_not_are_gone(tmp_path):
    """It has all of those that have to do with claims."""
    file = tmp_path / "snapshot.yaml"
    header = write_header(SnapshotHeader(worlds.NOW.timestamp(), {}))
    file.write_bytes(header + b"".join(write_yaml(reserved_for_a_pod())) + b"...\n")

    (holder,) = Cluster.load(file).holders().holders

    assert (holder.use, holder.is_idle) == (Use.GONE, True)
