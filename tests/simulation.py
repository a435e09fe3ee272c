"""What tests of `simulate` give it, and how they read its table."""

import pytest
import yaml
from typer.testing import CliRunner

from dra_operator.cli.simulate import app

V1 = "resource.k8s.io/v1"
CLASS = {
    "apiVersion": V1,
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]},
}


def node(name, **spec):
    """A node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}


def devices(*names, on="node-1", **spec):
    """A slice that is a pool."""
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    where = spec or {"nodeName": on}
    return {
        "apiVersion": V1,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{on}"},
        "spec": {"driver": "gpu.example.com", "pool": pool, "devices": [{"name": n} for n in names], **where},
    }


def claim(name, count=1, *, status=None, **metadata):
    """A claim for some devices."""
    exactly = {"deviceClassName": "gpu", "count": count}
    body = {
        "apiVersion": V1,
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    return body if status is None else {**body, "status": status}


def holding(device, **metadata):
    """A claim that has a device already."""
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-1", "device": device}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}}
    return claim("holder", status={"allocation": allocation}, **metadata)


def table(result):
    """Return the rows of the table as claim, state, node and the rest."""
    return [line.split(None, 3) for line in result.stdout.splitlines()[1:]]


def states(result):
    """Return the state of each claim."""
    return {row[0]: row[1] for row in table(result)}


@pytest.fixture
def simulate(tmp_path):
    """Return a function that simulates some objects."""

    def run(*bodies, options=()):
        file = tmp_path / "state.yaml"
        file.write_text(yaml.safe_dump_all(bodies))
        return CliRunner().invoke(app, ["-f", str(file), *options])

    return run
