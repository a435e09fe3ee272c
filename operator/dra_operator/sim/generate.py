"""Clusters made to measure: nodes, slices of devices, classes and claims, as bodies of resource.k8s.io/v1.

The same arguments give the same cluster: no randomness, no clock. Names sort as numbers do (`node-00042`), which keeps
"first node by name" easy to read in a result.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

Body = dict[str, Any]

API_VERSION = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """What every device of a kind is like. `memory` is a quantity."""

    name: str = "h100"
    memory: str = "80Gi"
    version: str = "1.2.0"
    taint: str = ""
    """The key of a NoSchedule taint, empty for none."""


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How large a cluster is: `nodes` with one slice of `devices` each, all of one driver, in turn of each model."""

    nodes: int = 10
    devices: int = 8
    driver: str = DRIVER
    models: tuple[DeviceModel, ...] = (DeviceModel(),)


def node_name(number: int) -> str:
    """Return the name of a node."""
    return f"node-{number:05d}"


def node(name: str, *, labels: dict[str, str] | None = None) -> Body:
    """Return a ready node."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {
            "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"},
            "capacity": {"cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def device(index: int, model: DeviceModel = DeviceModel()) -> Body:
    """Return a device with the attributes and capacities that GPU drivers publish."""
    found: Body = {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "model": {"string": model.name},
            "index": {"int": index},
            "numa": {"int": index // 4},
            "driverVersion": {"version": model.version},
            "healthy": {"bool": True},
        },
        "capacity": {"memory": {"value": model.memory}, "multiprocessors": {"value": "132"}},
    }
    if model.taint:
        found["taints"] = [{"key": model.taint, "effect": "NoSchedule"}]
    return found


def resource_slice(
    node_of: str, devices: list[Body], *, driver: str = DRIVER, generation: int = 1, pool: str = ""
) -> Body:
    """Return the one slice of a node's pool."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_of}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_of,
            "pool": {"name": pool or node_of, "generation": generation, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def device_class(name: str = DRIVER, *selectors: str) -> Body:
    """Return a class; without selectors, the devices of the driver of its name."""
    expressions = selectors or (f'device.driver == "{name}"',)
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": expression}} for expression in expressions]},
    }


def claim(
    name: str,
    *selectors: str,
    namespace: str = "default",
    class_name: str = DRIVER,
    count: int = 1,
) -> Body:
    """Return a claim with one request, `gpu`."""
    exactly: Body = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    if selectors:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in selectors]
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def nodes(shape: ClusterShape) -> Iterator[Body]:
    """Yield the nodes of a cluster."""
    return (node(node_name(number)) for number in range(shape.nodes))


def slices(shape: ClusterShape, *, generation: int = 1) -> Iterator[Body]:
    """Yield the slices of a cluster, one a node."""
    for number in range(shape.nodes):
        model = shape.models[number % len(shape.models)]
        devices = [device(index, model) for index in range(shape.devices)]
        yield resource_slice(node_name(number), devices, driver=shape.driver, generation=generation)


def cluster(shape: ClusterShape) -> Iterator[Body]:
    """Yield everything of a cluster but claims: the class, the nodes, the slices."""
    return chain([device_class(shape.driver)], nodes(shape), slices(shape))


def claims(
    count: int, *, namespace: str = "default", class_name: str = DRIVER, devices: int = 1
) -> Iterator[Body]:
    """Yield claims for a number of devices each."""
    for number in range(count):
        yield claim(f"claim-{number:05d}", namespace=namespace, class_name=class_name, count=devices)
