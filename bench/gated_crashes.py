"""Kills the operator again and again while gated and ordinary pods come and go, and judges what became of them.

    python bench/gated_crashes.py                        # 200 + 200 pods, 100 nodes x 8 devices, 30 kills; half an hour
    python bench/gated_crashes.py --limits fast          # kube-scheduler with qps 5000
    python bench/gated_crashes.py --gangs 4              # gated pods come in gangs of four
    python bench/gated_crashes.py --operators 2          # another operator takes over each time
    python bench/gated_crashes.py --pods 20 --nodes 10 --kills 3

Half of the devices of each node are the operator's. Each pod has two claims made of a template, so gated pods need all
owned devices, and ordinary ones all others. A pod that is bound lives for a while and is replaced. `kill -9` hits the
operator at random, also before it is ready; it is started again at once. At the end the last pods stay.

An independent reader of the watches judges each moment. The exit code is 1 if a device ever has two holders; a pod was
let go before all its claims, and all those of its gang, were allocated, or bound to another node than that of its
claims; a pod is not bound at the end although devices for it are free, or others of its gang are; a device is held that
no pod has; or something is left when all pods are deleted.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from coexistence.stage import SCHEDULERS, running_plane
from coexistence.workload import AT_ONCE, is_bound
from handover.fleet import NAMESPACE, PODS, Fleet, gang_pods, pod
from handover.stage import Stage, node_of, pick, set_up
from live.objects import Body

from dra_operator.api.names import GANG_ANNOTATION

CLAIMS_OF_POD = 2
SHOWN = 10


class Load:
    """Pods that come and go; each of `pods` places has one pod at a time, and one at the end."""

    def __init__(self, stage: Stage, arguments: argparse.Namespace) -> None:
        self._stage = stage
        self._lifetime: float = arguments.lifetime
        self._random = random.Random(arguments.seed)  # noqa: S311 - a load, no secret
        self._ending = asyncio.Event()
        self._size: int = arguments.gangs
        self._places = [("gated", number) for number in range(arguments.pods // self._size)]
        self._places += [("ordinary", number) for number in range(arguments.pods)]
        self.created = 0
        self.bound = 0

    def end(self) -> None:
        """Let the pods that there are stay."""
        self._ending.set()

    async def run(self) -> None:
        """Create and delete pods until the end."""
        async with asyncio.TaskGroup() as tasks:
            for kind, number in self._places:
                tasks.create_task(self._fill(kind, number))

    async def _fill(self, kind: str, number: int) -> None:
        await asyncio.sleep(self._random.uniform(0, self._lifetime))
        generation = 0
        while True:
            name = f"{kind}-{number:03}-{generation}"
            bodies = [pod(name, claims=CLAIMS_OF_POD, is_gated=kind == "gated")]
            if kind == "gated" and self._size > 1:
                bodies = gang_pods(name, self._size, claims=CLAIMS_OF_POD)
            names = [body["metadata"]["name"] for body in bodies]
            for body in bodies:
                await self._stage.cluster.create(PODS, body)
            self.created += len(names)
            for each in names:
                if not await self._until_bound(f"{NAMESPACE}/{each}"):
                    return
            self.bound += len(names)
            await self._wait(pick(self._random, self._lifetime))
            if self._ending.is_set():
                return
            for each in names:
                await self._stage.cluster.delete(f"{PODS}/{each}{AT_ONCE}")
            generation += 1

    async def _until_bound(self, key: str) -> bool:
        """Wait until a pod is bound; return False if the end comes first."""
        while not is_bound(self._stage.observer.pods.by_name.get(key)):
            if self._ending.is_set():
                return False
            await self._stage.observer.pods.wait_for(key, is_bound, 1)
        return True

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._ending.wait(), seconds)
        except TimeoutError:
            return


async def kill_and_restart(stage: Stage, kills: int, interval: float, chance: random.Random) -> None:
    """Kill the operator so many times, and start it again at once; `interval` is how long it decides, on average."""
    for number in range(1, kills + 1):
        if chance.random() < 0.2:
            # Before it has read what there is.
            await asyncio.sleep(chance.uniform(0.5, 4))
        else:
            await stage.operators.wait_leading()
            await asyncio.sleep(chance.uniform(0, 2 * interval))
        stage.operators.kill("operator-a")
        stage.operators.start("operator-a")
        report_progress(stage, f"kill {number}")


async def change_leaders(stage: Stage, kills: int, interval: float, chance: random.Random) -> None:
    """Kill the operator that decides so many times, and start it again when the other one has taken over."""
    stage.operators.start("operator-b")
    for number in range(1, kills + 1):
        leader = await stage.operators.wait_leading()
        await asyncio.sleep(chance.uniform(0, 2 * interval))
        stage.operators.kill(leader)
        started = time.monotonic()
        await stage.operators.wait_leading()
        report_progress(stage, f"kill {number}: taken over after {time.monotonic() - started:.1f} s")
        stage.operators.start(leader)


def report_progress(stage: Stage, text: str) -> None:
    """Print how far everything is, and the first fault."""
    pods = stage.observer.pods.by_name.values()
    first = next(stage.judge.faults(), "no fault")
    print(
        f"{text}; {sum(map(is_bound, pods))} of {len(pods)} pods bound, {stage.judge.let_go} let go so far; {first}",
        flush=True,
    )


async def find_faults_at_rest(stage: Stage) -> list[str]:
    """Wait until nothing changes, and return what is wrong then, and when all pods are deleted."""
    if not await stage.rest(quiet=20, seconds=900):
        print("pods and claims still change fifteen minutes after the last kill")
    free, events = stage.judge.free(), await stage.events()
    faults: list[str] = []
    waiting = [body for body in stage.observer.pods.by_name.values() if not node_of(body)]
    for body in waiting:
        name = body["metadata"]["name"]
        side = 0 if name.startswith("gated") else 1
        fitting = [node for node, left in free.items() if left[side] >= CLAIMS_OF_POD]
        if (members := gang_of(stage, body)) and not any(map(node_of, members)):
            rooms = sum(left[0] // CLAIMS_OF_POD for left in free.values())
            fitting = fitting if rooms >= len(members) else []
        elif members:
            faults.append(f"{name} waits, and others of its gang are bound")
        last = (events.get(name) or ["no Event"])[-1]
        print(f"{name} is not bound: {last}")
        if fitting:
            faults.append(f"{name} is not bound, and {len(fitting)} nodes have room for it: {last}")
    faults += [f"claim {name} is allocated, and no pod has it" for name in stage.judge.held_by_nobody()]
    await stage.cluster.send("DELETE", f"{PODS}{AT_ONCE}")
    await stage.until(lambda: not stage.observer.claims.by_name, seconds=180)
    for name, claim in [*stage.observer.claims.by_name.items()][:SHOWN]:
        faults.append(f"claim {name} is left when its pod is gone: {claim['metadata'].get('finalizers')}")
    faults += stage.judge.faults()
    return faults


def gang_of(stage: Stage, body: Body) -> list[Body]:
    """Return the pods of a pod's gang; none if it has no gang."""
    said = (body["metadata"].get("annotations") or {}).get(GANG_ANNOTATION)
    pods = stage.observer.pods.by_name.values()
    return [
        each
        for each in pods
        if said and (each["metadata"].get("annotations") or {}).get(GANG_ANNOTATION) == said
    ]


