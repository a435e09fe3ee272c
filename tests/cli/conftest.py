"""Fixtures: `simulate`, run on objects; logging as it was before."""

import pytest
import yaml
from typer.testing import CliRunner

from dra_operator.cli.simulate import app


@pytest.fixture(autouse=True)
def own_logging(logging_is_put_back):
    """A command sends logs to its own stderr."""


@pytest.fixture
def simulate(tmp_path):
    """Return a function that simulates some objects."""

    def run(*bodies, options=()):
        file = tmp_path / "state.yaml"
        file.write_text(yaml.safe_dump_all(bodies))
        return CliRunner().invoke(app, ["-f", str(file), *options])

    return run
