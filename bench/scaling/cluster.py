"""A large cluster: nodes with eight GPUs each, and claims of which most have their devices already.

Devices carry what GPU drivers publish, among it a UUID, so that no two are alike, and every object carries the
managedFields that a real API server adds. The same numbers give the same cluster.
"""

from collections.abc import Iterator
from typing import Any

from dra_operator.api.names import FINALIZER

Body = dict[str, Any]

API_VERSION = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
NAMESPACE = "default"
DEVICES = 8
_CREATED = "2026-11-01T08:00:00Z"


def node_name(number: int) -> str:
    """Return the name of a node; names sort as numbers do."""
    return f"node-{number:05d}"


def device_class() -> Body:
    """Return the class of all devices."""
    selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
    return _object("DeviceClass", {"name": DRIVER}, {"spec": {"selectors": selectors}})


def nodes(count: int) -> Iterator[Body]:
    """Yield the nodes of the cluster."""
    return (node(number) for number in range(count))


def node(number: int) -> Body:
    """Return a ready node as a kubelet reports it."""
    name = node_name(number)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/zone": f"zone-{number % 3}",
    }
    conditions = [
        {"type": kind, "status": status, "lastHeartbeatTime": _CREATED, "reason": "Kubelet"}
        for kind, status in (("MemoryPressure", "False"), ("DiskPressure", "False"), ("Ready", "True"))
    ]
    resources = {"cpu": "96", "memory": "1Ti", "pods": "110"}
    status = {"allocatable": resources, "capacity": resources, "conditions": conditions}
    body = _object("Node", {"name": name, "labels": labels}, {"spec": {}, "status": status})
    return {**body, "apiVersion": "v1"}


def slices(count: int) -> Iterator[Body]:
    """Yield the slice of each node."""
    return (resource_slice(node_name(number)) for number in range(count))


def slice_name(node: str) -> str:
    """Return the name of the slice of a node."""
    return f"{node}-{DRIVER}"


def resource_slice(node: str, *, generation: int = 1, marked: str = "") -> Body:
    """Return the slice of a node; `marked` is the model of its last device instead of the usual one."""
    devices = [device(node, index) for index in range(DEVICES)]
    if marked:
        devices[-1]["attributes"]["model"] = {"string": marked}
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    return _object("ResourceSlice", {"name": slice_name(node)}, {"spec": spec})


def device(node: str, index: int) -> Body:
    """Return a GPU: fourteen attributes, two capacities."""
    return {
        "name": f"gpu-{index}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node}-{index}"},
            "model": {"string": "h100"},
            "productName": {"string": "H100 80GB HBM3"},
            "brand": {"string": "Example"},
            "architecture": {"string": "Hopper"},
            "cudaComputeCapability": {"version": "9.0.0"},
            "cudaDriverVersion": {"version": "12.8.0"},
            "driverVersion": {"version": "570.86.15"},
            "index": {"int": index},
            "numaNode": {"int": index // 4},
            "ecc": {"bool": True},
            "pcieBusID": {"string": f"0000:{index:02x}:00.0"},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{index // 2:02x}"},
        },
        "capacity": {"memory": {"value": "81559Mi"}, "multiprocessors": {"value": "132"}},
    }


def claim(name: str, expression: str = "") -> Body:
    """Return a claim for one device, with a selector of its own if one is given."""
    exactly: Body = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    devices = {"requests": [{"name": "gpu", "exactly": exactly}]}
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": "train"}}
    return _object("ResourceClaim", metadata, {"spec": {"devices": devices}})


def has_model(model: str) -> str:
    """Return a selector for a model."""
    return f'device.attributes["{DRIVER}"].model == "{model}"'


def claims(count: int, allocated: int, *, nodes: int) -> Iterator[Body]:
    """Yield claims of which the first so many hold a device each, spread over the nodes.

    Raises ValueError if there are fewer devices.
    """
    if allocated > nodes * DEVICES:
        raise ValueError(f"{allocated} claims cannot hold {nodes * DEVICES} devices")
    for number in range(count):
        body = claim(f"claim-{number:06d}")
        if number < allocated:
            index, position = divmod(number, nodes)
            body["metadata"]["finalizers"] = [FINALIZER]
            body["status"] = {"allocation": _allocation(node_name(position), f"gpu-{index}")}
        yield body


def _allocation(node: str, device: str) -> Body:
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    return {
        "allocationTimestamp": _CREATED,
        "devices": {"results": [{"request": "gpu", "driver": DRIVER, "pool": node, "device": device}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }


def bound_pod(number: int, *, nodes: int, turn: int = 0) -> Body:
    """Return a running pod without claims, of one of a hundred workloads; `turn` is in a label."""
    workload = f"web-{number % 100:02d}"
    requests = {"cpu": f"{100 + number % 100}m", "memory": "128Mi"}
    container = {"name": "main", "image": "example.com/web:1", "resources": {"requests": requests}}
    metadata = {"name": f"{workload}-{number:06d}", "namespace": NAMESPACE, "labels": {"turn": str(turn)}}
    spec = {"nodeName": node_name(number % nodes), "containers": [container]}
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    return {**_object("Pod", metadata, {"spec": spec, "status": status}), "apiVersion": "v1"}


def waiting_pod(job: int, number: int) -> tuple[Body, Body]:
    """Return a pod of a Job that waits, and its claim, as the claim controller made it; no device suits the Job."""
    name = f"job-{job:02d}-{number:04d}"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": True}
    body = claim(f"{name}-gpu", has_model(f"none-{job}"))
    body["metadata"] |= {
        "ownerReferences": [owner],
        "annotations": {"resource.kubernetes.io/pod-claim-name": "gpu"},
    }
    controller = {"apiVersion": "batch/v1", "kind": "Job", "name": f"job-{job:02d}", "uid": f"job-{job}"}
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": name,
        "ownerReferences": [{**controller, "controller": True}],
    }
    container = {"name": "main", "image": "example.com/train:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": f"job-{job:02d}"}],
    }
    status = {
        "phase": "Pending",
        "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}],
    }
    pod = {**_object("Pod", metadata, {"spec": spec, "status": status}), "apiVersion": "v1"}
    return pod, body


def _object(kind: str, metadata: Body, rest: Body) -> Body:
    manager = {
        "manager": "driver",
        "operation": "Update",
        "apiVersion": API_VERSION,
        "time": _CREATED,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:devices": {}}},
    }
    metadata = {**metadata, "creationTimestamp": _CREATED, "managedFields": [manager]}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, **rest}
