"""Measures claims allocated per second on a real API server: operator, kube-scheduler, and a client that only writes.

    python bench/end_to_end.py                      # everything once: 1,000 claims over 150 nodes of 8 devices
    python bench/end_to_end.py --claims 200         # a short one
    python bench/end_to_end.py bare operator --rounds 5
    python bench/end_to_end.py operator --rounds 9 --against ../other    # two checkouts of this repository

On one control plane (etcd and kube-apiserver), one after the other, each as a process of its own:

- bare: only the two writes of each claim, prepared in advance, 16 claims at a time: what this machine can do.
- operator: `dra-operator run` with its service account.
- confined: the same, with the policies of `components/confinement`.
- scheduler: kube-scheduler with its default client limits, and a pod for each claim.
- fast-scheduler: the same with `clientConnection: {qps: 5000, burst: 5000}`.

There are two loads. "standing": the claims exist when the decider starts, and the rate is measured from the first
allocation to the last. "burst": the decider runs, and the claims are created 16 at a time (for kube-scheduler
the pods; their claims exist already); the rate is measured from the first create call to the last allocation, a latency
from the answer to a call to the watch event with the allocation; "left" is the time from the last answer to
the last allocation. Times are those of a watch in this process. CPU seconds: of the decider (for standing claims
including its start), and of etcd and kube-apiserver.

With `--rounds` they take turns, and each number is a median. The exit code is 1 if a claim is not allocated or
a device is allocated twice; times are only printed.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from live.client import Cluster, Watched, claims_path
from live.deciders import Decider, Job, Load, Running, Starter
from live.objects import Body, claim, judge, pod
from live.report import Measured, Phase, Row, Verdict, ratios, table

from controlplane import ControlPlane, find_or_build, install_access, running_control_plane
from controlplane.manifests import MANIFESTS

PHASES: dict[str, tuple[Phase, ...]] = {
    "bare": ((Decider.BARE, Load.STANDING), (Decider.BARE, Load.BURST)),
    "operator": ((Decider.OPERATOR, Load.STANDING), (Decider.OPERATOR, Load.BURST)),
    "confined": ((Decider.CONFINED_OPERATOR, Load.STANDING), (Decider.CONFINED_OPERATOR, Load.BURST)),
    "scheduler": ((Decider.SCHEDULER, Load.BURST),),
    "fast-scheduler": ((Decider.FAST_SCHEDULER, Load.BURST),),
}
OTHER: tuple[Phase, ...] = tuple((Decider.OTHER_OPERATOR, load) for load in Load)
CONFINEMENT = MANIFESTS / "components" / "confinement" / "policy.yaml"
PATIENCE = 120.0
"""Seconds after which a decider that has not allocated everything has failed."""
WARM_UP = 50
"""Claims that are written before anything counts: a server's first requests are slow."""


class Bench:
    """The phases, on one control plane with its fleet."""

    def __init__(
        self, plane: ControlPlane, cluster: Cluster, devices: int, other: Path | None = None
    ) -> None:
        self._plane = plane
        self._cluster = cluster
        self._starter = Starter(plane, other)
        self._devices = devices
        self._phases = 0

    async def measure(self, phase: Phase, count: int) -> Measured:
        """Let a decider allocate so many claims in a namespace of their own, and clear up after it."""
        decider, load = phase
        self._phases += 1
        if decider is Decider.CONFINED_OPERATOR:
            self._plane.kubectl("apply", f"--filename={CONFINEMENT}")
        try:
            return await self._measure(decider, load, count)
        finally:
            if decider is Decider.CONFINED_OPERATOR:
                self._plane.kubectl("delete", f"--filename={CONFINEMENT}")

    async def _measure(self, decider: Decider, load: Load, count: int) -> Measured:
        namespace = f"bench-{self._phases}"
        await self._cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        job = Job(load, claims_path(namespace), count, self._devices)
        names = [f"claim-{index:05}" for index in range(count)]
        claims, users = [claim(name) for name in names], [pod(name) for name in names]
        pods = f"/api/v1/namespaces/{namespace}/pods"
        if load is Load.STANDING or decider.needs_pods:
            await self._cluster.create_all(job.claims, claims)
        try:
            async with self._cluster.watching(job.claims) as watched:
                if load is Load.STANDING:
                    return await self._stand(decider, job, watched)
                created = (pods, users) if decider.needs_pods else (job.claims, claims)
                return await self._burst(decider, job, watched, *created)
        finally:
            await self._clear(job.claims, pods)

    async def _stand(self, decider: Decider, job: Job, watched: Watched) -> Measured:
        servers = self._plane.processor_seconds()
        running = self._starter.start(decider, job)
        try:
            await _finish(running, watched, job.count)
            own = running.process.processor_seconds()
            servers = self._plane.processor_seconds() - servers
        finally:
            await asyncio.to_thread(running.stop)
        times = watched.allocated.values()
        span = max(times, default=0.0) - min(times, default=0.0)
        return Measured(
            rate=_rate(watched, span),
            latencies=(),
            left=None,
            own_seconds=own,
            server_seconds=servers,
            verdict=await self._verdict(job),
        )

    async def _burst(
        self, decider: Decider, job: Job, watched: Watched, path: str, bodies: list[Body]
    ) -> Measured:
        running = self._starter.start(decider, job)
        try:
            await asyncio.to_thread(running.ready)
            own, servers = running.process.processor_seconds(), self._plane.processor_seconds()
            started = time.monotonic()
            answers = await self._cluster.create_all(path, bodies)
            await _finish(running, watched, job.count)
            own = running.process.processor_seconds() - own
            servers = self._plane.processor_seconds() - servers
        finally:
            await asyncio.to_thread(running.stop)
        created = {body["metadata"]["name"]: at for body, at in zip(bodies, answers, strict=True)}
        last = max(watched.allocated.values(), default=started)
        return Measured(
            rate=_rate(watched, last - started),
            latencies=[at - created[name] for name, at in watched.allocated.items()],
            left=max(0.0, last - max(answers)),
            own_seconds=own,
            server_seconds=servers,
            verdict=await self._verdict(job),
        )

    async def _verdict(self, job: Job) -> Verdict:
        counts = judge(await self._cluster.list(job.claims))
        return Verdict(missing=job.count - counts.allocated, doubled=counts.doubled)

    async def _clear(self, claims: str, pods: str) -> None:
        """Delete the pods, and the claims whatever finalizers they have: nobody else is there to do it."""
        await self._cluster.delete_all(f"{pods}?gracePeriodSeconds=0")
        names = [item["metadata"]["name"] for item in await self._cluster.list(claims)]
        await self._cluster.patch_all(claims, names, {"metadata": {"finalizers": None}})
        await self._cluster.delete_all(claims)


