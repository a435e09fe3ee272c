"""Measures gated pods bound per second, whose devices the operator decides, and ordinary ones, on a real API server.

    python bench/gated_pods.py                           # 1,000 pods over 1,000 nodes, both limits, three rounds
    python bench/gated_pods.py --pods 100 --nodes 50 --rounds 1 --limits default

On one control plane (etcd, kube-apiserver), by turns, each kube-scheduler and operator started anew:

- ordinary: kube-scheduler alone; each pod names a claim for one device, which exists already.
- gated: the same pods with the gate of the operator, which runs beside kube-scheduler with the rights and the policy of
  manifests/components/gates; it owns all devices for that turn.

kube-scheduler runs with its default client limits, and with `clientConnection: {qps: 5000, burst: 5000}`. Pods are
created 16 at a time while the deciders run; the rate is measured from the first call to the last pod that is bound, by
a watch in this process. CPU seconds are those of operator and kube-scheduler, and of etcd and kube-apiserver.

With `--rounds` each number is a median. The exit code is 1 if a pod is not bound, or to another node than that of its
claim, or a device is allocated twice; times are only printed.
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from live.client import API, Cluster, claims_path
from live.objects import Body, allocation_of, claim, judge, pod

from controlplane import (
    ControlPlane,
    Process,
    find_or_build,
    install_access,
    install_component,
    running_control_plane,
    start_operator,
)
from controlplane.manifests import MANIFESTS
from dra_operator.api.names import GATE, OWNED_KEY

LIMITS = {"default": None, "fast": {"qps": 5000, "burst": 5000}}
"""kube-scheduler's `clientConnection`."""
PATIENCE_SECONDS = 300.0
"""After so long what is not bound is not waited for any more."""
OWNED = ("--devices=owned", "--ownership-quiet-seconds=0")
WARM_UP = 30
"""Pods that are bound before anything counts: a server's first requests are slow."""


class Kind(Enum):
    """What the pods are."""

    ORDINARY = "ordinary"
    GATED = "gated"


@dataclass(frozen=True, slots=True)
class Measured:
    """What one turn has shown."""

    rate: float
    median_seconds: float
    own_seconds: float
    server_seconds: float
    faults: tuple[str, ...]


@dataclass(slots=True)
class BoundPods:
    """When each pod was first seen with a node, by name."""

    times: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for(self, count: int, seconds: float) -> bool:
        """Return whether so many pods are bound in time."""
        deadline = time.monotonic() + seconds
        while len(self.times) < count and (left := deadline - time.monotonic()) > 0:
            self.changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), left)
        return len(self.times) >= count


def gated(body: Body) -> Body:
    """Return a pod with the gate of the operator."""
    return {**body, "spec": {**body["spec"], "schedulingGates": [{"name": GATE}]}}


@asynccontextmanager
async def watching(cluster: Cluster, pods: str) -> AsyncIterator[BoundPods]:
    """Watch pods inside the block; the watch is open when it begins."""
    bound, opened = BoundPods(), asyncio.Event()

    async def follow() -> None:
        async for event in cluster.watch(pods, opened):
            body = event["object"]
            if body["spec"].get("nodeName"):
                bound.times.setdefault(body["metadata"]["name"], time.monotonic())
                bound.changed.set()

    task = asyncio.create_task(follow())
    try:
        await asyncio.wait_for(opened.wait(), 30)
        yield bound
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


