"""The end of an outage: whatever waits goes on with the first good answer, and waits out no pause of its own."""

import asyncio
import time

import pytest

from cluster import CLASS, Operator, claim, node, resource_slice
from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.events import EventRecorder
from dra_operator.cluster.reflector import Reflector
from dra_operator.cluster.writer import Writer
from dra_operator.controller.settings import Tuning

LONG = Backoff(base=200.0, cap=200.0)
"""Pauses as they are after an outage of minutes."""
CONCURRENCY = Tuning().write_concurrency
SECONDS = 90.0
"""Far more than a period of the Lease and the second of a pause that is taken in any case, however slow the machine."""


@pytest.fixture
async def operator(cluster, monkeypatch):
    """An operator, ready, whose pauses are long from the first on."""
    for part in (Reflector, Writer, EventRecorder):
        monkeypatch.setitem(part.__init__.__kwdefaults__, "backoff", LONG)
    monkeypatch.setattr("dra_operator.cluster.events.PATIENCE_SECONDS", 0.1)
    devices = [f"gpu-{number}" for number in range(CONCURRENCY + 1)]
    cluster.put(node(), CLASS, resource_slice(*devices))
    operator = await Operator(cluster.server.url).start()
    await operator.ready()
    yield operator
    await operator.manager.close()


async def test_the_first_claim_after_an_outage_is_allocated_at_once(cluster, operator):
    """So are those whose writes held all slots meanwhile, and the Event that was not taken is there."""
    faults = cluster.server.faults
    outage = [
        faults.answer(503, times=None, verb=verb) for verb in ("create", "get", "list", "patch", "update")
    ]
    names = [f"early-{number}" for number in range(CONCURRENCY)]
    cluster.put(*map(claim, names), claim("hopeless", request={"deviceClassName": "absent"}))
    await cluster.until(lambda: operator.manager._writers["resourceclaims"].in_flight == CONCURRENCY)
    await cluster.until(lambda: outage[0].met)
    outage.append(faults.answer(503, times=None, verb="watch"))
    faults.cut_watches()
    await cluster.until(lambda: operator.manager._reflectors["ResourceClaim"].trouble)
    await asyncio.sleep(1)

    begun = time.monotonic()
    for fault in outage:
        fault.times = 0
    cluster.put(claim("first"))
    for name in ("first", *names):
        await cluster.allocated(name)
    await cluster.until(lambda: "ClassNotFound" in cluster.reasons("hopeless"))
    assert time.monotonic() - begun < SECONDS
