"""How long gangs of 64 pods take on 1,000 nodes of 8 devices: `python bench/gangs.py [WORKLOAD …]`.

*equal*: one GPU each, 70 % in use. *mixed*: four kinds of 16 pods, GPU and NIC, half of them of one root, cpu for
three a node. *halves*: exactly 64 halves are free. *short*: 63 are free. *match*: 125 racks of 8 nodes, one has 64
free. *large*: as equal, with 256 pods, once. *handover*: 256 gated pods, the first cycle of the operator and those in
which 16 answers each come in. Times are of the processor; p99 is the longest of 50.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

_FOLDERS: Final = ("tests", "tests/questions", "tests/controller")
sys.path[:0] = [str(Path(__file__).parents[1] / folder) for folder in _FOLDERS]

from test_gangs import DRIVER, GROUP, device_class, devices, node, pod, pod_group, request, template
from test_gated_gangs import GangBench

from dra_operator import Cluster
from dra_operator.pods.gang_assignment import GangAssigner
from dra_operator.questions.gang_members import find_gang
from dra_operator.questions.gangs import explain_gang

WORKLOADS: Final = ("equal", "mixed", "halves", "short", "match", "large", "handover")
_NODES: Final = 1000
_PODS: Final = 64
_ROUNDS: Final = 50


def _node_of(kind: str, number: int, random: Random) -> Iterator[Any]:
    name = f"n{number:04}"
    yield node(name, cpu="3" if kind == "mixed" else "64")
    used: list[str] = []
    if kind == "halves":
        yield from devices(
            name, ("w", "whole", {}, 2), ("h0", "half", {}, 1), ("h1", "half", {}, 1), counters=2
        )
        used = [] if number % 31 == 0 and number // 31 < _PODS // 2 else ["w"]
    else:
        names = [f"g{each}" for each in range(8)]
        rail = {"rail": f"r{number // 8}"}
        items = [(each, "gpu", {"root": each[1:], **rail}, 0) for each in names]
        items += [(f"c{each}", "nic", {"root": str(each)}, 0) for each in range(8 * (kind == "mixed"))]
        yield from devices(name, *items)
        if kind in ("equal", "mixed", "large"):
            used = [each for each in names if random.random() < 0.7]
        elif kind == "short":
            used = names[8 if number in range(100, 107) else 7 if number == 500 else 0 :]
        elif number // 8 != 77:
            used = names[: random.choice((1, 2, 3))]
    if used:
        results = [{"request": "gpu", "driver": DRIVER, "pool": name, "device": each} for each in used]
        body = template(f"held-{name}", request("gpu", "gpu"))
        status = {"allocation": {"devices": {"results": results}}}
        yield {**body, "kind": "ResourceClaim", "spec": body["spec"]["spec"], "status": status}


def make_world(kind: str) -> Cluster:
    """Return the cluster of a workload with its gang."""
    random = Random(1)  # noqa: S311 - the same world each time
    bodies = [device_class(each, each) for each in ("gpu", "nic", "half")]
    for number in range(_NODES):
        bodies += _node_of(kind, number, random)
    root = {"matchAttribute": f"{DRIVER}/root"}
    for number in range(4):
        requests = [
            request("gpu", "half" if kind == "halves" else "gpu", 2 if kind == "mixed" and number > 1 else 1)
        ]
        requests += [request("nic", "nic")] if kind == "mixed" else []
        bodies.append(
            template(f"t{number}", *requests, constraints=[root] if kind == "mixed" and number < 2 else [])
        )
    annotations = {"dra-operator.io/gang-match": f"{DRIVER}/rail"} if kind == "match" else {}
    bodies.append(pod_group())
    for number in range(256 if kind == "large" else _PODS):
        own = f"t{number % 4 if kind == 'mixed' else 0}"
        bodies.append(pod(f"p{number}", [own], annotations=annotations))
    return Cluster.load(bodies)


def hand_over() -> None:
    """Measure the cycles in which 256 pods are decided and let go, on 100 nodes of 8 devices."""
    bench, chance, times = GangBench(nodes=100, devices=8), Random(1), []  # noqa: S311
    for number in range(256):
        bench.create(f"p{number}", "256")
    while not times or bench.gated():
        bench.operator.tell(len(bench.server.events))
        bench.clock.now += 0.02
        started = time.process_time()
        bench.operator.run()
        times.append(1000 * (time.process_time() - started))
        for _ in range(16):
            bench.operator.send_one(chance)
    first, *rest = times
    print(
        f"handover: first cycle {first:.0f} ms; {len(rest)} more, {sum(rest):.0f} ms, the longest {max(rest):.0f} ms"
    )


def main() -> None:
    """Measure the workloads that are named, or all."""
    for kind in sys.argv[1:] or WORKLOADS:
        if kind == "handover":
            hand_over()
            continue
        state, gang = find_gang(make_world(kind), GROUP)
        times = []
        for _ in range(2 if kind == "large" else _ROUNDS + 1):
            started = time.process_time()
            found = GangAssigner(state.allocators, state.placement).assign(gang)
            times.append(1000 * (time.process_time() - started))
        first, *rest = times
        started = time.process_time()
        answer = explain_gang(state, GROUP)
        explained = time.process_time() - started
        rest.sort()
        print(
            f"{kind}: {type(found).__name__}, {answer.fitting} of {len(gang.members)}; first {first:.0f} ms, median "
            f"{rest[len(rest) // 2]:.0f} ms, p99 {rest[-1]:.0f} ms; explanation {explained:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