def _rate(watched: Watched, span: float) -> float:
    return len(watched.allocated) / max(span, 1e-9)


async def _finish(running: Running, watched: Watched, count: int) -> None:
    """Wait until everything is allocated, or it is clear that it will not be."""
    deadline = time.monotonic() + PATIENCE
    while len(watched.allocated) < count and time.monotonic() < deadline:
        await watched.until(lambda: len(watched.allocated) >= count, seconds=1)
        if running.process.exit_code:
            break
    if len(watched.allocated) < count:
        print(f"{running.process.name} stopped short:\n{running.process.log_tail()}")


async def run(arguments: argparse.Namespace, plane: ControlPlane) -> bool:
    """Set the cluster up, measure, print, and return whether every count was right."""
    phases = [phase for name in arguments.deciders or PHASES for phase in PHASES[name]]
    if arguments.against:
        phases += OTHER
    rows = {phase: Row(phase) for phase in phases}
    async with Cluster(plane.server, plane.ca, plane.tokens["admin"]) as cluster:
        await cluster.create_fleet(arguments.nodes, arguments.devices)
        bench = Bench(plane, cluster, arguments.devices, arguments.against)
        await bench.measure((Decider.BARE, Load.STANDING), min(WARM_UP, arguments.claims))
        for number in range(arguments.rounds):
            for phase in phases:
                measured = await bench.measure(phase, arguments.claims)
                rows[phase].rounds.append(measured)
                print(
                    f"round {number + 1}, {phase[0].value}, {phase[1].value}: {measured.rate:.0f} claims/s,"
                    f" {measured.verdict.missing} not allocated,"
                    f" {measured.verdict.doubled} devices given twice",
                    flush=True,
                )
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    print(
        f"\n{arguments.claims} claims, {arguments.nodes} nodes x {arguments.devices} devices,"
        f" median of {arguments.rounds}; {os.cpu_count()} cores, load averages at the end {load}\n"
    )
    print(table(list(rows.values())), end="\n\n")
    print("\n".join(ratios(rows)))
    return all(measured.verdict.is_right for row in rows.values() for measured in row.rounds)


def main() -> int:
    """Run the benchmark on a control plane of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("deciders", nargs="*", metavar="decider", help=f"{', '.join(PHASES)}; default: all")
    parser.add_argument("--claims", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=150)
    parser.add_argument("--devices", type=int, default=8, help="devices of a node")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--against", type=Path, metavar="CHECKOUT", help="also measure the operator of another checkout"
    )
    arguments = parser.parse_args()
    if arguments.against:
        arguments.against = arguments.against.resolve()
    for name in arguments.deciders:
        if name not in PHASES:
            parser.error(f"{name} is none of {', '.join(PHASES)}")
    if not 0 < arguments.claims <= arguments.nodes * arguments.devices:
        parser.error(f"--claims {arguments.claims}: each takes a device, and there must be enough of them")
    with (
        tempfile.TemporaryDirectory() as temporary,
        running_control_plane(find_or_build(), Path(temporary)) as plane,
    ):
        install_access(plane)
        return 0 if asyncio.run(run(arguments, plane)) else 1


if __name__ == "__main__":
    sys.exit(main())
