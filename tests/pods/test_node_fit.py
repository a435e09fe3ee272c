"""Each filter of kube-scheduler, by its table: what a node must be for a pod."""

import pytest

from dra_operator.api.read import ObjectError
from dra_operator.pods.field_reader import FieldReader
from dra_operator.pods.node_fit import (
    BoundVolume,
    NodeFit,
    NodeInfo,
    read_node_info,
    read_ports,
    read_requirements,
)

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TAINT = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
ZONE = "topology.kubernetes.io/zone"


def pod(**spec):
    """A pod of one container, which asks for nothing."""
    return {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }


def node(spec=None, *, declared=(), **labels):
    """A node of the name n1."""
    body = {
        "metadata": {"name": "n1", "labels": labels},
        "spec": spec or {},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "2"},
            "declaredFeatures": [*declared],
        },
    }
    found = NodeInfo("n1")
    read_node_info(FieldReader("Node", body), body, found)
    return found


def obstacle(body, there, volumes=()):
    """Return what keeps a pod from a node, as people read it."""
    found = NodeFit(read_requirements(body), volumes).find_obstacle(there)
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("toleration", "is_tolerated"),
    [
        ({"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}, True),
        ({"key": "dedicated", "value": "gpu"}, True),
        ({"key": "dedicated", "value": "db"}, False),
        ({"key": "dedicated"}, False),
        ({"key": "dedicated", "operator": "Exists"}, True),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "dedicated", "operator": "Lt", "value": "9"}, False),
        ({"key": "dedicated", "operator": "Exists", "effect": "PreferNoSchedule"}, False),
    ],
)
def test_taints_must_be_tolerated(toleration, is_tolerated):
    """By key, value and effect; operators that compare numbers are off by default."""
    expected = None if is_tolerated else "taint dedicated=gpu:NoSchedule"

    assert obstacle(pod(tolerations=[toleration]), node({"taints": [TAINT]})) == expected


def test_the_first_taint_that_is_not_tolerated_is_named():
    """One without a value is named without one; PreferNoSchedule keeps nobody away."""
    taints = [
        {"key": "slow", "effect": "PreferNoSchedule"},
        TAINT,
        {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
    ]
    body = pod(tolerations=[{"key": "dedicated", "operator": "Exists"}])

    assert (
        obstacle(body, node({"taints": taints})) == "taint node-role.kubernetes.io/control-plane:NoSchedule"
    )
    assert obstacle(pod(), node({"taints": taints[:1]})) is None


def affinity(*terms):
    """A pod with these terms of required node affinity."""
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}})


def labels(key, operator, *values):
    """A term about a label."""
    return {"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}


def fields(operator, *names):
    """A term about the node's name."""
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [*names]}]}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([labels("disk", "In", "ssd", "nvme")], True),
        ([labels("disk", "NotIn", "ssd")], False),
        ([labels("gone", "NotIn", "ssd")], True),
        ([labels("disk", "Exists")], True),
        ([labels("disk", "DoesNotExist")], False),
        ([labels("size", "Gt", "3")], True),
        ([labels("size", "Lt", "3")], False),
        ([labels("disk", "Gt", "3")], False),
        ([labels("disk", "In", "hdd"), labels("size", "In", "4")], True),
        ([labels("disk", "In", "ssd") | fields("In", "n2")], False),
        ([fields("In", "n1")], True),
        ([fields("In", "n2")], False),
        ([fields("NotIn", "n2")], True),
        ([], False),
        ([{}], False),
        ([labels("disk", "Like", "ssd"), labels("size", "In", "4")], True),
        ([labels("disk", "Like", "ssd")], False),
    ],
)
def test_one_term_of_the_affinity_must_match(terms, matches):
    """All of it. An empty term matches nothing, and neither does one that cannot be parsed; the others count."""
    assert (obstacle(affinity(*terms), node(disk="ssd", size="4")) is None) is matches