async def run(arguments: argparse.Namespace) -> bool:
    """Run on a control plane of its own; return whether all was right."""
    fleet = Fleet(arguments.nodes)
    with running_plane() as plane:
        async with set_up(plane, fleet, connection=SCHEDULERS[arguments.limits]) as stage:
            load, chance = Load(stage, arguments), random.Random(arguments.seed)  # noqa: S311 - no secret
            started = time.monotonic()
            running = asyncio.create_task(load.run())
            await asyncio.sleep(min(arguments.lifetime, 20))
            disturb = kill_and_restart if arguments.operators == 1 else change_leaders
            await disturb(stage, arguments.kills, arguments.interval, chance)
            load.end()
            await running
            await stage.operators.wait_leading()
            faults = await find_faults_at_rest(stage)
            print(
                f"\n{arguments.limits} limits, {arguments.operators} operators, {arguments.kills} kills in"
                f" {time.monotonic() - started:.0f} s: {load.created} pods created, {load.bound} bound before the end,"
                f" {stage.judge.let_go} let go; {stage.observer.reader.events} events of claims,"
                f" {stage.observer.reader.allocations[True]} allocations on owned devices; {len(faults)} faults"
            )
            for fault in faults[:SHOWN]:
                print(f"  {fault}")
            if faults:
                keep_logs(plane.directory, arguments.keep)
            return not faults


def keep_logs(directory: Path, target: Path | None) -> None:
    """Copy the logs of the operators, if it is said where to."""
    if target is not None:
        target.mkdir(parents=True, exist_ok=True)
        for path in directory.glob("operator-*.log"):
            (target / path.name).write_bytes(path.read_bytes())


def main(given: Sequence[str] | None = None) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=200, help="gated pods, and as many ordinary ones")
    parser.add_argument("--gangs", type=int, default=1, help="how many gated pods are a gang")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--interval", type=float, default=8, help="mean time before a kill, seconds")
    parser.add_argument("--operators", type=int, choices=(1, 2), default=1)
    parser.add_argument("--limits", choices=tuple(SCHEDULERS), default="default", help="of kube-scheduler")
    parser.add_argument("--lifetime", type=float, default=40, help="mean of the lifetimes, seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the logs of operators if something is wrong")
    arguments = parser.parse_args(given)
    right = asyncio.run(run(arguments))
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    print(f"{os.cpu_count()} cores, load averages at the end {load}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
