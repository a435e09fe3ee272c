"""Fixtures: `simulate`, run on objects."""

import pytest
import yaml
from typer.testing import CliRunner

from dra_operator.cli.simulate import app


@pytest.fixture
def simulate(tmp_path):
    """Return a function that simulates some objects."""

    def run(*bodies, options=()):
        file = tmp_path / "state.yaml"
        file.write_text(yaml.safe_dump_all(bodies))
        return CliRunner().invoke(app, ["-f", str(file), *options])

    return run
