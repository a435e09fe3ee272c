"""Races between the operator's hand-over and kube-scheduler: nodes that are filled, and a scheduler that stands still.

    python bench/gated_races.py fill                     # 200 gated pods, an ordinary pod for each chosen node
    python bench/gated_races.py stop                     # kube-scheduler is stopped for 120 s while it binds

fill: a node has the devices for one gated pod. As soon as the watch shows that one got them, an ordinary pod without
claims is created, which fits on that node only as long as the gated pod does not count there. Pods that lose the race
are handed back; the exit code is 1 if those are 2 % or more. How many there are without nominations cannot be measured
with a kube-scheduler of 1.35 or newer, which heeds them whatever its feature gates say.

stop: kube-scheduler may send so few requests that pods wait between Reserve and PreBind; so it is stopped (SIGSTOP).
The operator is killed and started again meanwhile, and hands pods back after ten seconds, if it has evidence.

The exit code is also 1 for whatever bench/gated_crashes.py calls a fault, as a pod on another node than its claims.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coexistence.stage import SCHEDULERS, running_plane, sum_of
from coexistence.workload import is_bound
from handover.fleet import NODE_CPU, PODS, Fleet, filler, pod
from handover.stage import Stage, node_of, set_up
from live.client import for_each
from live.objects import Body, allocation_of

CLAIMS_OF_POD = 2
CPU = 8
"""What a gated pod asks for; an ordinary pod asks for one more than that leaves of a node."""
MOST_HANDED_BACK = 0.02
SHOWN = 10


class Fillers:
    """Creates an ordinary pod for each node on which a gated pod got devices, as soon as that is seen."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._seen: set[str] = set()
        self._tasks: set[asyncio.Task[float]] = set()

    async def run(self) -> None:
        """Follow the claims until cancelled."""
        while True:
            for claim in [*self._stage.observer.claims.by_name.values()]:
                if (allocation := allocation_of(claim)) is not None:
                    self._fill(allocation["devices"]["results"][0]["pool"])
            await asyncio.sleep(0.002)

    def _fill(self, node: str) -> None:
        if node in self._seen:
            return
        self._seen.add(node)
        body = filler(f"filler-{node}", node, str(NODE_CPU - CPU + 1))
        task = asyncio.create_task(self._stage.cluster.create(PODS, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._seen)


def gated_pods(count: int) -> list[Body]:
    """Return gated pods that fill the owned devices of a node each."""
    return [
        pod(f"gated-{number:03}", claims=CLAIMS_OF_POD, is_gated=True, cpu=str(CPU))
        for number in range(count)
    ]


def own_pods(stage: Stage) -> list[Body]:
    """Return the gated pods, and those that were."""
    return [
        body for body in stage.observer.pods.by_name.values() if body["metadata"]["name"].startswith("gated-")
    ]


async def fill(stage: Stage, arguments: argparse.Namespace) -> list[str]:
    """Create gated pods one after the other, and an ordinary one for each of their nodes; return what was wrong."""
    fillers = Fillers(stage)
    following = asyncio.create_task(fillers.run())
    for body in gated_pods(arguments.pods):
        await stage.cluster.create(PODS, body)
        await asyncio.sleep(arguments.pause)
    operator = stage.operators.running["operator-a"]

    async def handed_back() -> float:
        text = (await asyncio.to_thread(operator.http, "/metrics"))[1]
        return sum_of(text, "dra_operator_handed_back_pods_total")

    deadline, back = time.monotonic() + 300, 0.0
    while time.monotonic() < deadline:
        back = await handed_back()
        if sum(map(is_bound, own_pods(stage))) + back >= arguments.pods:
            break
        await asyncio.sleep(1)
    following.cancel()
    bound = sum(map(is_bound, own_pods(stage)))
    filled = sum(
        is_bound(body)
        for body in stage.observer.pods.by_name.values()
        if body["metadata"]["name"].startswith("filler-")
    )
    print(
        f"{arguments.pods} gated pods, {bound} bound, {back:.0f} handed back"
        f" ({100 * back / arguments.pods:.1f} %); {fillers.count} ordinary pods for their nodes, {filled} of them bound"
    )
    faults = await lost_pods(stage, arguments.pods - bound - round(back))
    if back >= MOST_HANDED_BACK * arguments.pods:
        faults.append(f"{back:.0f} of {arguments.pods} pods were handed back")
    return faults


async def stop(stage: Stage, arguments: argparse.Namespace) -> list[str]:
    """Stop kube-scheduler while pods are in their binding cycles; return what was wrong."""
    await for_each(gated_pods(arguments.pods), lambda body: stage.cluster.create(PODS, body))
    await stage.until(lambda: stage.judge.let_go >= arguments.pods, seconds=300)
    await stage.until(lambda: any(map(is_bound, own_pods(stage))), seconds=120)
    binding = await stage.scheduler_metric("scheduler_goroutines", 'operation="binding"')
    stage.scheduler.send(signal.SIGSTOP)
    before = sum(map(is_bound, own_pods(stage)))
    print(
        f"stopped: {before} of {arguments.pods} pods bound, {binding:.0f} in their binding cycles", flush=True
    )
    try:
        await asyncio.sleep(arguments.seconds / 2)
        stage.operators.kill("operator-a")
        stage.operators.start("operator-a")
        await asyncio.sleep(arguments.seconds / 2)
    finally:
        stage.scheduler.send(signal.SIGCONT)
    await stage.until(lambda: all(map(is_bound, own_pods(stage))), seconds=300)
    bound = sum(map(is_bound, own_pods(stage)))
    print(f"{arguments.seconds:.0f} s later it goes on: {bound} of {arguments.pods} pods bound")
    faults = await lost_pods(stage, arguments.pods - bound)
    if binding < 2:
        faults.append("no pod was in its binding cycle: nothing is proved")
    return faults


async def lost_pods(stage: Stage, count: int) -> list[str]:
    """Return the pods that are neither bound nor handed back, if there are any, each with its last Event."""
    if count <= 0:
        return []
    events = await stage.events()
    return [
        f"{name} is not bound: {(events.get(name) or ['no Event'])[-1]}"
        for name in (body["metadata"]["name"] for body in own_pods(stage) if not node_of(body))
    ]


async def run(arguments: argparse.Namespace) -> bool:
    """Run on a control plane of its own; return whether all was right."""
    is_fill = arguments.race == "fill"
    connection = SCHEDULERS[arguments.limits] if is_fill else {"qps": 2, "burst": 2}
    fleet = Fleet(arguments.pods + arguments.pods // 2, 2 * CLAIMS_OF_POD)
    flags = ("--handback-seconds=10",)
    with running_plane() as plane:
        async with set_up(plane, fleet, connection=connection, flags=flags) as stage:
            faults = await (fill if is_fill else stop)(stage, arguments)
            await stage.rest(quiet=3, seconds=30)
            faults += stage.judge.faults()
    print(f"{len(faults)} faults")
    for fault in faults[:SHOWN]:
        print(f"  {fault}")
    return not faults


def main(given: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("race", choices=("fill", "stop"))
    parser.add_argument("--pods", type=int, help="gated pods; 200 for fill, 40 for stop")
    parser.add_argument("--pause", type=float, default=0.1, help="between two gated pods of fill, seconds")
    parser.add_argument("--limits", choices=tuple(SCHEDULERS), default="default", help="of kube-scheduler")
    parser.add_argument("--seconds", type=float, default=120, help="how long kube-scheduler is stopped")
    arguments = parser.parse_args(given)
    arguments.pods = arguments.pods or (200 if arguments.race == "fill" else 40)
    right = asyncio.run(run(arguments))
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    print(f"{os.cpu_count()} cores, load averages at the end {load}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
