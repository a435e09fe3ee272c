"""`dra-operator run` as a process: it ends when it is told to."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from dra_operator.testing.server import ApiServer


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda sent: sent.name)
async def test_a_signal_ends_the_operator_in_good_order(tmp_path, sent):
    """It ends with 0 and gives up its Lease, also if somebody closes the terminal."""
    async with ApiServer() as server:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dra_operator", "run", "--listen=127.0.0.1:0"),
            *(f"--kubeconfig={tmp_path}/kubeconfig", "--lease-namespace=default"),
            stderr=asyncio.subprocess.PIPE,
            # Whoever runs the tests behind nohup has it ignored, and so would the operator.
            preexec_fn=partial(signal.signal, sent, signal.SIG_DFL),
        )
        said = b""
        while b"allocating" not in said:
            said += (line := await asyncio.wait_for(operator.stderr.readline(), 60))
            assert line, said
        operator.send_signal(sent)
        _, rest = await asyncio.wait_for(operator.communicate(), 60)

        assert (operator.returncode, b"Traceback" in said + rest) == (0, False)
        assert server.get("Lease", "dra-operator", "default")["spec"].get("holderIdentity") is None


async def test_what_all_devices_means_is_said_at_the_start(tmp_path):
    """Beside kube-scheduler, devices get two holders: whoever starts it so reads it first."""
    async with ApiServer() as server:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dra_operator", "run", "--listen=127.0.0.1:0", "--devices=all"),
            *(f"--kubeconfig={tmp_path}/kubeconfig", "--lease-namespace=default"),
            stderr=asyncio.subprocess.PIPE,
        )
        first = await asyncio.wait_for(operator.stderr.readline(), 60)
        operator.terminate()
        await asyncio.wait_for(operator.communicate(), 60)

    assert b"allocates all devices" in first
    assert b"kube-scheduler allocates the same devices for pods" in first


async def test_without_its_namespace_the_operator_ends_with_the_command_that_creates_it(tmp_path):
    """Outside a pod it is that of the manifests, whatever the context of the kubeconfig says."""
    async with ApiServer() as server:
        (tmp_path / "kubeconfig").write_text(server.kubeconfig())
        operator = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dra_operator", "run", "--listen=127.0.0.1:0"),
            f"--kubeconfig={tmp_path}/kubeconfig",
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await asyncio.wait_for(operator.communicate(), 60)

    assert operator.returncode == 1
    assert b"create it: kubectl create namespace dra-operator" in said


def test_a_signal_ends_a_start_that_waits_for_a_plugin(tmp_path):
    """The first process of a container ignores what it does not handle."""
    os.mkfifo(tmp_path / "alive")
    waits = {
        "command": "sh",
        "args": ["-c", f"exec 3>{tmp_path}/alive; echo >&3; exec 3>&- >&- 2>&-; sleep 120"],
    }
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"} | waits
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(config))
    command = [sys.executable, "-m", "dra_operator", "run", f"--kubeconfig={tmp_path}/kubeconfig"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as operator:
        with (tmp_path / "alive").open() as alive:
            alive.readline()
        operator.send_signal(signal.SIGTERM)
        _, said = operator.communicate(timeout=90)

    assert (operator.returncode, said) == (0, "")
