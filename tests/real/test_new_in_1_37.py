"""What is new in Kubernetes 1.37, on its API server: what is published there, decided, stored and read again."""

import json
import re

from click.testing import CliRunner

from controlplane.scene import EXAMPLES, RESOURCE, allocation
from dra_operator.cli.commands import app

EXAMPLES_OF_1_37 = sorted(EXAMPLES.glob("1.37/*.yaml"))


def run(*arguments):
    """Return what a command prints."""
    return CliRunner().invoke(app, list(map(str, arguments))).stdout


def rows(table, namespace):
    """Return the rows of a table, with claims that hold their devices as if they had just got them."""
    found = [re.sub(" {2,}", "  ", line).replace("  held  ", "  allocated  ") for line in table.splitlines()]
    return sorted(line.replace(f"{namespace}/", "default/") for line in found[1:])


def test_examples_come_out_as_they_say(scene, start_operator, tmp_path):
    """The operator decides as their comments say; `snapshot` keeps it, and `simulate` decides the rest alike."""
    # Why a claim waits names those that hold devices then: all claims of a file come before the first decision.
    start_operator("--quiet-seconds=0.5", "--latest-seconds=20").wait_ready()
    state = tmp_path / "state.yaml"
    for example in EXAMPLES_OF_1_37:
        expected = re.findall(r"^#   (default/.*)", example.read_text(encoding="utf-8"), re.MULTILINE)
        scene.apply("nodes.yaml", example)
        for line in expected:
            claim, outcome = line.removeprefix("default/").split("  ")[:2]
            if outcome == "allocated":
                scene.wait_allocated(claim)
            else:
                scene.wait_pending(claim, line.split(": ", 1)[1])

        run("snapshot", "--kubeconfig", scene.plane.admin_kubeconfig, "--out", state)

        assert rows(run("simulate", "-f", state), scene.namespace) == sorted(expected)
        scene.plane.kubectl("delete", f"--filename={example}", f"--namespace={scene.namespace}")


DRIVER = "new.example.com"
REQUEST = {
    "name": "part",
    "exactly": {
        "deviceClassName": DRIVER,
        "capacity": {"requests": {"units": "250m"}},
        "derivedAttributes": [
            {
                "name": "team.example.com/numa",
                "expression": f'int(device.attributes["{DRIVER}"].socket)',
            }
        ],
        "tolerations": [{"key": "example.com/odd", "operator": "Exists"}],
    },
}
SLICE = {
    "driver": DRIVER,
    "allNodes": True,
    "pool": {"name": "all", "generation": 1, "resourceSliceCount": 1},
    "skipNodeOperations": ["NodePrepareResources", "NodeUnprepareResources"],
    "devices": [
        {
            "name": "device-0",
            "attributes": {"socket": {"string": "1"}},
            "allowMultipleAllocations": True,
            "capacity": {
                "units": {
                    "value": "1",
                    "requestPolicy": {"default": "100m", "validRange": {"min": "100m", "step": "100m"}},
                }
            },
            "taints": [{"key": "example.com/odd", "effect": "NoSchedule"}],
            "bindingConditions": ["example.com/ready"],
            "bindingFailureConditions": ["example.com/failed"],
        }
    ],
}


def test_a_claim_keeps_what_is_new(scene, operator):
    """Its spec stays as it was though its metadata is sent in protobuf; no field of its allocation is dropped."""
    assert operator.exit_code is None
    scene.apply("nodes.yaml")
    client = scene.client
    client.create(f"{RESOURCE}/resourceslices", {"metadata": {"name": "new"}, "spec": SLICE})
    constraint = {"matchAttribute": "team.example.com/numa"}
    config = [{"opaque": {"driver": DRIVER, "parameters": "@"}}]
    spec = {"devices": {"requests": [REQUEST], "constraints": [constraint], "config": config}}
    body = json.dumps({"metadata": {"name": "new"}, "spec": spec}).replace('"@"', '{"b": 2, "a": 1.0}')
    created = client.create(scene.claims, body.encode())
    scene.wait_pending("new")

    client.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": DRIVER}, "spec": {}})

    claim = scene.wait_allocated("new")
    assert claim["spec"] == created["spec"]
    assert b'{"b": 2, "a": 1.0}' in client.bytes_of(f"{scene.claims}/new")
    (result,) = allocation(claim)["devices"]["results"]
    assert result.pop("shareID")
    assert result == {
        "request": "part",
        "driver": DRIVER,
        "pool": "all",
        "device": "device-0",
        "consumedCapacity": {"units": "300m"},
        "skipNodeOperations": SLICE["skipNodeOperations"],
        "tolerations": REQUEST["exactly"]["tolerations"],
        "bindingConditions": ["example.com/ready"],
        "bindingFailureConditions": ["example.com/failed"],
    }
    assert "Skip Node Operations:" in scene.describe("new")
    scene.delete_claim("new")
    scene.wait_gone("new")
