"""Where claims have more of a counter or of a shared device than there is, that is told, and nothing is taken back."""

import asyncio

import pytest
from cycle_bench import event_reasons, writes
from table import DRIVER, USER, Table, has, said, slices

from cluster import CLASS, claim, node
from dra_operator.allocator.decision import Allocated
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import Stored
from dra_operator.controller import allocation_checks
from dra_operator.controller.allocation_checks import LASTING_SECONDS


@pytest.fixture
def table(bench):
    """A pool of which nothing is in use."""
    return Table(bench)


def test_a_counter_that_is_overdrawn_is_told_on_the_claims(table):
    """Both are told what of which pool is too little, and for whom, once."""
    table.put("ours", "half-0")
    table.put("theirs", "whole", used=USER)
    effects = table.wait()

    assert writes(effects) == []
    assert said(effects) == dict.fromkeys(
        ("ours", "theirs"),
        "counter gpu-0/memory of pool gpu.example.com/pool-1 on node node-1: 4 published, 6 allocated, "
        "to default/ours (2), default/theirs (4); two allocators serve this driver; nothing is taken back; "
        "delete claims until the others fit, or have the driver publish more",
    )
    assert event_reasons(effects) == ["DeviceOvercommitted"] * 2
    assert event_reasons(table.wait()) == []


def test_claims_of_other_namespaces_are_told_by_number(table):
    """Whoever may read a claim need not know what others have."""
    table.put("ours", 6)
    table.put("theirs", 5, namespace="other")
    table.put("more", 1, namespace="other")
    effects = table.wait()

    assert (
        "to default/ours (6), a claim of another namespace (1), a claim of another namespace (5); "
        in (said(effects)["ours"])
    )
    assert "default/ours" not in said(effects)["theirs"]


def test_a_capacity_that_is_overcommitted_is_told_on_the_claims(table):
    """Of a device that is shared the capacity is told."""
    table.put("ours", 6)
    table.put("theirs", 5, used=USER)
    effects = table.wait()

    assert said(effects)["theirs"].startswith(
        "capacity rate of device gpu.example.com/pool-1/nic on node node-1: 10 published, 11 allocated, to "
        "default/ours (6), default/theirs (5); "
    )


def test_what_is_decided_and_not_stored_is_not_too_much_yet(table):
    """The API server may still refuse one of them."""
    result = DeviceRequestAllocationResult(request="gpu", driver=DRIVER, pool="pool-1", device="half-0")
    allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    table.bench.allocator.answers["ours"] = Allocated("node-1", (allocation,))
    (write,) = writes(table.bench.run(table.bench.delta(claim("ours"))))
    table.put("theirs", "whole", used=USER)
    before = table.wait()
    stored = table.bench.delta(claim("ours"), allocation=dict(write.allocation))
    table.bench.run(stored, Stored(write, {}))

    assert event_reasons(before) == []
    assert event_reasons(table.wait()) == ["DeviceOvercommitted"] * 2


def test_what_a_driver_takes_back_is_told_on_its_slice(table):
    """No claim is to blame, so none is told."""
    table.put("ours", "half-0")
    table.put("theirs", "half-1", used=USER)
    table.publish(memory=3)
    effects = table.wait()

    ((name, sentence),) = said(effects).items()
    assert name == "counters"
    assert (
        "3 published, 4 allocated, to default/ours (2), default/theirs (2); the driver publishes less"
        in sentence
    )
    assert "nothing is taken back" in sentence
    assert b"dra_operator_overcommitments 1.0" in table.bench.metrics.text()


def test_what_is_found_at_the_start_is_told_on_its_slice(bench):
    """Whether a claim or a slice came last is not known any more."""
    held = [
        bench.delta(claim("ours"), allocation=has("half-0")),
        bench.delta(claim("theirs"), allocation=has("whole"), reservedFor=USER),
    ]
    bench.run(*held, *(Delta("ResourceSlice", "", body["metadata"]["name"], body) for body in slices()))
    bench.clock.now += LASTING_SECONDS
    effects = bench.run()

    assert list(said(effects)) == ["counters"]


def test_a_share_more_is_no_news(table):
    """Of a device that stays overcommitted the same claims and the same slice are not told again."""
    table.put("a", 6, used=USER)
    table.publish(rate=5)
    told = event_reasons(table.wait())
    effects = table.put("b", 1, used=USER) + table.wait()

    assert (told, event_reasons(effects)) == (["DeviceOvercommitted"], [])


async def test_nothing_is_said_while_nothing_is_heard_of_slices(cluster, operator, monkeypatch):
    """A driver may have added what a pod got: that is seen when the slices are."""
    monkeypatch.setattr(allocation_checks, "LASTING_SECONDS", 0.1)
    sizes = {"half-0": 2, "half-1": 2}
    cluster.put(node(), CLASS, *slices(memory=2, sizes=sizes), claim("ours"))
    assert await cluster.allocated("ours") == ["half-0"]
    faults = [
        cluster.server.faults.answer(503, times=None, verb=verb, kind="ResourceSlice")
        for verb in ("list", "watch")
    ]
    cluster.server.faults.cut_watches("ResourceSlice")
    await cluster.until(lambda: operator.manager._reflectors["ResourceSlice"].trouble)
    cluster.put(*slices(memory=4, sizes=sizes))
    status = {"allocation": has("half-1"), "reservedFor": USER}
    cluster.put(claim("theirs") | {"status": status})

    await asyncio.sleep(0.5)
    assert cluster.devices("ours") == ["half-0"]
    for fault in faults:
        fault.times = 0
    await cluster.until(lambda: operator.manager._reflectors["ResourceSlice"].trouble is None)
    await asyncio.sleep(0.5)
    assert cluster.devices("ours") == ["half-0"]
    assert not {"DeviceOvercommitted"}.intersection(cluster.reasons("ours") + cluster.reasons("theirs"))
