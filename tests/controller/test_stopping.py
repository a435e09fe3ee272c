"""The end of the operator: it waits for the pass that runs, but not for long."""

import subprocess
import sys
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
    await operator.manager.close()


async def close(operator):
    """Stop an operator; return what it logs."""
    with capture_logs() as logs:
        await operator.manager.close()
    return [line["event"] for line in logs]


async def test_a_pass_that_runs_is_left_unfinished(cluster, hasty, monkeypatch):
    """Which is told, and takes no longer than it may."""
    begun, go_on = threading.Event(), threading.Event()
    monkeypatch.setattr(hasty.manager._cycle, "run", lambda *_: (begun.set(), go_on.wait(5)))
    cluster.put(node(), CLASS, resource_slice("gpu-0"), claim())
    await cluster.until(begun.is_set)

    assert await close(hasty) == ["stopping", "pass left unfinished", "stopped"]
    go_on.set()


LONG_PASS = """
import asyncio, threading, time
from dra_operator.controller.loop import Loop
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.settings import Tuning

class SchedulingCycle:
    def run(self, items, emit, stopping):
        print("begun", flush=True)
        begun.set()
        time.sleep(600)

begun = threading.Event()

async def main():
    loop = Loop(SchedulingCycle(), print, metrics=Metrics(), tuning=Tuning(0, 0, 1000))
    loop.open()
    running = asyncio.create_task(loop.run())
    while not begun.is_set():
        await asyncio.sleep(0.01)
    loop.stop()
    running.cancel()

asyncio.run(main())
"""


def test_a_pass_that_is_left_unfinished_does_not_hold_up_the_process():
    """Else it would end when the pass does, which may be later than the kubelet kills it."""
    command = [sys.executable, "-c", LONG_PASS]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "begun\n", "")
