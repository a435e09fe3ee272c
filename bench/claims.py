"""How long a claim waits for its devices, end to end, on a real API server.

    python bench/claims.py            # idle latency, then a burst
    python bench/claims.py --kill     # the burst; the operator is killed in its middle and started again

Idle: claims are created one after the other; the time runs from the answer to the create call to the watch
event that carries the allocation, as a client sees it. Burst: all claims at once over a cluster too small for
them; the time runs from the first create call. What is printed at the end is counted from the API server's own
state: allocated, pending with a reason, devices given twice. The exit code is 1 if a count is not what it has
to be; times are only printed.
"""

import argparse
import asyncio
import json
import ssl
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from controlplane import ControlPlane, OperatorProcess, find_or_build, running_control_plane
from controlplane.manifests import install_access
from controlplane.operator_process import start_operator

API = "/apis/resource.k8s.io/v1"
CLASS = "gpu.example.com"
NAMESPACE = "bench"
CLAIMS = f"{API}/namespaces/{NAMESPACE}/resourceclaims"
ANNOTATION = "dra-operator.io/pending"


@dataclass(slots=True)
class Watched:
    """What the watch has shown so far: when a claim was first seen allocated, when first seen pending with a reason."""

    allocated: dict[str, float] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, claim: dict[str, Any], now: float) -> None:
        """Note one watch event."""
        name = claim["metadata"]["name"]
        if claim.get("status", {}).get("allocation"):
            self.allocated.setdefault(name, now)
        elif ANNOTATION in claim["metadata"].get("annotations", {}):
            self.pending.setdefault(name, now)
        self.changed.set()

    async def until(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until the condition holds; return whether it came to hold in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), left)
            except TimeoutError:
                return condition()
        return True


class Cluster:
    """The API server as the person at kubectl sees it: an admin's client with many requests at once."""

    def __init__(self, plane: ControlPlane, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._server = plane.server

    async def create(self, path: str, body: dict[str, Any]) -> float:
        """Create an object and return the time of the answer."""
        async with self._session.post(self._server + path, json=body) as answer:
            if answer.status != 201:
                raise RuntimeError(f"POST {path}: {answer.status} {await answer.text()}")
            await answer.read()
            return time.monotonic()

    async def create_all(self, path: str, bodies: list[dict[str, Any]], *, at_once: int = 16) -> None:
        """Create many objects, in their order, `at_once` at a time."""
        gate = asyncio.Semaphore(at_once)

        async def one(body: dict[str, Any]) -> None:
            async with gate:
                await self.create(path, body)

        await asyncio.gather(*(one(body) for body in bodies))

    async def list(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a collection."""
        async with self._session.get(self._server + path) as answer:
            answer.raise_for_status()
            items: list[dict[str, Any]] = (await answer.json())["items"]
            return items

    async def delete_all(self, path: str) -> None:
        """Delete a collection."""
        async with self._session.delete(self._server + path) as answer:
            answer.raise_for_status()

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Watched]:
        """Watch the claims inside the block."""
        watched = Watched()
        task = asyncio.create_task(self._watch(watched))
        try:
            yield watched
        finally:
            task.cancel()

    async def _watch(self, watched: Watched) -> None:
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.get(
            self._server + CLAIMS, params={"watch": "true"}, timeout=timeout
        ) as stream:
            async for line in stream.content:
                watched.see(json.loads(line)["object"], time.monotonic())


def device_class() -> dict[str, Any]:
    """Return the class that every claim asks for."""
    selector = {"cel": {"expression": f'device.driver == "{CLASS}"'}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": CLASS},
        "spec": {"selectors": [selector]},
    }


def node(name: str) -> dict[str, Any]:
    """Return a node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}


def resource_slice(name: str, devices: int) -> dict[str, Any]:
    """Return the slice of a node: one pool with equal devices."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{CLASS}"},
        "spec": {
            "driver": CLASS,
            "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{index}",
                    "attributes": {"model": {"string": "h100"}, "index": {"int": index}},
                    "capacity": {"memory": {"value": "80Gi"}},
                }
                for index in range(devices)
            ],
        },
    }


def claim(name: str) -> dict[str, Any]:
    """Return a claim for one device."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}},
    }


def judge(claims: list[dict[str, Any]]) -> tuple[int, int, int, int]:
    """Return how many claims are allocated, pending with a reason, neither, and how many devices were given twice."""
    devices: Counter[tuple[str, str, str]] = Counter()
    allocated = pending = neither = 0
    for one in claims:
        allocation = one.get("status", {}).get("allocation")
        if allocation:
            allocated += 1
            devices.update((r["driver"], r["pool"], r["device"]) for r in allocation["devices"]["results"])
        elif ANNOTATION in one["metadata"].get("annotations", {}):
            pending += 1
        else:
            neither += 1
    return allocated, pending, neither, sum(count - 1 for count in devices.values())


