"""The examples, as the real API server takes them: a server-side dry run with strict validation."""

import json
from pathlib import Path

import pytest
import yaml

from controlplane.plane import KubectlError

EXAMPLES = Path(__file__).parents[2] / "examples"
FOREIGN = {"jobset.yaml", "leaderworkerset.yaml"}
FILES = sorted(
    path for path in EXAMPLES.rglob("*.yaml") if path.parent.name != "kinds" and path.name not in FOREIGN
)
"""But those of our own kinds and of other projects, which are not on this API server."""
DROPPED = {"gangs/podgroup.yaml": {".spec.schedulingConstraints"}}
"""What docs/gangs.md says that the API server drops, as the feature is off by default."""
REFUSED = {
    "admin-access/3-monitor.yaml": "admin access to devices requires",
    "broken/refused/claim.yaml": "spec.devices.requests[0].exactly.selectors[0].cel.expression",
}
"""Those that the API server refuses, as their comments say, and what it says."""


def named(path):
    """Return the name of an example below examples/."""
    return path.relative_to(EXAMPLES).as_posix()


def absent(given, answer, path=""):
    """Yield the fields of an object that the answer does not have: those that are switched off are dropped silently."""
    if isinstance(given, dict):
        for name, value in given.items():
            if name not in answer:
                yield f"{path}.{name}"
            else:
                yield from absent(value, answer[name], f"{path}.{name}")
    elif isinstance(given, list):
        for index, value in enumerate(given):
            yield from absent(value, answer[index], f"{path}[{index}]")


@pytest.fixture(scope="module")
def nodes(control_plane):
    """Create the nodes of the examples, which devices that consume resources of theirs need."""
    client = control_plane.client
    bodies = list(yaml.safe_load_all((EXAMPLES / "nodes.yaml").read_text(encoding="utf-8")))
    for body in bodies:
        client.create("/api/v1/nodes", body)
    yield
    for body in bodies:
        client.delete(f"/api/v1/nodes/{body['metadata']['name']}")


@pytest.fixture
def dry_run(control_plane, client, nodes):
    """Return a function that applies a file without storing anything; its namespaces must exist."""
    made = []

    def apply(path):
        for body in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            if body and body["kind"] == "Namespace":
                client.create("/api/v1/namespaces", body)
                made.append(body["metadata"]["name"])
        return control_plane.kubectl(
            "apply", "--dry-run=server", "--validate=strict", "--output=json", f"--filename={path}"
        )

    yield apply
    for name in made:
        client.delete(f"/api/v1/namespaces/{name}")


@pytest.mark.parametrize("path", [path for path in FILES if named(path) not in REFUSED], ids=named)
def test_api_server_takes_the_example(dry_run, path):
    """Every object of the file passes validation and admission, and no field of it is unknown or dropped.

    But for a status, as of a cluster in use: that is not for whoever applies an object to write.
    """
    objects = [body for body in yaml.safe_load_all(path.read_text(encoding="utf-8")) if body]

    answer = json.loads(dry_run(path))

    answers = answer["items"] if answer["kind"] == "List" else [answer]
    assert len(answers) == len(objects)
    given = [{name: value for name, value in body.items() if name != "status"} for body in objects]
    dropped = {field for body, stored in zip(given, answers, strict=True) for field in absent(body, stored)}
    assert dropped == DROPPED.get(named(path), set())


@pytest.mark.parametrize("name", REFUSED)
def test_api_server_refuses_the_example(dry_run, name):
    """What is there to show a refusal is refused, for the reason that it shows."""
    with pytest.raises(KubectlError) as refusal:
        dry_run(EXAMPLES / name)

    assert REFUSED[name] in str(refusal.value)