def test_filters_come_in_the_order_of_kube_scheduler():
    """The first that a node fails is told: each is mended, the next is told."""
    asked = {
        "nodeSelector": {"disk": "ssd"},
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 1, "hostPort": 80}],
                "resources": {"requests": {"cpu": "5", "memory": "9Gi", "example.com/x": "1"}},
                "restartPolicyRules": [{"action": "RestartAllContainers"}],
            }
        ],
    }
    there = node({"taints": [TAINT], "unschedulable": True}, **{ZONE: "b"})
    (port,) = read_ports(FieldReader("Pod", {}), pod(**asked)["spec"])
    there.pods, there.ports = 2, {port: 1}
    volumes = [BoundVolume("v", None, ((ZONE, frozenset("a")),))]
    mend = {
        "nodeName n2": lambda: asked.pop("nodeName"),
        "unschedulable": lambda: setattr(there, "is_unschedulable", False),
        "taint dedicated=gpu:NoSchedule": lambda: setattr(there, "taints", ()),
        "nodeSelector disk=ssd": lambda: asked.pop("nodeSelector"),
        "ports 80/TCP (in use)": there.ports.clear,
        "pods (0 left of 2)": lambda: setattr(there, "pods", 1),
        "cpu (4 left of 4, 5 requested)": lambda: there.allocatable.update(cpu=5000),
        "memory (8Gi left of 8Gi, 9Gi requested)": lambda: there.allocatable.update(memory=2**40),
        "example.com/x (0 left of 0, 1 requested)": lambda: there.allocatable.update({"example.com/x": 1}),
        "volume v (zone a)": volumes.clear,
        "features RestartAllContainersOnContainerExits": lambda: asked.pop("containers"),
    }
    asked["nodeName"] = "n2"

    told = []
    while found := obstacle(pod(**asked), there, tuple(volumes)):
        told.append(found)
        mend[found]()

    assert told == [*mend]


@pytest.mark.parametrize(
    ("spec", "feature"),
    [
        ({"hostNetwork": True, "hostUsers": False}, "UserNamespacesHostNetworkSupport"),
        (
            {"initContainers": [{"volumeMounts": [{"bindMountOptions": ["noexec"]}]}]},
            "VolumeBindMountOptions",
        ),
        (
            {"containers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            "RestartAllContainersOnContainerExits",
        ),
    ],
)
def test_features_that_a_node_must_declare(spec, feature):
    """What pods of 1.37 may need. Source: k8s.io/component-helpers/nodedeclaredfeatures."""
    assert obstacle(pod(**spec), node()) == f"features {feature}"
    assert obstacle(pod(**spec), node(declared=[feature, "Other"])) is None


def test_volumes_that_a_pod_claims():
    """An ephemeral one has a claim that is named after the pod, and must be made for it."""
    body = pod(
        volumes=[
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "c", "emptyDir": {}},
        ]
    )
    body["metadata"]["uid"] = "u1"

    assert read_requirements(body).volume_claims == (("default", "data", ""), ("default", "p-b", "u1"))


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"nodeName": 1}, "spec.nodeName: 1 is not text: write it in quotes"),
        ({"nodeSelector": {"gpu": True}}, 'spec.nodeSelector["gpu"]: true is not text: write it in quotes'),
        ({"nodeSelector": "gpu"}, 'spec.nodeSelector: "gpu" is not an object'),
        ({"tolerations": {}}, "spec.tolerations: {} is not a list"),
        ({"tolerations": ["gpu"]}, 'spec.tolerations[0]: "gpu" is not an object'),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": {}}}}},
            f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms: {{}} is not a list",
        ),
        (
            {"containers": [{"resources": {"requests": {"cpu": "2 cores"}}}]},
            'spec.containers[0].resources.requests["cpu"]: "2 cores" is not a quantity such as 16Gi or 500m',
        ),
        (
            {"containers": [{"ports": [{"hostPort": "80"}]}]},
            'spec.containers[0].ports[0].hostPort: "80" is not a whole number: write it without quotes',
        ),
        (
            {"hostNetwork": True, "hostUsers": "no"},
            'spec.hostUsers: "no" is not true or false',
        ),
    ],
)
def test_what_cannot_be_read_is_named(spec, problem):
    """Object, field, value and what to do."""
    with pytest.raises(ObjectError) as caught:
        read_requirements(pod(**spec))

    assert str(caught.value) == f'Pod "default/p": {problem}'
