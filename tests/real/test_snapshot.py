"""`dra-operator snapshot` of a real API server, and what `simulate` makes of it."""

import json
import subprocess
import sys

import pytest

from controlplane.scene import PENDING


def run(*arguments):
    """Run the command and return its result."""
    return subprocess.run(
        [sys.executable, "-m", "dra_operator", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def reader(access, scene):
    """A kubeconfig with the operator's rights, and a name of its own: what the operator asks for is recorded."""
    access.kubectl("create", "serviceaccount", "reader", f"--namespace={scene.namespace}")
    access.kubectl(
        "create",
        "clusterrolebinding",
        "snapshot-reader",
        "--clusterrole=dra-operator",
        f"--serviceaccount={scene.namespace}:reader",
    )
    yield access.kubeconfig_for("reader", scene.namespace)
    access.kubectl("delete", "clusterrolebinding", "snapshot-reader")


@pytest.fixture
def state(reader, scene, tmp_path):
    """Take a snapshot of an example and return the file."""
    scene.apply("nodes.yaml", "prioritized-list")
    file = tmp_path / "state.yaml.gz"
    taken = run("snapshot", "--kubeconfig", str(reader), "--out", str(file))

    assert taken.returncode == 0, taken.stderr
    assert "note: not permitted to list resourceclaimtemplates: left out" in taken.stderr
    return file


def test_simulate_decides_as_the_operator_does(state, scene, start_operator):
    """What the operator then decides is what `simulate` said: the same allocations, the same words."""
    offline = run("simulate", "-f", str(state), "-o", "json")
    started = start_operator()
    started.wait_ready()

    assert offline.returncode == 1, offline.stderr
    claims = {item["metadata"]["name"]: item for item in json.loads(offline.stdout)["items"]}
    for name in ("train-0", "train-1"):
        allocation = scene.wait_allocated(name)["status"]["allocation"]
        del allocation["allocationTimestamp"]
        assert claims[name]["status"]["allocation"] == allocation
    text = claims["train-2"]["metadata"]["annotations"][PENDING]
    assert scene.wait_pending("train-2") == text
    started.stop()
