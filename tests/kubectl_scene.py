"""A small cluster for `kubectl dra`: what docs/kubectl.md shows is asked here, and so is what its tests ask.

Three nodes with four GPUs each. In team-a a pod trains on a whole node and a second one waits; in team-b a claim holds
a GPU that no pod uses, and another one the GPU of a node that is gone.
"""

from collections.abc import Iterator
from typing import Any

from controlplane.client import Client

RESOURCE = "/apis/resource.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DRIVER = "gpu.example.com"
PENDING = "dra-operator.io/pending"
FINALIZER = "resource.kubernetes.io/delete-protection"
VIEWER = "vera"
"""May view team-a, and nothing else."""
VIEW = "system:aggregate-to-view"
"""Has the rules of `view`, into which kube-controller-manager copies them where it runs."""
READER = "rita"
"""May also read what is published."""

Body = dict[str, Any]


def node(number: int) -> Body:
    """Return a node that is ready."""
    name = f"node-{number}"
    resources = {"cpu": "32", "memory": "256Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": f"zone-{number % 2}"}},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def resource_slice(number: int) -> Body:
    """Return the GPUs of a node: small ones on the second node, one that is unhealthy on the third."""
    model, memory = ("A10", "24Gi") if number == 2 else ("H100", "80Gi")
    unhealthy = [{"key": "example.com/unhealthy", "effect": "NoSchedule"}]
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {"model": {"string": model}, "uuid": {"string": f"GPU-{number}{index}"}},
            "capacity": {"memory": {"value": memory}},
            **({"taints": unhealthy} if (number, index) == (3, 3) else {}),
        }
        for index in range(4)
    ]
    pool = {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": f"node-{number}", "pool": pool, "devices": devices}
    return {"metadata": {"name": f"node-{number}-{DRIVER}"}, "spec": spec}


def device_class(name: str, expression: str) -> Body:
    """Return a class with one selector."""
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}


def claim_spec(count: int, device_class: str) -> Body:
    """Return the spec of a claim for some devices."""
    return {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class, "count": count}}]
        }
    }


def pod(name: str, node_name: str = "") -> Body:
    """Return a pod that uses the claim of its name."""
    container = {
        "name": "main",
        "image": "none",
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "claims": [{"name": "gpu"}]},
    }
    claims = [{"name": "gpu", "resourceClaimName": name}]
    spec = {"containers": [container], "resourceClaims": claims}
    return {"metadata": {"name": name}, "spec": {**spec, **({"nodeName": node_name} if node_name else {})}}


def allocation(number: int, indexes: Iterator[int] | range) -> Body:
    """Return an allocation of GPUs of a node, made long ago."""
    results = [
        {"request": "gpu", "driver": DRIVER, "pool": f"node-{number}", "device": f"gpu-{index}"}
        for index in indexes
    ]
    field = {"key": "metadata.name", "operator": "In", "values": [f"node-{number}"]}
    return {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "allocationTimestamp": "2026-01-05T08:00:00Z",
    }


def build(client: Client) -> None:
    """Create the cluster."""
    for number in (1, 2, 3):
        client.create("/api/v1/nodes", node(number))
        client.create(f"{RESOURCE}/resourceslices", resource_slice(number))
    any_gpu = f'device.driver == "{DRIVER}"'
    large = f'{any_gpu} && device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) > 0'
    for name, expression in (
        ("gpu", any_gpu),
        ("large-gpu", large),
        ("a10", f'device.attributes["{DRIVER}"].modle == "A10"'),
    ):
        client.create(f"{RESOURCE}/deviceclasses", device_class(name, expression))
    for namespace in ("team-a", "team-b"):
        client.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    template = {"metadata": {"name": "two-gpus"}, "spec": {"spec": claim_spec(2, "large-gpu")}}
    client.create(f"{RESOURCE}/namespaces/team-a/resourceclaimtemplates", template)
    _train(client)
    claims = f"{RESOURCE}/namespaces/team-b/resourceclaims"
    client.create(claims, {"metadata": {"name": "notebook"}, "spec": claim_spec(1, "gpu")})
    _allocate(client, f"{claims}/notebook", {"allocation": allocation(2, range(1))})
    client.create(claims, {"metadata": {"name": "old-job"}, "spec": claim_spec(1, "gpu")})
    _allocate(client, f"{claims}/old-job", {"allocation": allocation(4, range(1))})
    _grant(client)


def _train(client: Client) -> None:
    """Create the pod that trains, and the one that waits."""
    claims, pods = f"{RESOURCE}/namespaces/team-a/resourceclaims", "/api/v1/namespaces/team-a/pods"
    client.create(claims, {"metadata": {"name": "train-0"}, "spec": claim_spec(4, "large-gpu")})
    uid = client.create(pods, pod("train-0", "node-1"))["metadata"]["uid"]
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.patch(f"{pods}/train-0/status", {"status": running})
    user = {"resource": "pods", "name": "train-0", "uid": uid}
    status = {"allocation": allocation(1, range(4)), "reservedFor": [user]}
    _allocate(client, f"{claims}/train-0", status)
    written = "request gpu: 12 devices published, 8 in class large-gpu, 4 in use by claim train-0, 1 tainted"
    waiting = {"name": "train-1", "annotations": {PENDING: written}}
    client.create(claims, {"metadata": waiting, "spec": claim_spec(4, "large-gpu")})
    client.create(pods, pod("train-1"))


def _allocate(client: Client, path: str, status: Body) -> None:
    client.patch(path, {"metadata": {"finalizers": [FINALIZER]}})
    client.patch(f"{path}/status", {"status": status})


def _grant(client: Client) -> None:
    """Let two users view team-a, and one of them read what is published."""
    for user in (VIEWER, READER):
        client.create(f"{RBAC}/namespaces/team-a/rolebindings", _binding("RoleBinding", user, VIEW))
    client.create(f"{RBAC}/clusterrolebindings", _binding("ClusterRoleBinding", READER, "dra-reader"))


def _binding(kind: str, user: str, role: str) -> Body:
    group = "rbac.authorization.k8s.io"
    return {
        "kind": kind,
        "metadata": {"name": f"{user}-{role.rpartition(':')[2]}"},
        "subjects": [{"kind": "User", "name": user, "apiGroup": group}],
        "roleRef": {"kind": "ClusterRole", "name": role, "apiGroup": group},
    }
