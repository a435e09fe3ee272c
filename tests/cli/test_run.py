"""`dra-operator run` before it runs: it ends when it is told to."""

import json
import os
import signal
import subprocess
import sys
import time


def test_a_signal_ends_a_start_that_waits_for_a_plugin(tmp_path):
    """The first process of a container ignores what it does not handle; and the plugin goes with its operator."""
    os.mkfifo(tmp_path / "alive")
    waits = {"command": "sh", "args": ["-c", f"exec 3>{tmp_path}/alive; echo >&3; sleep 30"]}
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
        alive = (tmp_path / "alive").open()
        alive.readline()
        operator.send_signal(signal.SIGTERM)
        _, said = operator.communicate(timeout=10)
        ended_at = time.monotonic()
    with alive:
        assert alive.read() == ""

    assert time.monotonic() < ended_at + 10
    assert (operator.returncode, said) == (0, "")
