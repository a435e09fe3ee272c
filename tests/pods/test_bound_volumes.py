"""Bound volumes: from which nodes they can be reached."""

import pytest

from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.field_reader import FieldReader
from dra_operator.pods.node_fit import read_requirements, read_volume

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def term(key, *values):
    """A term about a label."""
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [*values]}]}


@pytest.mark.parametrize(
    ("labels", "terms", "node", "conflict"),
    [
        ({}, None, {}, None),
        ({}, [term("a", "1")], {"a": "1"}, None),
        ({}, [term("a", "1"), term("b", "1")], {"b": "1"}, None),
        ({}, [term("a", "1")], {"a": "2"}, "v (a In 1)"),
        ({}, [], {}, "v (no term)"),
        ({}, [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}], {}, None),
        ({}, [{"matchExpressions": [{"key": "a", "operator": "Like"}]}], {"a": "1"}, "v (a Like)"),
        ({ZONE: "a"}, None, {ZONE: "a"}, None),
        ({ZONE: "a"}, None, {ZONE: "b"}, "v (zone a)"),
        ({ZONE: "a__b"}, None, {ZONE: "b"}, None),
        ({ZONE: "a__b"}, None, {ZONE: "c"}, "v (zone a, b)"),
        ({ZONE: "a__"}, None, {ZONE: "c"}, None),
        ({ZONE: "a"}, None, {}, None),
        ({ZONE: "a"}, None, {REGION: "r"}, "v (zone a)"),
        ({REGION: "r"}, None, {REGION: "s", ZONE: "a"}, "v (region r)"),
        ({BETA_ZONE: "a"}, None, {ZONE: "a"}, None),
        ({BETA_ZONE: "a"}, None, {ZONE: "b"}, "v (zone a)"),
        ({ZONE: "a"}, None, {BETA_ZONE: "a"}, "v (zone a)"),
    ],
)
def test_where_a_volume_can_be_reached(labels, terms, node, conflict):
    """By its node affinity, which looks at labels alone, and by the zones and regions of its labels."""
    spec = {} if terms is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}
    body = {"metadata": {"name": "v", "labels": labels}, "spec": spec}
    volume = read_volume(FieldReader("PersistentVolume", body), body)

    assert volume.find_conflict(node) == conflict


BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(volume="", *, annotations=None, status=None, storage_class=None, **metadata):
    """A claim for a volume."""
    return {
        "metadata": {"name": "data", "namespace": "default", "annotations": annotations or {}, **metadata},
        "spec": {"volumeName": volume, **({"storageClassName": storage_class} if storage_class else {})},
        "status": status or {},
    }


def owner(uid):
    """A pod that a claim is made for."""
    return [{"kind": "Pod", "name": "p", "uid": uid, "controller": True}]


@pytest.fixture
def cluster():
    """A node and a volume."""
    cluster = ClusterPods()
    cluster.put("Node", {"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}})
    cluster.put("PersistentVolume", {"metadata": {"name": "v"}})
    return cluster


def obstacle(cluster, volume):
    """Return what keeps a pod with this volume from the node."""
    body = {"metadata": {"name": "p", "namespace": "default", "uid": "u1"}, "spec": {"volumes": [volume]}}
    found = cluster.find_obstacle(read_requirements(body), "n1")
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (None, "volume (claim data is not there)"),
        (claim("v", annotations=BOUND), None),
        (claim("v"), "volume (claim data is not bound)"),
        (claim("w", annotations=BOUND), "volume (claim data is bound to the volume w, which is not there)"),
        (claim(), "volume (claim data is not bound)"),
        (claim(storage_class="late"), None),
        (claim(annotations={"volume.beta.kubernetes.io/storage-class": "late"}), None),
        (
            claim("v", annotations=BOUND, status={"phase": "Lost"}),
            "volume (claim data is bound to the volume v, which is lost)",
        ),
        (
            claim("v", annotations=BOUND, deletionTimestamp="2026-01-01T00:00:00Z"),
            "volume (claim data is being deleted)",
        ),
    ],
    ids=[
        "missing",
        "bound",
        "half bound",
        "volume gone",
        "no class",
        "late",
        "late, of old",
        "lost",
        "ending",
    ],
)
def test_what_keeps_a_pod_from_all_nodes(cluster, body, expected):
    """A claim that must be bound and is not; one that may bind late counts for nothing."""
    if body is not None:
        cluster.put("PersistentVolumeClaim", body)

    assert obstacle(cluster, {"name": "x", "persistentVolumeClaim": {"claimName": "data"}}) == expected


def test_an_ephemeral_volume_must_be_made_for_the_pod(cluster):
    """One of that name may be somebody else's."""
    ephemeral = {"name": "x", "ephemeral": {}}
    assert obstacle(cluster, ephemeral) == "volume (claim p-x is not there)"

    cluster.put(
        "PersistentVolumeClaim", claim("v", annotations=BOUND, name="p-x", ownerReferences=owner("u2"))
    )
    assert obstacle(cluster, ephemeral) == "volume (claim p-x is not made for this pod)"

    cluster.put(
        "PersistentVolumeClaim", claim("v", annotations=BOUND, name="p-x", ownerReferences=owner("u1"))
    )
    assert obstacle(cluster, ephemeral) is None
