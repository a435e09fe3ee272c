"""The end of the operator: it waits for the pass that runs, but not for long."""

import threading

import pytest
from structlog.testing import capture_logs

from cluster import CLASS, Operator, claim, node, resource_slice


@pytest.fixture
async def hasty(cluster):
    """An operator that is ready, and waits for nothing when it stops."""
    operator = await Operator(cluster.server.url, drain_seconds=0).start()
    await operator.ready()
    await operator.settled()
    yield operator
    await operator.runtime.close()


async def close(operator):
    """Stop an operator; return what it logs."""
    with capture_logs() as logs:
        await operator.runtime.close()
    return [line["event"] for line in logs]


async def test_without_a_pass_there_is_none_to_be_left_unfinished(hasty):
    """Also where no pass is waited for."""
    assert await close(hasty) == ["stopping", "stopped"]


async def test_a_pass_that_runs_is_left_unfinished(cluster, hasty, monkeypatch):
    """Which is told, and takes no longer than it may."""
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(hasty.runtime._passes, "run", lambda *_: (begun.set(), go_on.wait(5)))
    cluster.put(node(), CLASS, resource_slice("gpu-0"), claim())
    await cluster.until(begun.is_set)

    assert await close(hasty) == ["stopping", "pass left unfinished", "stopped"]
    go_on.set()
