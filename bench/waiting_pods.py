"""Measures how fast pods that wait at once are told why, and what other claims notice of it, on a real API server.

    python bench/waiting_pods.py                         # 1,000 pods of 20 Jobs, 100 nodes
    python bench/waiting_pods.py --jobs 5 --pods 10

kube-controller-manager makes the pods and their claims, and kube-scheduler fails to place them: no device suits a Job.
Some twenty pods come a second, so the operator is started when all of them wait: then they are due at once. From when
it is ready it is measured when all reasons are found out (by its metric), and when each pod has its Event. Claims that
no pod uses are created one after the other, before there is any pod, and meanwhile. The exit code is 1 if a pod is
not told, or a claim is not allocated; times are only printed.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from live.client import Cluster, claims_path
from live.objects import API, CLASS, Body, claim

from controlplane import (
    ControlPlane,
    OperatorProcess,
    find_or_build,
    install_access,
    install_component,
    running_full_control_plane,
    start_operator,
)
from dra_operator.cli.replay import percentile

NAMESPACE = "bench"
CLAIMS = claims_path(NAMESPACE)
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
EVENTS = f"/api/v1/namespaces/{NAMESPACE}/events"
REASON = "SelectorMatchesNoDevice"
PATIENCE_SECONDS = 300.0


def template(number: int) -> Body:
    """Return the template of a Job: no device has the model that it asks for."""
    expression = f'device.attributes["{CLASS}"].model == "none-{number}"'
    request = {"deviceClassName": CLASS, "selectors": [{"cel": {"expression": expression}}]}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}
    return {"metadata": {"name": f"job-{number:02}"}, "spec": {"spec": spec}}


def job(number: int, pods: int) -> Body:
    """Return a Job of so many pods at a time."""
    name = f"job-{number:02}"
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}],
    }
    return {
        "metadata": {"name": name},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spec}},
    }


async def measure_claims(cluster: Cluster, prefix: str, is_over: Callable[[int], bool]) -> list[float]:
    """Create claims one after the other until it is over, and return how long each waited, in milliseconds."""
    waits: list[float] = []
    async with cluster.watching(CLAIMS) as watched:
        while not is_over(len(waits)):
            name = f"{prefix}-{len(waits):04}"
            created = await cluster.create(CLAIMS, claim(name))
            if not await watched.until(lambda name=name: name in watched.allocated, seconds=30):  # type: ignore[misc]
                raise SystemExit(f"{name} was not allocated within 30 s")
            waits.append((watched.allocated[name] - created) * 1000)
            await cluster.delete(f"{CLAIMS}/{name}")
            await asyncio.sleep(0.05)
    return waits


def waiting_pods(operator: OperatorProcess) -> float:
    """Return of how many pods the operator has found out why they wait."""
    lines = operator.http("/metrics")[1].splitlines()
    return sum(
        float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("dra_operator_waiting_pods{")
    )


async def measure_telling(cluster: Cluster, operator: OperatorProcess, pods: int) -> tuple[float, float, int]:
    """Return after how many seconds all reasons were found out, and told, and how many pods were."""
    started, found_out, told = time.monotonic(), 0.0, 0
    while told < pods and time.monotonic() < started + PATIENCE_SECONDS:
        await asyncio.sleep(0.2 if not found_out else 1.0)
        if not found_out and await asyncio.to_thread(waiting_pods, operator) >= pods:
            found_out = time.monotonic() - started
        if found_out:
            events = await cluster.list(f"{EVENTS}?fieldSelector=reason%3D{REASON},involvedObject.kind%3DPod")
            told = len({event["involvedObject"]["name"] for event in events})
    return found_out, time.monotonic() - started, told


async def start_ready(plane: ControlPlane, log: Path) -> OperatorProcess:
    """Start an operator that explains pods, and wait until it is ready."""
    operator = start_operator(plane, log, "--explain=all")
    await asyncio.to_thread(operator.wait_ready, 120)
    return operator


async def make_pods(cluster: Cluster, jobs: int, pods: int) -> None:
    """Create the Jobs, and wait until each pod has its claim and was tried by kube-scheduler."""
    templates = f"{API}/namespaces/{NAMESPACE}/resourceclaimtemplates"
    await cluster.create_all(templates, [template(number) for number in range(jobs)])
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
    await cluster.create_all(path, [job(number, pods) for number in range(jobs)])
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = [pod["status"] for pod in await cluster.list(PODS)]
        if (
            sum(bool(each.get("resourceClaimStatuses") and each.get("conditions")) for each in found)
            >= jobs * pods
        ):
            return
        await asyncio.sleep(2)
    raise SystemExit(f"{jobs * pods} pods did not wait within {PATIENCE_SECONDS:.0f} s")


async def run(arguments: argparse.Namespace, plane: ControlPlane, directory: Path) -> bool:
    """Set the cluster up, measure, and return whether all were told."""
    count = arguments.jobs * arguments.pods
    async with Cluster(plane.server, plane.ca, plane.tokens["admin"]) as cluster:
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await cluster.create_fleet(arguments.nodes, 8)
        operator = await start_ready(plane, directory / "before.log")
        try:
            before = await measure_claims(cluster, "before", lambda made: made >= arguments.claims)
        finally:
            await asyncio.to_thread(operator.stop)
        await make_pods(cluster, arguments.jobs, arguments.pods)
        operator = await start_ready(plane, directory / "operator.log")
        try:
            telling = asyncio.create_task(measure_telling(cluster, operator, count))
            meanwhile = await measure_claims(cluster, "meanwhile", lambda _: telling.done())
            found_out, seconds, told = await telling
        finally:
            await asyncio.to_thread(operator.stop)
    print(
        f"{count} pods of {arguments.jobs} Jobs: all reasons found out after {found_out:.1f} s, {told} pods told after"
        f" {seconds:.1f} s"
    )
    for name, waits in (("before", before), ("meanwhile", meanwhile)):
        print(
            f"claims {name}: {len(waits)}, median {percentile(waits, 50):.1f} ms, p99 {percentile(waits, 99):.1f} ms"
        )
    return told == count


def main() -> int:
    """Run the benchmark on a control plane of its own."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--pods", type=int, default=50, help="pods of each Job")
    parser.add_argument("--claims", type=int, default=200, help="claims before there is any pod")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as temporary,
        running_full_control_plane(find_or_build(), Path(temporary)) as plane,
    ):
        install_access(plane)
        install_component(plane, "explain-pods")
        return 0 if asyncio.run(run(arguments, plane, Path(temporary))) else 1


if __name__ == "__main__":
    sys.exit(main())
