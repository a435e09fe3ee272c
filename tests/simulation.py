"""What tests of `simulate` give it, and how they read its table."""

import pytest
import yaml
from click.testing import CliRunner

import factories
from dra_operator.cli.simulate import app
from factories import V1, allocation, result

__all__ = ["CLASS", "V1", "claim", "devices", "holding", "node", "simulate", "states", "table"]
CLASS = factories.device_class()


def node(name, **spec):
    """A node."""
    return factories.manifest("Node", name, spec)


def devices(*names, on="node-1", **where):
    """A slice that is a pool."""
    return factories.resource_slice(f"slice-{on}", [{"name": name} for name in names], pool=on, **where)


def claim(name, count=1, *, status=None, **metadata):
    """A claim for some devices."""
    return factories.claim(name, factories.request(count=count), status=status, **metadata)


def holding(device, **metadata):
    """A claim that has a device already."""
    return claim("holder", status={"allocation": allocation(result(device))}, **metadata)


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
