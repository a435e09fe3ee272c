"""Measures how long `kubectl dra` takes on a real API server, from the start of its process to its end.

    python bench/kubectl_dra.py                              # 1,000 nodes with 8 devices, 4,000 claims, 4,000 pods
    python bench/kubectl_dra.py top --nodes 10 --claims 40 --runs 3
    python bench/kubectl_dra.py --plugin dist/kubectl-dra    # the file that `make plugin` builds
    python bench/kubectl_dra.py --against ../other           # the commands of two checkouts, one after the other

One control plane (etcd, kube-apiserver) on the same machine holds the cluster: each claim has a device and a running
pod. Of each command are printed the first run, and of the others the medians of wall time, processor time, and the most
memory that was resident, as the kernel counts them. Then the steps of `top`, one after the other in one process, each
the median of as many runs. Compiled files of Python are kept between runs, whatever the environment says.

The exit code is 1 if a command does not answer; times are only printed.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parent
sys.path.insert(0, str(BENCH.parent / "tests"))

from live.client import MERGE_PATCH, Cluster, claims_path, for_each
from scaling.cluster import DEVICES, DRIVER, device_class, node, node_name, resource_slice

from controlplane import find_or_build, running_control_plane
from dra_operator.api.names import FINALIZER

NAMESPACE = "team"
API = "/apis/resource.k8s.io/v1"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
COMMANDS: dict[str, tuple[str, ...]] = {
    "--help": ("kubectl-dra", "--help"),
    "top --help": ("kubectl-dra", "top", "--help"),
    "completion of a verb": ("kubectl_complete-dra", "cl"),
    "completion of a node": ("kubectl_complete-dra", "who", "node/node-0"),
    "top": ("kubectl-dra", "top"),
    "top --by class": ("kubectl-dra", "top", "--by", "class"),
    "claims -A": ("kubectl-dra", "claims", "-A"),
    "devices": ("kubectl-dra", "devices"),
    "who": ("kubectl-dra", "who"),
    "audit": ("kubectl-dra", "audit"),
    "waiting": ("kubectl-dra", "waiting", "-A"),
    "status": ("kubectl-dra", "status"),
    "explain": ("kubectl-dra", "explain", "pod/train-00000", "-n", NAMESPACE),
    "who pod": ("kubectl-dra", "who", "pod/train-00000", "-n", NAMESPACE),
    "impact": ("kubectl-dra", "impact", "node/node-00000"),
    "headroom": ("kubectl-dra", "headroom", f"class/{DRIVER}"),
}
ANSWERED = (0, 1)
"""Exit codes of a command that has an answer."""

Body = dict[str, Any]


def main(texts: Sequence[str] | None = None) -> int:
    """Run the measurement; return 1 if a command did not answer."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commands", nargs="*", help=f"of {', '.join(COMMANDS)}; all if none is named")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--claims", type=int, default=4000, help="claims with a device and a pod")
    parser.add_argument("--runs", type=int, default=9, help="runs of each command, the first aside")
    parser.add_argument("--plugin", type=Path, help="a file to run instead of kubectl-dra beside this Python")
    parser.add_argument("--against", type=Path, help="another checkout with a .venv, measured as well")
    arguments = parser.parse_args(texts)
    if arguments.claims > arguments.nodes * DEVICES:
        parser.error(f"{arguments.claims} claims cannot hold {arguments.nodes * DEVICES} devices")
    if unknown := {*arguments.commands} - {*COMMANDS}:
        parser.error(f"there is no {', '.join(unknown)}: there are {', '.join(COMMANDS)}")
    chosen = arguments.commands or [*COMMANDS]
    folders = [Path(sys.executable).parent]
    if arguments.against is not None:
        folders.append(arguments.against.resolve() / ".venv" / "bin")
    with (
        tempfile.TemporaryDirectory(prefix="kubectl-dra-") as directory,
        running_control_plane(find_or_build(), Path(directory)) as plane,
    ):
        token = plane.tokens["admin"]
        asyncio.run(fill(plane.server, plane.ca, token, nodes=arguments.nodes, claims=arguments.claims))
        print(
            f"cluster: {arguments.nodes:,} nodes, {arguments.nodes * DEVICES:,} devices,"
            f" {arguments.claims:,} claims and pods; {arguments.runs} runs"
        )
        silent = [
            name
            for folder in folders
            for name in measure(chosen, folder, plane.admin_kubeconfig, arguments.runs, arguments.plugin)
        ]
    for name in silent:
        print(f"wrong: {name} does not answer")
    return 1 if silent else 0