class Bench:
    """The turns, on one control plane with its fleet."""

    def __init__(self, plane: ControlPlane, cluster: Cluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self._turns = 0

    async def measure(self, kind: Kind, limits: str, count: int) -> Measured:
        """Let so many pods be bound in a namespace of their own, and clear up after it."""
        self._turns += 1
        namespace = f"bench-{self._turns}"
        await self._cluster.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
        claims, pods = claims_path(namespace), f"/api/v1/namespaces/{namespace}/pods"
        names = [f"pod-{index:05}" for index in range(count)]
        await self._set_owned(is_owned=kind is Kind.GATED)
        await self._cluster.create_all(claims, [claim(name) for name in names])
        bodies = [gated(pod(name)) if kind is Kind.GATED else pod(name) for name in names]
        try:
            with self._running(kind, limits) as deciders:
                async with watching(self._cluster, pods) as bound:
                    own, servers = _processor_seconds(deciders), self._plane.processor_seconds()
                    started = time.monotonic()
                    answers = await self._cluster.create_all(pods, bodies)
                    await bound.wait_for(count, PATIENCE_SECONDS)
                    own = _processor_seconds(deciders) - own
                    servers = self._plane.processor_seconds() - servers
            last = max(bound.times.values(), default=started)
            created = dict(zip(names, answers, strict=True))
            waited = [at - created[name] for name, at in bound.times.items()]
            return Measured(
                len(bound.times) / max(last - started, 1e-9),
                statistics.median(waited) if waited else 0.0,
                own,
                servers,
                tuple([each async for each in self._faults(claims, pods, count)]),
            )
        finally:
            await self._clear(claims, pods)

    async def _set_owned(self, *, is_owned: bool) -> None:
        """Have all devices be the operator's, or kube-scheduler's. All slices are alike."""
        slices = await self._cluster.list(f"{API}/resourceslices")
        taints = [{"key": OWNED_KEY, "effect": "NoSchedule"}] if is_owned else []
        devices = [{**device, "taints": taints} for device in slices[0]["spec"]["devices"]]
        names = [each["metadata"]["name"] for each in slices]
        await self._cluster.patch_all(f"{API}/resourceslices", names, {"spec": {"devices": devices}})

    @contextmanager
    def _running(self, kind: Kind, limits: str) -> Iterator[list[Process]]:
        """Run kube-scheduler, and the operator for gated pods, inside the block."""
        scheduler = self._plane.start_scheduler(LIMITS[limits])
        deciders: list[Process] = [scheduler]
        try:
            if kind is Kind.GATED:
                log = self._plane.directory / f"operator-{self._turns}.log"
                operator = start_operator(self._plane, log, "--claims=gated", *OWNED)
                deciders.append(operator)
                operator.wait_ready(120)
            yield deciders
        finally:
            for operator in deciders[1:]:
                operator.stop()
            self._plane.stop_scheduler(scheduler)

    async def _faults(self, claims: str, pods: str, count: int) -> AsyncIterator[str]:
        """Yield what is wrong after a turn."""
        found = {body["metadata"]["name"]: body for body in await self._cluster.list(claims)}
        counts = judge(found.values())
        if counts.doubled:
            yield f"{counts.doubled} devices given twice"
        unbound = 0
        for body in await self._cluster.list(pods):
            node, name = body["spec"].get("nodeName"), body["metadata"]["name"]
            unbound += not node
            allocation = allocation_of(found[name])
            if node and (allocation is None or allocation["devices"]["results"][0]["pool"] != node):
                yield f"{name} is on {node}, and its claim elsewhere"
        if unbound:
            yield f"{unbound} of {count} pods are not bound"

    async def _clear(self, claims: str, pods: str) -> None:
        """Delete the pods, and the claims whatever finalizers they have: nobody else is there to do it."""
        await self._cluster.delete_all(f"{pods}?gracePeriodSeconds=0")
        names = [item["metadata"]["name"] for item in await self._cluster.list(claims)]
        await self._cluster.patch_all(claims, names, {"metadata": {"finalizers": None}})
        await self._cluster.delete_all(claims)


def _processor_seconds(processes: list[Process]) -> float:
    return sum(process.processor_seconds() for process in processes)


async def run(arguments: argparse.Namespace, plane: ControlPlane) -> bool:
    """Set the cluster up, measure, print, and return whether all pods were bound as they should."""
    limits = [*LIMITS] if arguments.limits == "both" else [arguments.limits]
    rows: dict[tuple[str, Kind], list[Measured]] = {}
    async with Cluster(plane.server, plane.ca, plane.tokens["admin"]) as cluster:
        await cluster.create_fleet(arguments.nodes, arguments.devices)
        bench = Bench(plane, cluster)
        for kind in Kind:
            await bench.measure(kind, "fast", min(WARM_UP, arguments.pods))
        for each in limits:
            for number in range(arguments.rounds):
                for kind in Kind:
                    measured = await bench.measure(kind, each, arguments.pods)
                    rows.setdefault((each, kind), []).append(measured)
                    print(
                        f"round {number + 1}, {each} limits, {kind.value}: {measured.rate:.1f} pods/s,"
                        f" median {measured.median_seconds:.1f} s; CPU {measured.own_seconds:.1f} s own,"
                        f" {measured.server_seconds:.1f} s servers; {'; '.join(measured.faults[:3]) or 'all right'}",
                        flush=True,
                    )
    load = ", ".join(f"{part:.1f}" for part in os.getloadavg())
    print(
        f"\n{arguments.pods} pods, {arguments.nodes} nodes x {arguments.devices} devices, medians of"
        f" {arguments.rounds}; {os.cpu_count()} cores, load averages at the end {load}"
    )
    for each in limits:
        rates = {kind: statistics.median(one.rate for one in rows[each, kind]) for kind in Kind}
        print(
            f"{each} limits: {rates[Kind.GATED]:.1f} gated and {rates[Kind.ORDINARY]:.1f} ordinary pods bound a second:"
            f" {rates[Kind.GATED] / max(rates[Kind.ORDINARY], 1e-9):.2f} times"
        )
    return not any(measured.faults for row in rows.values() for measured in row)


def install(plane: ControlPlane) -> None:
    """Apply the rights of the operator with those for gated pods, and the policy that confines it there."""
    install_access(plane)
    install_component(plane, "gates")
    plane.kubectl("apply", f"--filename={MANIFESTS / 'components' / 'gates' / 'policy.yaml'}")


def main() -> int:
    """Run the benchmark on a control plane of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--devices", type=int, default=8, help="devices of a node")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limits", choices=(*LIMITS, "both"), default="both", help="of kube-scheduler")
    arguments = parser.parse_args()
    if not 0 < arguments.pods <= arguments.nodes * arguments.devices:
        parser.error(f"--pods {arguments.pods}: each takes a device, and there must be enough of them")
    with (
        tempfile.TemporaryDirectory() as temporary,
        running_control_plane(find_or_build(), Path(temporary)) as plane,
    ):
        install(plane)
        return 0 if asyncio.run(run(arguments, plane)) else 1


if __name__ == "__main__":
    sys.exit(main())
