"""The control plane itself: what the other tests of this folder stand on."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def test_every_version_of_the_api_is_served(client):
    """The API server serves all versions of resource.k8s.io, v1 preferred."""
    group = client.get("/apis/resource.k8s.io")

    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta2", "v1beta1", "v1alpha3"]


@pytest.mark.parametrize("gate", ["DRAConsumableCapacity", "DRADeviceTaintRules", "DRAListTypeAttributes"])
def test_gates_are_on(client, gate):
    """Gates that are off by default, and those that are on, are on."""
    metrics = client.request("GET", "/metrics").body

    assert f'kubernetes_feature_enabled{{name="{gate}",stage=' in metrics
    line = next(line for line in metrics.splitlines() if f'feature_enabled{{name="{gate}"' in line)
    assert line.endswith(" 1")


STARTER = """
import sys, time
from pathlib import Path
from controlplane.processes import Process
process = Process("child", ["/bin/sleep", "60"], log=Path(sys.argv[1]))
print(process.pid, flush=True)
time.sleep(60)
"""


def test_kill_of_the_tests_kills_what_they_started(tmp_path):
    """Programs die with the process that started them, even when that is killed and can clean up nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", STARTER, tmp_path / "log"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(TESTS)},
    ) as starter:
        child = int(starter.stdout.readline())
        starter.kill()

    deadline = time.monotonic() + 10
    while _alive(child) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _alive(child)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_stored_object_can_be_made_wrong(control_plane, client, namespace):
    """What is written past the API server's validation is served by it, and reaches those who watch."""
    classes = "/apis/resource.k8s.io/v1/deviceclasses"
    client.create(
        classes,
        {"metadata": {"name": "wrong"}, "spec": {"selectors": [{"cel": {"expression": "1 + 1 == 2"}}]}},
    )
    control_plane.rewrite_stored("deviceclasses/wrong", b"1 + 1 == 2", b"1 +++ == 2")

    client.wait_for(
        f"{classes}/wrong",
        lambda stored: stored["spec"]["selectors"][0]["cel"]["expression"] == "1 +++ == 2",
    )
