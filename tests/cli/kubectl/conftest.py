"""Fixtures: a certificate authority; `kubectl dra` on the cluster in memory."""

import asyncio
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app

# The authority of the tests of credentials.
sys.path.insert(0, str(Path(__file__).parents[2] / "cluster"))

from authority import Authority


@pytest.fixture
def authority(tmp_path):
    """A certificate authority, its files in a folder of its own."""
    folder = tmp_path / "authority"
    folder.mkdir()
    return Authority(folder)


@pytest.fixture
def dra(cluster, tmp_path):
    """Return a function that runs `kubectl dra` on the cluster in memory: its result, with code, stdout and stderr."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.server.kubeconfig())

    async def call(*arguments, live=True):
        given = [*arguments, "--kubeconfig", str(kubeconfig)] if live else list(arguments)
        result = await asyncio.to_thread(CliRunner().invoke, app, given, prog_name="kubectl dra")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return call
