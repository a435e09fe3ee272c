"""Fixtures: `kubectl dra` on the cluster in memory."""

import asyncio
from functools import partial

import pytest
from click.testing import CliRunner

from dra_operator.cli.kubectl.commands import app
from kubectl_stand_in import KubectlStandIn


@pytest.fixture
def dra(cluster, monkeypatch):
    """Return a function that runs `kubectl dra` on the cluster in memory: its result, with code, stdout and stderr."""
    for module in ("requests", "source"):
        monkeypatch.setattr(
            f"dra_operator.cli.kubectl.{module}.connect", lambda _: KubectlStandIn(cluster.server.url)
        )

    async def call(*arguments, stdin=None):
        run = partial(CliRunner().invoke, app, list(arguments), input=stdin, prog_name="kubectl dra")
        result = await asyncio.to_thread(run)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    return call
