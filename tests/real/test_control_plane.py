"""The control plane itself: what the other tests of this folder stand on."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane import KubectlError, fresh_namespace
from controlplane.processes import Process, ReservedPort

TESTS = Path(__file__).parents[1]


def test_every_version_of_the_api_is_served(client):
    """The API server serves all versions of resource.k8s.io, v1 preferred."""
    group = client.get("/apis/resource.k8s.io")

    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta2", "v1beta1", "v1alpha3"]


def test_version_is_stamped(control_plane):
    """Kubectl and the API server know their version, without which clients refuse to work."""
    versions = json.loads(control_plane.kubectl("version", "-o", "json"))

    assert {versions[side]["gitVersion"] for side in ("clientVersion", "serverVersion")} == {"v1.37.2"}


@pytest.mark.parametrize("gate", ["DRAConsumableCapacity", "DRADeviceTaintRules", "DRAListTypeAttributes"])
def test_gates_are_on(client, gate):
    """Gates that are off by default, and those that are on, are on."""
    metrics = client.request("GET", "/metrics").body

    assert f'kubernetes_feature_enabled{{name="{gate}",stage=' in metrics
    line = next(line for line in metrics.splitlines() if f'feature_enabled{{name="{gate}"' in line)
    assert line.endswith(" 1")


def test_service_account_may_do_nothing(control_plane, namespace):
    """A service account's token works, and RBAC refuses what nobody has granted."""
    control_plane.client.create(
        f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "nobody"}}
    )
    answer = control_plane.client_for("nobody", namespace).request("GET", "/api/v1/nodes")

    assert answer.status == 403
    assert "nobody" in answer.body["message"]
    assert [event["responseStatus"]["code"] for event in control_plane.requests_of("nobody", namespace)] == [
        403
    ]


@pytest.mark.parametrize(
    "config",
    [[], [{"opaque": {"driver": "gpu.example.com", "parameters": {"loose": "written with spaces"}}}]],
    ids=["plain", "one that takes no patch"],
)
def test_namespace_is_emptied(control_plane, client, config):
    """A namespace goes with all it holds, claims with finalizers included, though no controller runs."""
    with fresh_namespace(control_plane) as name:
        claims = f"/apis/resource.k8s.io/v1/namespaces/{name}/resourceclaims"
        client.create(
            claims,
            {
                "metadata": {"name": "held", "finalizers": ["example.com/held"]},
                "spec": {"devices": {"requests": [], "config": config}},
            },
        )

    assert client.request("GET", f"/api/v1/namespaces/{name}").status == 404
    assert client.request("GET", f"{claims}/held").status == 404


def test_outage_keeps_the_objects(control_plane, client, namespace):
    """An API server that is away refuses connections; back at the same address, it has what it had."""
    with control_plane.outage(), pytest.raises(ConnectionRefusedError):
        client.get("/readyz")

    assert client.get(f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace


def test_kubectl_error_is_raised(control_plane):
    """What kubectl says when it fails is the text of the error."""
    with pytest.raises(KubectlError, match='pods "absent" not found'):
        control_plane.kubectl("get", "pod", "absent")


def test_frozen_server_does_not_answer(control_plane):
    """A frozen API server accepts connections and answers only when it is let go on."""
    with control_plane.frozen(), pytest.raises(TimeoutError):
        control_plane.client.request("GET", "/readyz", seconds=0.5)

    assert control_plane.ready()


def test_controllers_make_claims_of_templates(full_control_plane, full_namespace):
    """With the controller manager, a pod that names a claim template gets its claim."""
    client = full_control_plane.client
    templates = f"/apis/resource.k8s.io/v1/namespaces/{full_namespace}/resourceclaimtemplates"
    pods = f"/api/v1/namespaces/{full_namespace}/pods"
    client.create(
        templates,
        {"metadata": {"name": "any"}, "spec": {"spec": {"devices": {"requests": []}}}},
    )
    client.create(
        pods,
        {
            "metadata": {"name": "user"},
            "spec": {
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "dev"}]}}],
                "resourceClaims": [{"name": "dev", "resourceClaimTemplateName": "any"}],
            },
        },
    )

    claims = f"/apis/resource.k8s.io/v1/namespaces/{full_namespace}/resourceclaims"
    found = client.wait_for(claims, lambda answer: answer["items"], what="a claim made of the template")
    assert found["items"][0]["metadata"]["ownerReferences"][0]["name"] == "user"


def test_reserved_port_is_not_given_to_others():
    """A port that is reserved refuses connections and cannot be bound by a program that does not share it."""
    port = ReservedPort()
    with socket.socket() as other, pytest.raises(OSError, match="Address already in use"):
        other.bind(("127.0.0.1", port.number))
    with socket.socket() as other, pytest.raises(ConnectionRefusedError):
        other.connect(("127.0.0.1", port.number))
    port.close()


def test_stop_kills_a_program_that_does_not_listen(tmp_path):
    """A program that ignores SIGTERM is killed when its grace is over."""
    stubborn = Process(
        "stubborn", ["/bin/sh", "-c", "trap '' TERM; echo up; sleep 60 & wait; wait"], log=tmp_path / "log"
    )
    stubborn.wait_until(lambda: "up" in stubborn.log_text(), seconds=10)

    assert stubborn.stop(grace=0.2) == -signal.SIGKILL


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
