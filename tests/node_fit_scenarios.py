"""Random nodes and pods as on the wire, all of which an API server takes, small enough that many do not fit."""

from random import Random
from typing import Any

Body = dict[str, Any]

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
FEATURES = (
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)
_TAINTS = (
    {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "db", "effect": "NoExecute"},
    {"key": "maintenance", "effect": "NoSchedule"},
    {"key": "slow", "effect": "PreferNoSchedule"},
)
_TOLERATIONS = (
    {"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "maintenance", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
)
_EXPRESSIONS = (
    {"key": "disk", "operator": "In", "values": ["ssd", "nvme"]},
    {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
    {"key": "disk", "operator": "Exists"},
    {"key": "disk", "operator": "DoesNotExist"},
    {"key": "size", "operator": "Gt", "values": ["3"]},
    {"key": "size", "operator": "Lt", "values": ["8"]},
    {"key": ZONE, "operator": "In", "values": ["a"]},
)
_AMOUNTS = {
    "cpu": ("100m", "250m", "0.3", "1", "1500m"),
    "memory": ("64Mi", "128974848", "1Gi", "0.5Gi", "900M"),
    "ephemeral-storage": ("1Gi", "2G"),
    "example.com/dongle": ("1", "2"),
}


def random_node(random: Random, name: str) -> Body:
    """Return a node with some labels, taints and features, and something of each resource, or little."""
    labels = {HOSTNAME: name}
    for key, values in (("disk", ("ssd", "hdd", "")), ("size", ("2", "4", "16", "x")), (ZONE, ("a", "b"))):
        if random.random() < 0.7:
            labels[key] = random.choice(values)
    allocatable = {"pods": random.choice(("3", "8", "110"))}
    for resource, amounts in (
        ("cpu", ("2", "3900m", "8")),
        ("memory", ("2Gi", "3100Mi", "8G")),
        ("ephemeral-storage", ("3Gi", "20Gi")),
        ("example.com/dongle", ("2", "4")),
        ("hugepages-2Mi", ("0", "64Mi")),
    ):
        if random.random() < 0.9:
            allocatable[resource] = random.choice(amounts)
    spec: Body = {}
    if random.random() < 0.4:
        taint = random.choice(_TAINTS)
        spec["taints"] = [taint, *([_TAINTS[3]] if taint is not _TAINTS[3] else [])]
    if random.random() < 0.15:
        spec["unschedulable"] = True
    status = {
        "allocatable": allocatable,
        "capacity": allocatable,
        "declaredFeatures": sorted(random.sample(FEATURES, random.randint(0, 2))),
    }
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status}


def random_pod(random: Random, name: str, namespace: str, volume_claims: tuple[str, ...] = ()) -> Body:
    """Return a pod without a node, with a few of everything that a node must have for it."""
    spec: Body = {
        "terminationGracePeriodSeconds": 0,
        "containers": [_container(random, f"c{number}") for number in range(random.randint(1, 2))],
    }
    if random.random() < 0.4:
        spec["initContainers"] = [
            _init_container(random, f"i{number}") for number in range(random.randint(1, 2))
        ]
    # The API server takes no port twice in one pod.
    for number in random.sample((8080, 8081), random.choice((0, 0, 0, 1, 2))):
        container = random.choice([*spec["containers"], *spec.get("initContainers", [])])
        container.setdefault("ports", []).append(_port(random, number))
    if random.random() < 0.25:
        spec["nodeSelector"] = random.choice(({"disk": "ssd"}, {ZONE: "a"}, {"disk": "ssd", ZONE: "b"}))
    if random.random() < 0.3:
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": _terms(random)}}}
    if random.random() < 0.6:
        spec["tolerations"] = random.sample(_TOLERATIONS, random.randint(1, 3))
    if random.random() < 0.2:
        # Validation wants no less than the containers ask for, the largest of which is 2 * 1500m + 1500m.
        spec["resources"] = {"requests": {"cpu": random.choice(("6", "6500m"))}}
        if random.random() < 0.5:
            spec["resources"]["limits"] = {"memory": random.choice(("5Gi", "6Gi"))}
    if volume_claims and random.random() < 0.25:
        source = {"claimName": random.choice(volume_claims)}
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": source}]
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _terms(random: Random) -> list[Body]:
    return [
        {"matchExpressions": random.sample(_EXPRESSIONS, random.randint(1, 2))}
        for _ in range(random.randint(1, 2))
    ]


def _container(random: Random, name: str) -> Body:
    container: Body = {"name": name, "image": "none", "resources": _resources(random)}
    if random.random() < 0.1:
        rule = {
            "action": "RestartAllContainers",
            "exitCodes": {"operator": "In", "values": [42]},
        }
        container |= {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    return container


def _init_container(random: Random, name: str) -> Body:
    container: Body = {"name": name, "image": "none", "resources": _resources(random)}
    if random.random() < 0.5:
        container["restartPolicy"] = "Always"
    return container


def _resources(random: Random) -> Body:
    requests = {
        resource: random.choice(amounts)
        for resource, amounts in _AMOUNTS.items()
        if random.random() < (0.15 if "/" in resource else 0.5)
    }
    found: Body = {"requests": requests}
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    if random.random() < 0.3:
        limits["memory"] = requests.setdefault("memory", "256Mi")
    if random.random() < 0.15:
        # What has a limit alone requests as much.
        limits["cpu"] = "1"
        requests.pop("cpu", None)
    if random.random() < 0.1:
        requests.setdefault("memory", "64Mi")
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = "32Mi"
    return found | ({"limits": limits} if limits else {})


def _port(random: Random, number: int) -> Body:
    port: Body = {"containerPort": number, "hostPort": number}
    if random.random() < 0.4:
        port["hostIP"] = random.choice(("10.0.0.1", "10.0.0.2", "0.0.0.0"))  # noqa: S104 - stands for all
    if random.random() < 0.3:
        port["protocol"] = "UDP"
    return port


def bound(pod: Body, node: str) -> Body:
    """Return the pod on a node."""
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": "Running"}}
