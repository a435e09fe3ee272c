"""Measures how long the library takes to answer, once a cluster is loaded.

    python bench/questions.py             # 1,000 nodes with 8 devices for fit and headroom, 5,000 for explain
    python bench/questions.py --runs 3

Half of the devices are in use. Of each question the median of some runs is printed, the first of them apart: it finds
out what later ones know. Times are those of the processor, as others may use the machine.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import factories
from dra_operator import Cluster

DEVICES = 8
NAMESPACE = "team"


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=9, help="how often each question is asked")
    runs = parser.parse_args().runs
    cluster = load(1000)
    measure("fit of 64 claims", runs, lambda: cluster.fit(template(), 64))
    measure("fit of 64 pods", runs, lambda: cluster.fit([template(), pod()], 64))
    measure("headroom of a class", runs, lambda: cluster.headroom("DeviceClass/gpu"))
    cluster = load(5000)
    for name in ("none-matches", "too-many"):
        subject = f"ResourceClaim/{NAMESPACE}/{name}"
        measure(f"explain {name}", runs, lambda subject=subject: cluster.explain(subject, None))  # type: ignore[misc]
        measure(f"explain {name}, with changes", runs, lambda subject=subject: cluster.explain(subject))  # type: ignore[misc]


def measure(what: str, runs: int, ask: Callable[[], Any]) -> None:
    """Ask a question some times, and print how long it took."""
    times: list[float] = []
    for _ in range(runs):
        started = time.process_time()
        ask()
        times.append((time.process_time() - started) * 1000)
    print(f"{what}: first {times[0]:.0f} ms, median {statistics.median(times):.1f} ms")


def load(nodes: int) -> Cluster:
    """Return a cluster of so many nodes with devices, half of which are in use."""
    objects: list[dict[str, Any]] = [factories.device_class("gpu", 'device.driver == "gpu.example.com"')]
    for number in range(nodes):
        objects += _node(f"node-{number:04}")
    memory = 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("80Gi"))'
    objects += [
        _claim("none-matches", factories.request("gpu", "gpu", memory)),
        _claim("too-many", factories.request("gpu", "gpu", count=6, allocationMode="ExactCount")),
    ]
    started = time.process_time()
    cluster = Cluster.load(objects)
    print(f"load {len(objects)} objects, {nodes * DEVICES} devices: {time.process_time() - started:.2f} s")
    return cluster


def _node(name: str) -> list[dict[str, Any]]:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    devices = [
        {"name": f"gpu-{index}", "capacity": {"memory": {"value": "40Gi"}}} for index in range(DEVICES)
    ]
    published = factories.resource_slice(f"slice-{name}", devices, pool=name)
    published["metadata"]["uid"] = name
    held = [
        _claim(
            f"{name}-{index}",
            factories.request(),
            status={"allocation": factories.allocation(factories.result(f"gpu-{index}", name), node=name)},
        )
        for index in range(DEVICES // 2)
    ]
    return [node, published, *held]


def _claim(name: str, request: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return factories.claim(name, request, namespace=NAMESPACE, uid=name, **fields)


def template() -> dict[str, Any]:
    """Return a template of claims for two devices."""
    spec = {"spec": {"devices": {"requests": [factories.request("gpu", "gpu", count=2)]}}}
    return factories.manifest("ResourceClaimTemplate", "gpu", spec, namespace=NAMESPACE)


def pod() -> dict[str, Any]:
    """Return a pod with such a claim."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": NAMESPACE},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "20"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
        },
    }


if __name__ == "__main__":
    main()
