"""Builds a scenario: nodes, classes, slices, taint rules, allocated and waiting claims, as plain objects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

Wire = dict[str, Any]

GPU = "gpu.example.com"
NIC = "nic.example.com"
_GROUP = "resource.k8s.io/v1"
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"
MOST_CLAIMS = 300
SLICE_DEVICES = 128
"""How many devices a slice may have; half of that if they consume counters."""


@dataclass(slots=True)
class Scenario:
    """A scenario while it is made."""

    random: Random
    nodes: list[Wire] = field(default_factory=list)
    classes: list[Wire] = field(default_factory=list)
    slices: list[Wire] = field(default_factory=list)
    taint_rules: list[Wire] = field(default_factory=list)
    allocated: list[Wire] = field(default_factory=list)
    claims: list[Wire] = field(default_factory=list)

    def add_nodes(self, count: int) -> list[str]:
        """Add nodes; return their names, which sort by number."""
        names = [f"node-{number:05d}" for number in range(count)]
        for number, name in enumerate(names):
            labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
            self.nodes.append(_object("v1", "Node", {"name": name, "labels": labels}))
        return names

    def add_class(self, name: str, expression: str) -> None:
        """Add a device class that selects by an expression."""
        self.classes.append(_object(_GROUP, "DeviceClass", {"name": name}, {"selectors": [_cel(expression)]}))

    def add_slice(self, name: str, driver: str, pool: str, *, slices: int = 1, **fields: Any) -> None:
        """Add a slice of a pool that has so many slices in all."""
        of_pool = {"name": pool, "generation": 1, "resourceSliceCount": slices}
        self.slices.append(
            _object(_GROUP, "ResourceSlice", {"name": name}, {"driver": driver, "pool": of_pool, **fields})
        )

    def add_taint_rule(self, name: str, selector: Wire, taint: Wire) -> None:
        """Add a rule that taints devices."""
        spec = {"deviceSelector": selector, "taint": taint}
        self.taint_rules.append(_object(_GROUP, "DeviceTaintRule", {"name": name}, spec))

    def use(self, node: str | None, results: Sequence[Wire]) -> None:
        """Add a claim that holds devices already."""
        name = f"holder-{len(self.allocated):06d}"
        claim = _claim(name, [request("r", "gpu", len(results))])
        allocation: Wire = {"devices": {"results": [{"request": "r", **result} for result in results]}}
        if node is not None:
            fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": fields}]}
        self.allocated.append({**claim, "status": {"allocation": allocation}})

    def share(self, node: str | None, driver: str, pool: str, device: str, amounts: Wire) -> None:
        """Add a claim that holds a share of a device already."""
        identity = f"00000000-0000-4000-8000-{len(self.allocated):012x}"
        self.use(node, [device_of(driver, pool, device, shareID=identity, consumedCapacity=amounts)])

    def ask(self, requests: list[Wire], constraints: list[Wire] | None = None) -> Wire:
        """Add a claim to be allocated, and return it."""
        claim = _claim(f"claim-{len(self.claims):05d}", requests, constraints)
        self.claims.append(claim)
        return claim

    def wire(self, name: str) -> Wire:
        """Return the scenario as a row of a file."""
        return {
            "name": name,
            "nodes": self.nodes,
            "deviceClasses": self.classes,
            "resourceSlices": self.slices,
            **({"deviceTaintRules": self.taint_rules} if self.taint_rules else {}),
            "allocated": self.allocated,
            "claims": self.claims,
        }


def _object(version: str, kind: str, metadata: Wire, spec: Wire | None = None) -> Wire:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **({"spec": spec} if spec else {})}


def _cel(expression: str) -> Wire:
    return {"cel": {"expression": expression}}


def _claim(name: str, requests: list[Wire], constraints: list[Wire] | None = None) -> Wire:
    devices: Wire = {"requests": requests}
    if constraints:
        devices["constraints"] = constraints
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return _object(_GROUP, "ResourceClaim", metadata, {"devices": devices})


def wanted(device_class: str, count: int = 1, expression: str | None = None, **fields: Any) -> Wire:
    """Return what a request, or an alternative of one, asks for."""
    asked: Wire = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count, **fields}
    if expression is not None:
        asked["selectors"] = [_cel(expression)]
    return asked


def request(
    name: str, device_class: str, count: int = 1, expression: str | None = None, **fields: Any
) -> Wire:
    """Return a request for a number of devices."""
    return {"name": name, "exactly": wanted(device_class, count, expression, **fields)}


def device_of(driver: str, pool: str, name: str, **fields: Any) -> Wire:
    """Return a device as an allocation names it."""
    return {"driver": driver, "pool": pool, "device": name, **fields}


def gpu(node: str, number: int, model: str) -> Wire:
    """Return a GPU: twelve attributes, two capacities, two GPUs to a PCIe root and four to a NUMA node."""
    h100 = model == "h100"
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu"},
            "uuid": {"string": f"GPU-{node}-{number}"},
            "model": {"string": model},
            "productName": {"string": "H100 80GB HBM3" if h100 else "A100-SXM4-40GB"},
            "brand": {"string": "Example"},
            "architecture": {"string": "Hopper" if h100 else "Ampere"},
            "cudaComputeCapability": {"version": "9.0.0" if h100 else "8.0.0"},
            "driverVersion": {"version": "570.86.15"},
            "index": {"int": number},
            "numaNode": {"int": number // 4},
            "ecc": {"bool": True},
            PCIE_ROOT: {"string": f"pci0000:{number // 2:02x}"},
        },
        "capacity": {
            "memory": {"value": "81559Mi" if h100 else "40960Mi"},
            "multiprocessors": {"value": "132" if h100 else "108"},
        },
    }


def is_model(model: str) -> str:
    """Return a selector for a model of GPU."""
    return f'device.attributes["{GPU}"].model == "{model}"'


def has_memory(mebibytes: int) -> str:
    """Return a selector for so much memory."""
    return f'device.capacity["{GPU}"].memory.compareTo(quantity("{mebibytes}Mi")) >= 0'


def in_slices(devices: list[Wire], most: int = SLICE_DEVICES) -> Iterator[list[Wire]]:
    """Yield the devices in as many parts as it takes slices."""
    return (devices[start : start + most] for start in range(0, len(devices), most))
