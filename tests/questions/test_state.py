"""The state of a cluster: what is loaded, laid over and taken away."""

import pytest

from dra_operator import Cluster
from dra_operator.questions.answers import UnknownObjectError
from factories import manifest
from small_cluster import CLASS, NODES, cluster, devices, holding, pod, template


def test_what_cannot_be_read_is_an_error_and_the_rest_counts(tmp_path):
    """One bad object blocks nobody else; mappings are named by their number, objects of files by their place."""
    bad = {**CLASS, "metadata": {"name": "bad"}, "spec": {"selector": []}}
    file = tmp_path / "bad.yaml"
    file.write_text("kind: DeviceClass")

    found = Cluster.load([CLASS, bad, file, *NODES])

    assert found.errors == [
        'object 2: DeviceClass "bad": spec.selector: unknown field; did you mean "selectors"?',
        f"{file}, document 1 (line 1): DeviceClass: apiVersion: is required",
    ]
    assert found.fit("DeviceClass/gpu", 4).fits


def test_slices_that_contradict_published_ones_are_errors():
    """A pool that was complete is not made invalid without a word."""
    second = {**devices("n1", "gpu-0"), "metadata": {"name": "second"}}

    (error,) = cluster().with_objects(second).errors

    assert error.startswith(
        'ResourceSlice "second": pool gpu.example.com/n1 has too many slices of generation 1'
    )
    assert error.endswith("give the slices a pool of their own, or the names of those they replace")


def test_with_a_pod_goes_what_it_has():
    """Its cpu, the claims made for it, and the allocation that only it uses."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "old", "uid": "old", "controller": True}
    user = {"resource": "pods", "name": "old", "uid": "old"}
    shared = holding("shared", "n1", "gpu-1")
    shared["status"]["reservedFor"] = [user]
    asked = cluster(
        pod("old", "8", uid="old", nodeName="n1", entries=[]),
        holding("own", "n1", "gpu-0", ownerReferences=[owner]),
        shared,
    )

    assert asked.fit([template(), pod()], 9).fitting == 2
    left = asked.without(pods=["team/old"])
    assert left.fit([template(), pod()], 9).fitting == 4
    assert left.find_claim(("team", "own")) is None
    assert left.find_claim(("team", "shared")) is not None


def test_nodes_and_drivers_go_with_their_slices():
    """What they publish is gone."""
    asked = cluster()

    assert asked.without(nodes=["n1"]).headroom("DeviceClass/gpu").more == 2
    assert asked.without(drivers=["gpu.example.com"]).headroom("DeviceClass/gpu").more == 0


def test_some_nodes_alone_may_be_chosen():
    """Others count as unusable, and one that is not there is refused."""
    assert cluster(only_nodes=["n2"]).headroom("DeviceClass/gpu").more == 2
    with pytest.raises(UnknownObjectError):
        cluster(only_nodes=["n9"])


def test_all_claims_are_allocated_in_order():
    """`allocate` says what becomes of each, and counts nothing for the next question."""
    claims = [
        manifest("ResourceClaim", name, template(3 if name == "b" else 1)["spec"]["spec"], namespace="team")
        for name in "ab"
    ]

    asked = cluster(*claims)

    assert [(each.claim, each.state, each.node, each.reason) for each in asked.allocate().claims] == [
        ("team/a", "allocated", "n1", ""),
        ("team/b", "pending", "", "NotEnoughDevices"),
    ]
    assert asked.headroom("DeviceClass/gpu").more == 4


def test_a_pod_that_is_gone_leaves_what_is_reserved_for_others_of_its_name():
    """A claim that is reserved for a PodGroup goes on without a pod that has the group's name."""
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring", "uid": "r"}
    held = holding("c", "n1", "gpu-0")
    held["status"]["reservedFor"] = [group]
    asked = cluster(held, pod("ring", entries=[], uid="p"))

    assert asked.without(pods=["team/ring"]).headroom("DeviceClass/gpu").more == 3
