"""Measures how long claims wait beside those of a user whose selectors take long, on a real API server.

    python bench/slow_claims.py                     # 40 slow claims that fit nowhere, 12 others beside them
    python bench/slow_claims.py --slow 0            # the 12 others alone
    python bench/slow_claims.py --annotations 300   # resident memory with so many claims of 250 KB of annotations

On one control plane (etcd and kube-apiserver) the operator runs as a process of its own. The slow claims are legal:
each has a selector of its own, near what the API server permits, that is false for all devices. Once the operator has
begun with them, the others are created one after the other in a namespace of their own; each fits at once. The latency
is from the answer to a call to the watch event with the allocation. Times are only printed; the exit code is 1 if one
of the others is not allocated.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from live.client import AT_ONCE, Cluster, claims_path
from live.objects import CLASS, Body, claim

from controlplane import (
    ControlPlane,
    OperatorProcess,
    find_or_build,
    install_access,
    running_control_plane,
    start_operator,
)

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
INDEX = f'device.attributes["{CLASS}"].index'
PATIENCE = 120.0
"""Seconds after which a claim that is not allocated is not waited for any more."""


def slow_claim(number: int) -> Body:
    """Return a claim with a selector that is evaluated a thousand times twice for each kind of device, and false."""
    loops = f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {INDEX} + a + b + c + %d >= 0)))"
    expression = " && ".join([loops % number, loops % (1000 + number), f"{INDEX} < 0"])
    found = claim(f"slow-{number}")
    request = found["spec"]["devices"]["requests"][0]["exactly"]
    request["selectors"] = [{"cel": {"expression": expression}}]
    return found


async def measure_latency(
    cluster: Cluster, operator: OperatorProcess, slow: int, others: int, pause: float
) -> bool:
    """Print the latencies of the others; return whether all of them were allocated."""
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": "slow"}})
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": "others"}})
    await cluster.create_all(claims_path("slow"), [slow_claim(number) for number in range(slow)])
    await asyncio.sleep(3)
    latencies = []
    async with cluster.watching(claims_path("others")) as watched:
        for number in range(others):
            name = f"other-{number}"
            created = await cluster.create(claims_path("others"), claim(name))
            if not await watched.until(lambda name=name: name in watched.allocated, seconds=PATIENCE):
                print(f"{name} was not allocated within {PATIENCE:g} s")
                return False
            latencies.append(watched.allocated[name] - created)
            await asyncio.sleep(pause)
    latencies.sort()
    print("latencies, s:", " ".join(f"{seconds:.2f}" for seconds in latencies))
    print(f"p50 {latencies[len(latencies) // 2]:.2f} s, p99 {latencies[-1]:.2f} s")
    if slow:
        async with cluster.watching(claims_path("slow")) as watched:
            await asyncio.sleep(1)
            print(f"{len(watched.pending)} of {slow} slow claims are explained by now")
    _, metrics = await asyncio.to_thread(operator.http, "/metrics")
    print(
        *[line for line in metrics.splitlines() if line.startswith("dra_operator_decision_seconds_")][-2:],
        sep="\n",
    )
    return True


async def measure_memory(cluster: Cluster, operator: OperatorProcess, count: int) -> bool:
    """Print the resident memory before, with, and after claims with 250 KB of annotations."""
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": "large"}})
    print(f"before: {resident_mib(operator)} MiB")
    path = claims_path("large")
    for number in range(count):
        found = claim(f"large-{number}")
        found["metadata"]["annotations"] = {"example.com/notes": "x" * 250_000}
        found["metadata"]["labels"] = {"dra-operator.io/allocate": "false"}
        await cluster.create(path, found)
        if number % AT_ONCE == 0:
            await asyncio.sleep(0.1)
    await asyncio.sleep(5)
    print(f"with {count} claims of 250 KB of annotations: {resident_mib(operator)} MiB")
    await cluster.delete_all(path)
    await asyncio.sleep(5)
    print(f"after: {resident_mib(operator)} MiB")
    return True


def resident_mib(operator: OperatorProcess) -> int:
    """Return the resident memory of the operator."""
    _, metrics = operator.http("/metrics")
    lines = [line for line in metrics.splitlines() if line.startswith("process_resident_memory_bytes ")]
    return round(float(lines[0].split()[1]) / 2**20)


async def run(plane: ControlPlane, arguments: argparse.Namespace, log: Path) -> bool:
    """Put up the fleet and the operator, and measure."""
    async with Cluster(plane.server, plane.ca, plane.tokens["admin"]) as cluster:
        await cluster.create_fleet(arguments.nodes, 8)
        operator = start_operator(plane, log, "--devices=all")
        try:
            await asyncio.to_thread(operator.wait_ready, 60)
            if arguments.annotations:
                return await measure_memory(cluster, operator, arguments.annotations)
            return await measure_latency(cluster, operator, arguments.slow, arguments.others, arguments.pause)
        finally:
            await asyncio.to_thread(operator.stop)


def main() -> int:
    """Parse the arguments, measure, print; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--slow", type=int, default=40, help="slow claims (40)")
    parser.add_argument("--others", type=int, default=12, help="claims beside them (12)")
    parser.add_argument("--nodes", type=int, default=10, help="nodes of 8 devices (10)")
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two of the others (1)")
    parser.add_argument(
        "--annotations", type=int, default=0, help="measure memory with so many large claims instead"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "plane").mkdir()
        with running_control_plane(find_or_build(), base / "plane") as plane:
            install_access(plane)
            return 0 if asyncio.run(run(plane, arguments, base / "operator.log")) else 1


if __name__ == "__main__":
    sys.exit(main())
