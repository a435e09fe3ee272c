"""Fixtures: `simulate`, run on objects; a cluster with devices, and commands run on it; logging as it was before."""

import asyncio
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner as ClickRunner

# The small cluster of the controller's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from cluster import CLASS, Cluster, access_to, node, resource_slice
from dra_operator.cli.commands import app as commands
from dra_operator.cluster.session import ApiSession
from faulty_server import FaultyServer
from simulation import simulate  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def own_logging(logging_is_put_back):
    """A command sends logs to its own stderr."""


@pytest.fixture
async def cluster():
    """Two nodes: one with two devices, one with one."""
    async with FaultyServer() as server, ApiSession(access_to(server.url)) as session:
        found = Cluster(server, session)
        slices = (
            resource_slice("gpu-0", "gpu-1"),
            resource_slice("gpu-0", name="slice-2", on="node-2", pool="pool-2"),
        )
        found.put(CLASS, node(), node("node-2"), *slices)
        yield found
        server.faults.cut_watches()
        await asyncio.sleep(0.01)


@pytest.fixture
def run(cluster, tmp_path):
    """Return a function that runs a command on that cluster."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.server.kubeconfig())

    async def call(command, *options):
        arguments = [command, "--kubeconfig", str(kubeconfig), *options]
        result = await asyncio.to_thread(ClickRunner().invoke, commands, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return call
