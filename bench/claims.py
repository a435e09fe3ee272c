"""Measures how long a claim waits for its devices, end to end, on a real API server.

    python bench/claims.py            # idle latency, then a burst
    python bench/claims.py --kill     # the burst; the operator is killed in the middle and started again

Idle: claims are created one after the other; the time runs from the answer to the create call to the watch
event with the allocation, as a client sees it. Burst: all claims at once, in a cluster too small for
them; the time runs from the first create call. The counts printed at the end are those of the API server's
state: allocated, pending with a reason, devices allocated twice. The exit code is 1 if a count is wrong;
times are only printed.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from live.client import Cluster, Watched, claims_path
from live.objects import Counts, claim, judge

from conformance.replay import percentile
from controlplane import (
    ControlPlane,
    OperatorProcess,
    find_or_build,
    install_access,
    running_control_plane,
    start_operator,
)

NAMESPACE = "bench"
CLAIMS = claims_path(NAMESPACE)


async def measure_idle(cluster: Cluster, count: int) -> None:
    """Create claims one after the other and print how long each waited."""
    waits: list[float] = []
    async with cluster.watching(CLAIMS) as watched:
        for index in range(count):
            name = f"idle-{index:04}"
            created = await cluster.create(CLAIMS, claim(name))
            if not await watched.until(lambda name=name: name in watched.allocated, seconds=30):  # type: ignore[misc]
                raise SystemExit(f"{name} was not allocated within 30 s")
            waits.append((watched.allocated[name] - created) * 1000)
    print(
        f"idle: {count} claims, from the create call's answer to the watch event with the allocation:"
        f" median {statistics.median(waits):.1f} ms, p99 {percentile(waits, 99):.1f} ms"
    )


async def measure_burst(
    cluster: Cluster, count: int, room: int, interrupt: Callable[[Watched], Awaitable[None]] | None = None
) -> bool:
    """Create all claims at once, wait until each is decided, print the counts, return whether they are right."""
    async with cluster.watching(CLAIMS) as watched:
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
    counts = judge(await cluster.list(CLAIMS))
    rate = counts.allocated / max(allocated_at - started, 1e-9)
    print(
        f"burst: {count} claims at once for {room} devices: {counts.allocated} allocated,"
        f" {counts.pending} pending with a reason, {counts.neither} neither, {counts.doubled} devices given twice"
    )
    print(
        f"burst: {rate:.0f} claims allocated per second; all applied after {applied - started:.2f} s,"
        f" allocated after {allocated_at - started:.2f} s, decided after {decided_at - started:.2f} s"
    )
    return counts == Counts(min(count, room), max(0, count - room), neither=0, doubled=0)


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
    async with Cluster(plane.server, plane.ca, plane.tokens["admin"]) as cluster:
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await cluster.create_fleet(arguments.nodes, arguments.devices)
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
