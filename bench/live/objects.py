"""The objects of the benchmarks: equal nodes with equal devices, and claims for one device each."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dra_operator.api.names import PENDING_ANNOTATION

API = "/apis/resource.k8s.io/v1"
CLASS = "gpu.example.com"

Body = dict[str, Any]


def device_class() -> Body:
    """Return the class that every claim asks for."""
    selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": CLASS},
        "spec": {"selectors": [selector]},
    }


def node(name: str) -> Body:
    """Return a node with room for many small pods, which is Ready for as long as nobody looks after it."""
    room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Benchmark"}],
        },
    }


def resource_slice(name: str, devices: int) -> Body:
    """Return the slice of a node: one pool with equal devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{CLASS}"},
        "spec": {
            "driver": CLASS,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {"model": {"string": "h100"}, "index": {"int": index}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for index in range(devices)
            ],
        },
    }


def claim(name: str) -> Body:
    """Return a claim for one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}},
    }


def pod(claim_name: str) -> Body:
    """Return a pod that uses a claim and nothing else."""
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": claim_name},
        "spec": {
            "containers": [container],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
    }


def allocation_of(body: Body) -> Body | None:
    """Return the allocation of a claim, None if it has none."""
    found: Body | None = (body.get("status") or {}).get("allocation")
    return found


def is_told(claim: Body) -> bool:
    """Tell whether a claim says why it waits."""
    return PENDING_ANNOTATION in (claim["metadata"].get("annotations") or {})


@dataclass(frozen=True, slots=True)
class Counts:
    """How many claims are allocated, pending with a reason, neither, and how many devices were given twice."""

    allocated: int
    pending: int
    neither: int
    doubled: int


def judge(claims: Iterable[Body]) -> Counts:
    """Count what has become of claims."""
    devices: Counter[tuple[str, str, str]] = Counter()
    allocated = pending = neither = 0
    for one in claims:
        allocation = allocation_of(one)
        if allocation:
            allocated += 1
            devices.update((r["driver"], r["pool"], r["device"]) for r in allocation["devices"]["results"])
        elif is_told(one):
            pending += 1
        else:
            neither += 1
    return Counts(allocated, pending, neither, sum(count - 1 for count in devices.values()))
