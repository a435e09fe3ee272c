"""Workloads by name: a shape and a size."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from workloads.devices import bare_full, bare_half, network, shared_nics
from workloads.fabric import fabric
from workloads.gpus import (
    admin,
    aligned,
    cluster,
    first_available,
    roomy,
    scarce,
    selector,
    threshold,
    tolerations,
    wide_pool,
)
from workloads.hard import hard_distinct, hard_late, hard_match
from workloads.mixed import mixed
from workloads.partitions import partitions
from workloads.pods import pods
from workloads.processors import cpus
from workloads.related import apart, lists, shared_pair, together
from workloads.scenario import Scenario, Wire
from workloads.shares import fleets, models, policies
from workloads.virtual import paid, virtual


@dataclass(frozen=True, slots=True)
class Shape:
    """How scenarios of a shape are made, the sizes that are measured, and the digits of a size in a name."""

    make: Callable[[Scenario, int], None]
    sizes: tuple[int, ...]
    digits: int = 5


SHAPES = {
    "cluster": Shape(cluster, (10, 100, 1000, 5000)),
    "roomy": Shape(roomy, (100, 1000)),
    "threshold": Shape(threshold, (1000,)),
    "selector": Shape(selector, (1000,)),
    "scarce": Shape(scarce, (1000,)),
    "tolerations": Shape(tolerations, (100, 1000)),
    "schedperf-half": Shape(bare_half, (100, 500, 5000)),
    "schedperf-full": Shape(bare_full, (500,)),
    "firstavail": Shape(first_available, (10, 100, 1000)),
    "admin": Shape(admin, (100, 1000)),
    "aligned": Shape(aligned, (100, 1000)),
    "sharednic": Shape(shared_nics, (10, 100, 1000)),
    "together": Shape(together, (100, 1000)),
    "apart": Shape(apart, (100, 1000)),
    "lists": Shape(lists, (100, 1000)),
    "sharedpair": Shape(shared_pair, (100, 1000)),
    "policies": Shape(policies, (100, 1000)),
    "models": Shape(models, (100, 1000)),
    "fleets": Shape(fleets, (100, 1000)),
    "virtual": Shape(virtual, (100, 1000)),
    "paid": Shape(paid, (100, 1000)),
    "cpus": Shape(cpus, (100, 1000)),
    "mixed": Shape(mixed, (10, 100, 1000)),
    "mig": Shape(partitions, (1, 10, 100, 1000)),
    "pod-2": Shape(pods(2, 0.3), (100, 1000)),
    "pod-4": Shape(pods(4, 0.3), (100, 1000)),
    "pod-2-tight": Shape(pods(2, 0.6), (100, 1000)),
    "pod-4-tight": Shape(pods(4, 0.6), (100, 1000)),
    "network": Shape(network, (128, 1024, 8192)),
    "fabric": Shape(fabric, (100, 1000)),
    "widepool": Shape(wide_pool, (10, 100, 1000)),
    "hard-late": Shape(hard_late, (12, 24, 48), 2),
    "hard-distinct": Shape(hard_distinct, (3, 6, 12), 2),
    "hard-match": Shape(hard_match, (4, 8, 16), 2),
}


def names() -> list[str]:
    """Return the workloads that are measured, shape by shape from small to large."""
    return [f"{name}-{size:0{shape.digits}d}" for name, shape in SHAPES.items() for size in shape.sizes]


def check(name: str) -> None:
    """Raise ValueError for a shape that is not known or a size that is no number."""
    shape, _, size = name.rpartition("-")
    if shape not in SHAPES or not size.isdecimal() or int(size) < 1:
        raise ValueError(f"workload {name!r} is not known; shapes are {', '.join(SHAPES)}, followed by -SIZE")


def workload(name: str, *, seed: int = 1) -> Wire:
    """Return the scenario of a name. Raises ValueError for a name that `check` refuses."""
    check(name)
    shape, _, size = name.rpartition("-")
    scenario = Scenario(Random(seed))  # noqa: S311 - the same each time
    SHAPES[shape].make(scenario, int(size))
    return scenario.wire(name)


def write(name: str, folder: Path, *, seed: int = 1) -> Path:
    """Write a workload to a file of one line, unless it is there; return the path."""
    path = folder / f"{name}.{seed}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part")
        scratch.write_text(json.dumps(workload(name, seed=seed), separators=(",", ":")) + "\n")
        scratch.replace(path)
    return path
