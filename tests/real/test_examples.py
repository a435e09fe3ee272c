"""The examples, as the real API server takes them: a server-side dry run with strict validation."""

import re
from pathlib import Path

import pytest
import yaml

from controlplane.plane import KubectlError

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path for path in EXAMPLES.rglob("*.yaml") if path.parent.name != "1.37")
REFUSED = {
    "admin-access/3-monitor.yaml": "admin access to devices requires",
    "broken/refused/claim.yaml": "spec.devices.requests[0].exactly.selectors[0].cel.expression",
}
"""Those that the API server refuses, as their comments say, and what it says."""
NEW_IN_1_37 = {
    "compatibility-groups": 'unknown field "spec.devices[0].consumesCounters[0].compatibilityGroups"',
    "derived-attributes": 'unknown field "spec.devices.requests[0].exactly.derivedAttributes"',
    "node-allocatable-resources": 'unknown field "spec.devices[0].nodeAllocatableResources"',
    "skip-node-operations": 'unknown field "spec.skipNodeOperations"',
    "taint-rule-v1": 'no matches for kind "DeviceTaintRule" in version "resource.k8s.io/v1"',
}
"""What the API server of 1.36 does not know, in those that need 1.37."""


def named(path):
    """Return the name of an example below examples/."""
    return path.relative_to(EXAMPLES).as_posix()


@pytest.fixture
def dry_run(control_plane, client):
    """Return a function that applies a file without storing anything; its namespaces must exist."""
    made = []

    def apply(path):
        for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if body and body["kind"] == "Namespace":
                client.create("/api/v1/namespaces", body)
                made.append(body["metadata"]["name"])
        return control_plane.kubectl("apply", "--dry-run=server", "--validate=strict", f"--filename={path}")

    yield apply
    for name in made:
        client.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize("path", [path for path in FILES if named(path) not in REFUSED], ids=named)
def test_api_server_takes_the_example(dry_run, path):
    """Every object of the file passes validation and admission, and no field of it is unknown."""
    objects = [body for body in yaml.safe_load_all(path.read_text(encoding="utf-8")) if body]

    lines = dry_run(path).splitlines()

    assert len(lines) == len(objects)
    assert all(re.search(r"(created|configured|unchanged) \(server dry run\)$", line) for line in lines)


@pytest.mark.parametrize("name", REFUSED)
def test_api_server_refuses_the_example(dry_run, name):
    """What is there to show a refusal is refused, for the reason that it shows."""
    with pytest.raises(KubectlError) as refusal:
        dry_run(EXAMPLES / name)

    assert REFUSED[name] in str(refusal.value)


@pytest.mark.parametrize("name", NEW_IN_1_37)
def test_example_of_1_37_is_unknown_before(dry_run, name):
    """The files of examples/1.37 need 1.37: an older API server says which field or version it does not know."""
    with pytest.raises(KubectlError) as refusal:
        dry_run(EXAMPLES / "1.37" / f"{name}.yaml")

    assert NEW_IN_1_37[name] in str(refusal.value)
