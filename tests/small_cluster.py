"""A small cluster to ask about: two nodes with two GPUs each, and templates."""

from typing import Any

from dra_operator import Cluster
from factories import allocation, claim, device_class, manifest, request, resource_slice, result

Body = dict[str, Any]
CLASS = device_class("gpu", 'device.driver == "gpu.example.com"')


def node(name: str, cpu: str = "8", **spec: Any) -> Body:
    """A node that is ready."""
    return manifest(
        "Node",
        name,
        spec,
        status={
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
        uid=name,
        labels={"kubernetes.io/hostname": name},
    )


def devices(on: str, *names: str, memory: str = "40Gi", **fields: Any) -> Body:
    """The devices of a node, all alike."""
    items = [{"name": name, "capacity": {"memory": {"value": memory}}, **fields} for name in names]
    return resource_slice(f"slice-{on}", items, pool=on)


NODES = (
    node("n1"),
    node("n2"),
    devices("n1", "gpu-0", "gpu-1"),
    devices("n2", "gpu-0", "gpu-1", memory="80Gi"),
)


def template(count: int = 1, *expressions: str, name: str = "gpu", **exactly: Any) -> Body:
    """A ResourceClaimTemplate."""
    spec = {"spec": {"devices": {"requests": [request("gpu", "gpu", *expressions, count=count, **exactly)]}}}
    return manifest("ResourceClaimTemplate", name, spec, namespace="team")


def pod(name: str = "train", cpu: str = "1", *, entries: Any = None, uid: str = "", **spec: Any) -> Body:
    """A pod with a claim of the template."""
    default = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    return manifest(
        "Pod",
        name,
        {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}],
            "resourceClaims": default if entries is None else entries,
            **spec,
        },
        namespace="team",
        **({"uid": uid} if uid else {}),
    )


def holding(name: str, on: str, *names: str, **metadata: Any) -> Body:
    """A claim that holds devices."""
    status = {"allocation": allocation(*[result(each, on) for each in names], node=on)}
    return claim(name, request("gpu"), status=status, namespace="team", uid=name, **metadata)


def waiting_pod(**spec: Any) -> tuple[Body, Body]:
    """A pod of the cluster with a claim made for it, and that claim, which has no devices."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "train", "controller": True}
    made = claim("train-gpu-x", request("gpu", "gpu"), namespace="team", uid="x", ownerReferences=[owner])
    asking = pod("train", uid="train", **spec)
    asking["status"] = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "train-gpu-x"}]}
    return made, asking


def cluster(*bodies: Body, **options: Any) -> Cluster:
    """The cluster with some more objects."""
    found = Cluster.load([CLASS, *NODES, *bodies], **options)
    assert found.errors == []
    return found


def names(answer: Any) -> list[tuple[str, list[str]]]:
    """Node and devices of each copy."""
    return [(copy.node, [device.device for device in copy.devices]) for copy in answer.copies]
