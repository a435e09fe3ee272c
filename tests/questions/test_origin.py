"""What has devices: when and by whom they were allocated, for whom, where else, and what is wrong now."""

import pytest

from dra_operator import Cluster
from small_cluster import CLASS, cluster, devices, holding, node, pod

THEN, NOW = "2026-01-01T00:00:00Z", 1767225600 + 90
ENTRY = [{"name": "gpu", "resourceClaimName": "used"}]


def allocated(on="n1", name="used", **metadata):
    """A claim that kube-scheduler allocated for a pod."""
    wrote = {
        "manager": "kube-scheduler",
        "operation": "Update",
        "subresource": "status",
        "time": THEN,
        "fieldsV1": {"f:status": {"f:allocation": {}}},
    }
    body = holding(name, on, "gpu-0", managedFields=[wrote], **metadata)
    body["status"]["allocation"]["allocationTimestamp"] = THEN
    body["status"]["reservedFor"] = [{"resource": "pods", "name": "train", "uid": "train"}]
    return body


def running(**spec):
    """The pod that uses it."""
    body = pod("train", uid="train", entries=ENTRY, nodeName="n1", **spec)
    body["status"] = {"phase": "Running"}
    return body


@pytest.mark.parametrize("subject", ["pod/team/train", "claim/team/used"])
def test_when_by_whom_for_whom_and_where(subject):
    """The allocation is told with its time, its field manager, its users and the nodes it could be on."""
    origin = cluster(allocated(), running(), now=NOW).explain(subject).origin

    (claim,) = origin.claims
    assert (claim.name, claim.node, claim.since, claim.age_seconds) == ("used", "n1", THEN, 90)
    assert (claim.manager, claim.consumers, claim.problems) == (
        "kube-scheduler",
        ("Pod train (running)",),
        (),
    )
    assert (origin.nodes, origin.of_nodes) == (("n1", "n2"), 2)


def test_nodes_are_those_that_suit_the_pod_and_have_devices_left():
    """A node where others hold all devices is none, nor one that the pod's fields do not admit."""
    full = holding("other", "n2", "gpu-0", "gpu-1")
    only = {"kubernetes.io/hostname": "n2"}

    assert cluster(allocated(), full, running()).explain("pod/team/train").origin.nodes == ("n1",)
    assert cluster(allocated(), running(nodeSelector=only)).explain("pod/team/train").origin.nodes == ("n2",)


def test_all_claims_of_a_pod_are_to_be_on_one_node():
    """Two claims of one device each fit on a node with two, and on none with one."""
    entries = [*ENTRY, {"name": "more", "resourceClaimName": "second"}]
    second = holding("second", "n1", "gpu-1")
    asking = pod("train", uid="train", entries=entries, nodeName="n1")

    assert cluster(allocated(), second, asking).explain("pod/team/train").origin.nodes == ("n1", "n2")
    taken = holding("other", "n2", "gpu-0")
    found = cluster(allocated(), second, asking, taken).explain("pod/team/train").origin
    assert (found.nodes, [each.claim for each in found.claims]) == (("n1",), ["gpu", "more"])


PROBLEMS = {
    "broken": ([], allocated("gone"), "its allocation is broken"),
    "tainted": (
        [devices("n1", "gpu-0", taints=[{"key": "sick", "effect": "NoSchedule"}])],
        allocated(),
        "sick:NoSchedule",
    ),
    "not published": ([devices("n1", "gpu-1")], allocated(), "gpu-0 is not published"),
    "deleted": ([], allocated(deletionTimestamp=THEN), "it is being deleted: it is reserved for pod train"),
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_is_wrong_with_it_now(problem):
    """A pod that runs is told what has become of its devices."""
    bodies, claim, text = PROBLEMS[problem]

    origin = Cluster.load([CLASS, node("n1"), node("n2"), devices("n2", "gpu-0"), *bodies, claim, running()])
    (found,) = origin.explain("pod/team/train").origin.claims
    assert any(text in each for each in found.problems), found.problems


def test_nothing_is_said_of_what_has_no_devices_or_cannot_be_known():
    """Without an allocation there is no origin; without the claims of others nobody knows where else it fits."""
    assert cluster(pod("train", uid="train")).explain("pod/team/train").origin is None
    asked = cluster(allocated(), running(), unread={"ResourceClaim": "forbidden"})
    assert asked.explain("claim/team/used").origin.nodes is None
