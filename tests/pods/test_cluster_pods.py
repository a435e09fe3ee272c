"""All nodes with what their pods have: kept step by step, it is as if it had been made at once."""

import json
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.api.read import ObjectError
from dra_operator.pods.cluster_pods import ClusterPods
from dra_operator.pods.node_fit import read_requirements
from naive_node_fit import find_condition
from node_fit_scenarios import ZONE, bound, random_node, random_pod

NAMES = ("n1", "n2", "n3")
SEEDS = st.integers(0, 2**32)


def node(name="n1", *, labels=None, **allocatable):
    """A node."""
    return {
        "metadata": {"name": name, "labels": labels or {}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", **allocatable}},
    }


def pod(name="p", *, on="", cpu="1", phase="Pending", claims=(), **fields):
    """A pod of one container, which waits if it names claims and is on no node."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **fields.pop("metadata", {})}
    status = {"phase": phase, **fields.pop("status", {})}
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}],
        "resourceClaims": [{"name": item, "resourceClaimName": item} for item in claims],
        **({"nodeName": on} if on else {}),
        **fields,
    }
    return {"metadata": metadata, "spec": spec, "status": status}


@pytest.fixture
def cluster():
    """A node of four cores, one of which is requested."""
    cluster = ClusterPods()
    cluster.put("Node", node())
    cluster.put("Pod", pod("there", on="n1", phase="Running"))
    return cluster


def obstacle(cluster, body, name="n1"):
    """Return what keeps a pod from a node, as people read it."""
    found = cluster.find_obstacle(read_requirements(body), name)
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("change", "is_seen"),
    [
        (lambda cluster: cluster.put("Pod", pod("there", on="n1", phase="Running")), False),
        (lambda cluster: cluster.put("Pod", pod("there", on="n1", cpu="2")), True),
        (lambda cluster: cluster.remove("Pod", "default", "there"), True),
        (lambda cluster: cluster.put("Pod", pod("waits")), False),
        (lambda cluster: cluster.put("Pod", pod("elsewhere", on="gone")), False),
        (lambda cluster: cluster.put("Node", node()), False),
        (lambda cluster: cluster.put("Node", node(labels={"a": "b"})), True),
        (lambda cluster: cluster.put("Node", {**node(), "spec": {"unschedulable": True}}), True),
        (lambda cluster: cluster.put("Node", node("n2")), True),
        (lambda cluster: cluster.remove("Node", "", "n1"), True),
        (lambda cluster: cluster.put("PersistentVolume", {"metadata": {"name": "v"}}), True),
        (lambda cluster: cluster.put("PersistentVolumeClaim", {"metadata": {"name": "v"}}), True),
        (lambda cluster: cluster.put("DeviceClass", {"metadata": {"name": "v"}}), True),
        (lambda cluster: cluster.remove("DeviceClass", "", "v"), False),
    ],
    ids=[
        "the same pod",
        "a pod of another size",
        "a pod gone",
        "a pod without a node",
        "a pod of no node",
        "the same node",
        "other labels",
        "a cordoned node",
        "a new node",
        "a node gone",
        "a volume",
        "a volume claim",
        "a class",
        "what was not there",
    ],
)
def test_version_grows_with_what_may_count(cluster, change, is_seen):
    """Heartbeats of nodes and of pods that run do not."""
    before = cluster.version

    change(cluster)

    assert (cluster.version > before) is is_seen


def test_pods_that_are_nominated_have_a_place(cluster):
    """Against others that do not have a higher priority, and not against themselves; gated ones, too."""
    nominated = {"status": {"nominatedNodeName": "n1"}, "priority": 5}
    cluster.put("Pod", pod("next", cpu="2", schedulingGates=[{"name": "g"}], **nominated))

    asked = read_requirements(pod(cpu="2", priority=5))
    assert obstacle(cluster, pod(cpu="2", priority=5)) == "cpu (1 left of 4, 2 requested)"
    assert [*cluster.find_obstacles(asked)] == ["n1"]
    assert [*cluster.find_obstacles_without(asked, "ports")] == ["n1"]
    assert obstacle(cluster, pod(cpu="2", priority=6)) is None
    assert cluster.find_obstacle(asked, "n1", ("default", "next")) is None

    cluster.remove("Node", "", "n1")
    cluster.put("Node", node())
    assert [*cluster.find_obstacles(asked)] == ["n1"]
    cluster.put("Pod", pod("next", cpu="2", on="n1", priority=5))
    assert [*cluster.find_obstacles(asked)] == ["n1"]
    cluster.remove("Pod", "default", "next")
    assert [*cluster.find_obstacles(asked)] == []


# --- pods that wait


def test_a_pod_that_names_a_claim_and_has_no_node_waits(cluster):
    """What is known of it: what it asks of nodes, its priority, its controller, and what kube-scheduler says."""
    body = pod(
        claims=["gpu"],
        priority=7,
        metadata={"ownerReferences": [{"kind": "Job", "name": "j", "uid": "u", "controller": True}]},
        status={
            "nominatedNodeName": "n1",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    )
    cluster.put("Pod", body)

    waiting = cluster.waiting["default", "p"]
    assert waiting.requirements is read_requirements(body)
    assert (waiting.nominated_node, waiting.priority) == ("n1", 7)
    assert waiting.condition == ("False", "Unschedulable")
    assert waiting.owner == ("Job", "j", "u")
    assert waiting.pod.spec.resource_claims[0].resource_claim_name == "gpu"
    assert cluster.changed == {("default", "p")}


# --- what cannot be read


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        (
            "Node",
            node(cpu="many"),
            'Node "n1": status.allocatable["cpu"]: "many" is not a quantity such as 16Gi or 500m',
        ),
        (
            "Node",
            {"metadata": {"name": "n1"}, "spec": {"taints": {}}},
            'Node "n1": spec.taints: {} is not a list',
        ),
        (
            "PersistentVolume",
            {"metadata": {"name": "v"}, "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": 1}}}},
            'PersistentVolume "v": spec.nodeAffinity.required.nodeSelectorTerms: 1 is not a list',
        ),
        (
            "PersistentVolumeClaim",
            {"metadata": {"name": "c", "namespace": "default"}, "spec": {"volumeName": 1}},
            'PersistentVolumeClaim "default/c": spec.volumeName: 1 is not text: write it in quotes',
        ),
        (
            "DeviceClass",
            {"metadata": {"name": "d"}, "spec": []},
            'DeviceClass "d": spec: [] is not an object',
        ),
    ],
    ids=["quantity", "taints", "volume", "volume claim", "class"],
)
def test_another_object_that_cannot_be_read_counts_as_absent(cluster, kind, body, text):
    """And no other is affected."""
    cluster.put("Node", node("n2"))
    with pytest.raises(ObjectError) as caught:
        cluster.put(kind, body)

    assert str(caught.value) == text
    assert sorted(cluster.nodes) == (["n2"] if kind == "Node" else ["n1", "n2"])
    assert obstacle(cluster, pod(), "n2") is None


# --- laws


def random_steps(random, nodes, pods, namespace="default"):
    """Yield random changes of a cluster of three nodes, and keep what there is in `nodes` and `pods`."""
    for _ in range(random.randint(5, 40)):
        name = random.choice(NAMES)
        match random.randint(0, 6):
            case 0:
                nodes[name] = random_node(random, name)
                yield "Node", nodes[name]
            case 1 if name in nodes:
                del nodes[name]
                yield "Node", {"metadata": {"name": name}}
            case 2 if pods:
                removed = random.choice(sorted(pods))
                del pods[removed]
                yield "Pod", {"metadata": {"name": removed, "namespace": namespace}}
            case _:
                body = random_pod(random, f"p{random.randint(0, 8)}", namespace)
                body["status"] = {"phase": "Pending"}
                if random.random() < 0.8:
                    body = bound(body, name)
                if random.random() < 0.2:
                    body["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
                if random.random() < 0.2:
                    body["status"]["nominatedNodeName"] = random.choice(NAMES)
                if random.random() < 0.1:
                    body["status"]["phase"] = random.choice(("Succeeded", "Failed"))
                pods[body["metadata"]["name"]] = body
                yield "Pod", body


def apply(cluster, kind, body):
    """Put an object, or remove it if it is only a name."""
    if "spec" in body:
        cluster.put(kind, body)
    else:
        cluster.remove(kind, body["metadata"].get("namespace", ""), body["metadata"]["name"])


@given(SEEDS)
@settings(max_examples=100)
def test_step_by_step_is_as_at_once(seed):
    """After any changes it says what one says that has only seen what is there now; asking in between is harmless."""
    random = Random(seed)  # noqa: S311
    asked = [read_requirements(random_pod(random, "asked", "default")) for _ in range(3)]
    cluster = ClusterPods()
    nodes, pods = {}, {}
    for kind, body in random_steps(random, nodes, pods):
        apply(cluster, kind, body)
        if random.random() < 0.5:
            cluster.find_obstacles(random.choice(asked))
    afresh = ClusterPods()
    for found in (*pods.values(), *nodes.values()):
        apply(afresh, "Node" if found["kind"] == "Node" else "Pod", found)

    for requirements in asked:
        found = cluster.find_obstacles(requirements)
        assert found == afresh.find_obstacles(requirements)
        assert found == {
            name: problem
            for name in nodes
            if (problem := cluster.find_obstacle(requirements, name)) is not None
        }
    assert cluster.nodes == afresh.nodes
    assert cluster.waiting == afresh.waiting


@given(SEEDS)
@settings(max_examples=150)
def test_it_agrees_with_what_is_told_from_the_bodies(seed):
    """Which condition is the first against a node, for pods among pods."""
    random = Random(seed)  # noqa: S311
    cluster = ClusterPods()
    volumes, claims = random_volumes(random)
    nodes = [random_node(random, name) for name in NAMES]
    pods = [bound(random_pod(random, f"p{number}", "default"), random.choice(NAMES)) for number in range(8)]
    for kind, bodies in (
        ("Node", nodes),
        ("Pod", pods),
        ("PersistentVolume", volumes),
        ("PersistentVolumeClaim", claims),
    ):
        for body in bodies:
            cluster.put(kind, body)

    names = tuple(claim["metadata"]["name"] for claim in claims)
    asked = [random_pod(random, "asked", "default", names) for _ in range(4)]
    for body in asked:
        found = cluster.find_obstacles(read_requirements(body))
        expected = {
            each["metadata"]["name"]: find_condition(body, each, pods, claims, volumes) for each in nodes
        }
        assert {name: problem.condition for name, problem in found.items()} == {
            name: condition for name, condition in expected.items() if condition
        }


def random_volumes(random):
    """Return bound volumes with their claims: of a zone, of some nodes, and of anywhere."""
    affinity = {
        "required": {
            "nodeSelectorTerms": [
                {
                    "matchExpressions": [
                        random.choice(
                            (
                                {"key": ZONE, "operator": "In", "values": ["a"]},
                                {"key": "disk", "operator": "Exists"},
                            )
                        )
                    ]
                }
            ]
        }
    }
    volumes = [
        {"metadata": {"name": "zonal", "labels": {ZONE: random.choice(("a", "b", "a__b"))}}, "spec": {}},
        {"metadata": {"name": "local"}, "spec": {"nodeAffinity": affinity}},
        {"metadata": {"name": "anywhere"}, "spec": {}},
    ]
    claims = [
        {
            "metadata": {
                "name": f"claim-{volume['metadata']['name']}",
                "namespace": "default",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"volumeName": volume["metadata"]["name"]},
        }
        for volume in volumes
    ]
    return volumes, claims


def places(value, path=()):
    """Yield the path of each part of a body."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def with_slip(random, body):
    """Return a copy of a body in which something of another type stands somewhere."""
    copy = json.loads(json.dumps(body))
    *path, last = random.choice([path for path in places(copy) if path not in NAMED])
    owner = copy
    for key in path:
        owner = owner[key]
    owner[last] = random.choice((None, 7, -1, True, "x", [], [1], [[]], {}, {"x": 1}, 1.5))
    return copy


NAMED = (("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"))


@given(SEEDS)
@settings(max_examples=300)
def test_a_slip_anywhere_is_an_object_error_and_harms_nobody_else(seed):
    """Whatever stands where; once it is mended, all is as if it had never been there."""
    random = Random(seed)  # noqa: S311
    volumes, claims = random_volumes(random)
    pods = [random_pod(random, f"p{number}", "default", ("claim-local",)) for number in range(3)]
    pods[0]["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "c"}]
    pods[0]["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
    }
    pods[1] = bound(pods[1], "n1")
    pods[1]["status"] |= {
        "containerStatuses": [
            {"name": "c0", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {}}}
        ],
        "nodeAllocatableResourceClaimStatuses": [
            {"containers": ["c0"], "overhead": [{"name": "cpu", "perPod": "1"}]}
        ],
    }
    pods[2] = bound(pods[2], "n2")
    nodes = [random_node(random, name) for name in NAMES]
    bodies = [("Node", each) for each in nodes] + [("Pod", each) for each in pods]
    bodies += [("PersistentVolume", each) for each in volumes]
    bodies += [("PersistentVolumeClaim", each) for each in claims]
    bodies.append(
        ("DeviceClass", {"metadata": {"name": "d"}, "spec": {"extendedResourceName": "example.com/x"}})
    )
    cluster, unharmed = ClusterPods(), ClusterPods()
    for kind, body in bodies:
        cluster.put(kind, body)
        unharmed.put(kind, body)
    kind, body = random.choice(bodies)

    with suppress(ObjectError):
        cluster.put(kind, with_slip(random, body))
    own = body["metadata"]["name"] if kind == "Node" else body["spec"].get("nodeName")
    assert all(cluster.nodes[name] == unharmed.nodes[name] for name in NAMES if name != own)
    cluster.put(kind, body)

    assert cluster.nodes == unharmed.nodes
    assert cluster.waiting == unharmed.waiting
    asked = read_requirements(random_pod(random, "asked", "default", ("claim-zonal", "claim-local")))
    assert cluster.find_obstacles(asked) == unharmed.find_obstacles(asked)


GATED = [{"name": "dra-operator.io/allocation"}]


def test_pods_that_our_gate_holds_are_kept_apart(cluster):
    """They wait for us and not for kube-scheduler; those with only other gates wait for nobody here."""
    cluster.put("Pod", pod("ours", claims=["a"], schedulingGates=GATED))
    cluster.put("Pod", pod("both", claims=["a"], schedulingGates=[*GATED, {"name": "x"}]))
    cluster.put("Pod", pod("theirs", claims=["a"], schedulingGates=[{"name": "x"}]))
    cluster.put("Pod", pod("free", claims=["a"]))

    assert {name for _, name in cluster.gated} == {"ours", "both"}
    assert {name for _, name in cluster.waiting} == {"free"}


def test_gated_pod_counts_on_the_node_that_it_was_decided_for(cluster):
    """Until it is nominated or bound, or that is withdrawn; an update of the pod changes nothing."""
    body = pod("ours", cpu="3", claims=["a"], schedulingGates=GATED)
    cluster.put("Pod", body)
    other = pod("other", cpu="2")
    assert obstacle(cluster, other) is None

    cluster.assume(("default", "ours"), "n1")
    assumed = obstacle(cluster, other)
    cluster.put("Pod", {**body, "metadata": {**body["metadata"], "labels": {"a": "b"}}})
    updated = obstacle(cluster, other)
    cluster.withdraw(("default", "ours"))

    assert assumed is not None
    assert updated == assumed
    assert obstacle(cluster, other) is None
