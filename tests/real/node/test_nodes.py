"""Nodes themselves: they run what the kubelet asks for, and leave nothing behind."""

import os
import shutil
import signal
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from controlplane.node import cgroups
from controlplane.node.images import GUEST

TESTS = Path(__file__).parents[2]
KILLED = "node-killed"


def programs_of(cgroup, folder):
    """Return the names of the programs that run in a node's cgroup or below it, or have its folder as argument."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            texts = ((process / name).read_text(errors="replace") for name in ("cgroup", "cmdline"))
            if any(cgroup in text or folder in text for text in texts):
                found.add((process / "comm").read_text().strip())
        except OSError:
            continue
    return found


def test_runtime_that_records(cluster, run_node):
    """A kubelet whose container runtime only records prepares claims, too, and hands their CDI devices on."""
    from controlplane.node.recording import RecordingRuntime  # noqa: PLC0415 - it needs the protocols

    with run_node("node-recording", RecordingRuntime()) as node:
        driver = cluster.start_driver(node, [{"name": "gpu-0"}])
        cluster.allocate_claim("one")

        cluster.create_pod("user", {"resourceClaimName": "one"})

        report = cluster.report("user")
        assert (report.devices, report.environment["GPU_0"]) == ({"gpu-0"}, "of-node-recording")
        cluster.delete_pod("user")
        assert (driver.prepared("one"), driver.unprepared("one")) == (1, 1)


def test_kubelet_knows_the_api_server_alone(nodes):
    """Who asks a kubelet without the API server's certificate is refused: others of the machine have no containers."""
    port = nodes[0].client.get(nodes[0].path)["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    with pytest.raises(HTTPError, match="401"):
        urlopen(f"https://127.0.0.1:{port}/pods", context=context, timeout=30)


@pytest.fixture
def killed_node(cluster, node_parts):
    """Run a node with a pod in a process of its own; return that process and the node's cgroup and folder."""
    command = [sys.executable, "-m", "controlplane.node", str(cluster.plane.admin_kubeconfig), KILLED]
    if node_parts.containers is None:
        command.append("--recording")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(TESTS)}
    ) as process:
        line = process.stdout.readline()
        assert line, "the program has ended before its node was ready"
        cgroup, folder = line.split()
        try:
            container = {"name": "main", "image": GUEST, "command": ["sleep", "9999"]}
            cluster.client.create(
                cluster.pods,
                {"metadata": {"name": "pod"}, "spec": {"nodeName": KILLED, "containers": [container]}},
            )
            cluster.wait_phase("pod", "Running")
            yield process, cgroup, folder
        finally:
            process.kill()
            cluster.client.delete(f"{cluster.pods}/pod?gracePeriodSeconds=0")
            cluster.client.delete(f"/api/v1/nodes/{KILLED}")
            shutil.rmtree(folder)


def test_kill_leaves_nothing(nodes, killed_node, node_parts):
    """When the program that runs a node is killed, kubelet, container runtime and containers end with it.

    What stays are empty cgroups, and whoever starts a node next removes them.
    """
    process, cgroup, folder = killed_node
    expected = {"kubelet"} | ({"containerd", "sleep"} if node_parts.containers else set())
    assert expected <= programs_of(cgroup, folder)

    process.send_signal(signal.SIGKILL)

    process.wait(30)
    nodes[0].wait_until(lambda: not programs_of(cgroup, folder), what="the end of all processes")
    cgroups.remove_abandoned()
    assert [own / cgroup for own in cgroups.hierarchies().values() if (own / cgroup).exists()] == []