def measure(
    chosen: Sequence[str], folder: Path, kubeconfig: Path, runs: int, plugin: Path | None
) -> list[str]:
    """Print what some commands of a folder take, and the steps of `top`; return those that do not answer."""
    print(f"\n{plugin or folder}")
    print(f"{'':22}{'first s':>9}{'median s':>10}{'processor s':>13}{'peak MiB':>10}")
    silent = []
    for name in chosen:
        program, *words = COMMANDS[name]
        path = plugin if plugin is not None and program == "kubectl-dra" else folder / program
        first, *others = timed(runs + 1, str(path), *words, kubeconfig=kubeconfig)
        wall, processor, peak = (statistics.median(column) for column in list(zip(*others, strict=True))[:3])
        print(f"{name:22}{first[0]:9.2f}{wall:10.2f}{processor:13.2f}{peak:10.0f}", flush=True)
        if any(int(run[3]) not in ANSWERED for run in others):
            silent.append(name)
    if plugin is None and "top" in chosen:
        _print_steps(folder / "python", kubeconfig, runs)
    return silent


def timed(runs: int, *command: str, kubeconfig: Path) -> list[list[float]]:
    """Return wall and processor seconds, peak MiB and exit code of each run of a command."""
    program = [sys.executable, str(BENCH / "live" / "timed.py"), str(runs), *command]
    found: list[list[float]] = json.loads(_output(program, kubeconfig))
    return found


def _print_steps(python: Path, kubeconfig: Path, runs: int) -> None:
    program = [str(python), str(BENCH / "live" / "top_steps.py"), str(kubeconfig)]
    found = [json.loads(_output(program, kubeconfig)) for _ in range(runs + 1)][1:]
    print(f"{'steps of top':22}{'':9}{'median s':>10}{'processor s':>13}")
    for name in found[0]:
        wall, processor = (statistics.median(steps[name][index] for steps in found) for index in (0, 1))
        print(f"  {name:20}{'':9}{wall:10.2f}{processor:13.2f}")


def _output(command: Sequence[str], kubeconfig: Path) -> bytes:
    left_out = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    folder = find_or_build().kubectl.parent
    environment = {**kept, "KUBECONFIG": str(kubeconfig), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout


async def fill(server: str, authority: Path, token: str, *, nodes: int, claims: int) -> None:
    """Create the cluster."""
    names = [node_name(number) for number in range(nodes)]
    async with Cluster(server, authority, token) as cluster:
        await cluster.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await cluster.create(f"{API}/deviceclasses", _new(device_class()))
        await cluster.create_all("/api/v1/nodes", [_new(node(number)) for number in range(nodes)])
        await cluster.create_all(f"{API}/resourceslices", [_new(resource_slice(name)) for name in names])
        await for_each(range(claims), partial(_create_used_claim, cluster, nodes))


async def _create_used_claim(cluster: Cluster, nodes: int, number: int) -> None:
    """Create a claim that has a device, and the running pod that uses it."""
    index, position = divmod(number, nodes)
    name, where = f"train-{number:05}", node_name(position)
    exactly = {"deviceClassName": DRIVER}
    claim = {
        "metadata": {"name": name, "finalizers": [FINALIZER], "labels": {"app": "train"}},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    await cluster.create(claims_path(NAMESPACE), claim)
    stored = await cluster.send("POST", PODS, _pod(name, where))
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await cluster.send("PATCH", f"{PODS}/{name}/status", {"status": running}, MERGE_PATCH)
    field = {"key": "metadata.name", "operator": "In", "values": [where]}
    result = {"request": "gpu", "driver": DRIVER, "pool": where, "device": f"gpu-{index}"}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        "allocationTimestamp": "2026-01-05T08:00:00Z",
    }
    user = {"resource": "pods", "name": name, "uid": stored["metadata"]["uid"]}
    status = {"status": {"allocation": allocation, "reservedFor": [user]}}
    await cluster.send("PATCH", f"{claims_path(NAMESPACE)}/{name}/status", status, MERGE_PATCH)


def _pod(name: str, where: str) -> Body:
    """Return a pod with what pods usually have."""
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    container = {
        "name": "main",
        "image": "registry.example.com/team/train:1.4.2",
        "args": ["--config=/etc/train/config.yaml", "--epochs=10"],
        "env": [{"name": f"SETTING_{number}", "value": "a value of some length"} for number in range(8)],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "claims": [{"name": "gpu"}]},
        "livenessProbe": probe,
        "readinessProbe": probe,
        "volumeMounts": [{"name": "config", "mountPath": "/etc/train"}],
    }
    spec = {
        "nodeName": where,
        "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        "volumes": [{"name": "config", "emptyDir": {}}],
    }
    return {"metadata": {"name": name, "labels": {"app": "train", "job": name}}, "spec": spec}


def _new(body: Body) -> Body:
    """Return an object as one creates it: without what the API server writes."""
    written = ("managedFields", "creationTimestamp")
    metadata = {name: value for name, value in body["metadata"].items() if name not in written}
    return {**body, "metadata": metadata}


if __name__ == "__main__":
    sys.exit(main())