async def measure_idle(cluster: Cluster, count: int) -> None:
    """Create claims one after the other and print how long each waited."""
    waits: list[float] = []
    async with cluster.watching() as watched:
        for index in range(count):
            name = f"idle-{index:04}"
            created = await cluster.create(CLAIMS, claim(name))
            if not await watched.until(lambda name=name: name in watched.allocated, seconds=30):  # type: ignore[misc]
                raise SystemExit(f"{name} was not allocated within 30 s")
            waits.append((watched.allocated[name] - created) * 1000)
    waits.sort()
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    print(
        f"idle: {count} claims, from the create call's answer to the watch event with the allocation:"
        f" median {statistics.median(waits):.1f} ms, p99 {p99:.1f} ms"
    )


async def measure_burst(
    cluster: Cluster, count: int, room: int, interrupt: Callable[[Watched], Awaitable[None]] | None = None
) -> bool:
    """Create all claims at once, wait until each is decided, print the counts, return whether they are right."""
    async with cluster.watching() as watched:
        started = time.monotonic()
        creating = asyncio.create_task(
            cluster.create_all(CLAIMS, [claim(f"burst-{index:05}") for index in range(count)])
        )
        if interrupt is not None:
            await interrupt(watched)
        await creating
        applied = time.monotonic()
        await watched.until(lambda: len(watched.allocated) >= min(count, room), seconds=120)
        allocated_at = max(watched.allocated.values(), default=applied)
        await watched.until(lambda: len(watched.allocated | watched.pending) >= count, seconds=120)
        decided_at = time.monotonic()
    allocated, pending, neither, doubled = judge(await cluster.list(CLAIMS))
    rate = allocated / max(allocated_at - started, 1e-9)
    print(
        f"burst: {count} claims at once for {room} devices: {allocated} allocated, {pending} pending with a reason,"
        f" {neither} neither, {doubled} devices given twice"
    )
    print(
        f"burst: {rate:.0f} claims allocated per second; all applied after {applied - started:.2f} s,"
        f" allocated after {allocated_at - started:.2f} s, decided after {decided_at - started:.2f} s"
    )
    return (allocated, pending, neither, doubled) == (min(count, room), max(0, count - room), 0, 0)


async def clear(cluster: Cluster) -> bool:
    """Delete all claims; return whether all of them went, finalizers included."""
    await cluster.delete_all(CLAIMS)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        left = await cluster.list(CLAIMS)
        if not left:
            return True
        await asyncio.sleep(0.2)
    print(f"delete: {len(left)} claims still there, finalizers {left[0]['metadata'].get('finalizers')}")
    return False


async def start_ready(plane: ControlPlane, log: Path) -> OperatorProcess:
    """Start the operator as its own service account and wait until it is ready."""
    operator = start_operator(plane, log)
    await asyncio.to_thread(operator.wait_ready)
    return operator


async def run(arguments: argparse.Namespace, plane: ControlPlane, directory: Path) -> bool:
    """Set the cluster up, measure, and return whether every count was right."""
    tls = ssl.create_default_context(cafile=str(plane.ca))
    headers = {"Authorization": f"Bearer {plane.tokens['admin']}"}
    connector = aiohttp.TCPConnector(ssl=tls, limit=64)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        cluster = Cluster(plane, session)
        names = [f"node-{index:04}" for index in range(arguments.nodes)]
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await cluster.create(f"{API}/deviceclasses", device_class())
        await cluster.create_all("/api/v1/nodes", [node(name) for name in names])
        await cluster.create_all(
            f"{API}/resourceslices", [resource_slice(name, arguments.devices) for name in names]
        )
        room = arguments.nodes * arguments.devices
        print(f"cluster: {arguments.nodes} nodes x {arguments.devices} devices")
        operator = await start_ready(plane, directory / "operator.log")
        try:
            if arguments.kill:

                async def kill_and_start(watched: Watched) -> None:
                    nonlocal operator
                    await watched.until(
                        lambda: len(watched.allocated) >= min(arguments.burst, room) // 3, seconds=60
                    )
                    await asyncio.to_thread(operator.kill)
                    print(f"killed: with {len(watched.allocated)} claims allocated")
                    operator = await start_ready(plane, directory / "operator-again.log")

                right = await measure_burst(cluster, arguments.burst, room, kill_and_start)
            else:
                await measure_idle(cluster, arguments.idle)
                right = await clear(cluster)
                right &= await measure_burst(cluster, arguments.burst, room)
            gone = await clear(cluster)
            if gone:
                print("delete: every claim gone, no finalizer left")
            right &= gone
        finally:
            await asyncio.to_thread(operator.stop)
    return right


def main() -> int:
    """Run the benchmark on a control plane of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--devices", type=int, default=8, help="devices of a node")
    parser.add_argument("--idle", type=int, default=200, help="claims created one after the other")
    parser.add_argument("--burst", type=int, default=1000, help="claims created at once")
    parser.add_argument("--kill", action="store_true", help="kill the operator in the middle of the burst")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        running_control_plane(find_or_build(), Path(temporary)) as plane,
    ):
        install_access(plane)
        return 0 if asyncio.run(run(arguments, plane, Path(temporary))) else 1


if __name__ == "__main__":
    sys.exit(main())
