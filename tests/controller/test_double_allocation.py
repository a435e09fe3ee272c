"""Two claims that hold one device are told so, and nothing is cleared beside another holder."""

import pytest
from cycle_bench import event_reasons, writes
from table import said

from cluster import FINALIZER, allocation, claim, resource_slice
from dra_operator.allocator import Allocated
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.writes import DeallocateWrite, Written
from dra_operator.controller.event_dedup import EventDeduplicator

USER = [{"resource": "pods", "name": "pod", "uid": "1"}]
GOING = {"deletionTimestamp": "2026-01-02T00:00:00Z", "finalizers": [FINALIZER]}


def holder(bench, name, used=None, device="gpu-0", share=None, **metadata):
    """A claim that has a device, or a share of it."""
    allocated = allocation(device)
    if share:
        allocated["devices"]["results"][0]["shareID"] = share
    return bench.delta(claim(name, **metadata), allocation=allocated, reservedFor=used)


def cleared(effects):
    """The claims that are let go."""
    return [write.name for write in writes(effects, DeallocateWrite)]


@pytest.mark.parametrize("used", [None, USER], ids=["unused", "used by a pod"])
def test_both_claims_are_told_and_neither_is_written_to(bench, used):
    """Who uses a device only a person can tell; kube-scheduler would forget the device with either of them."""
    bench.run(holder(bench, "a"))
    effects = bench.run(holder(bench, "b", used=used))

    assert len(effects) == 2
    assert said(effects) == {
        name: f"device gpu.example.com/pool-1/gpu-0 is allocated to default/{name} and to default/{other}; two "
        "allocators serve this driver; nothing is taken back: let no new pod start there, end what uses any of these "
        "claims, and then restart kube-scheduler (docs/operator.md, Two holders)"
        for name, other in (("a", "b"), ("b", "a"))
    }
    assert bench.metric("device_collisions") == 1


def test_a_claim_of_another_namespace_is_not_named(bench):
    """Whoever may read a claim need not know what others have."""
    claims = [
        holder(bench, "a"),
        holder(bench, "b", namespace="other"),
        holder(bench, "c", namespace="third"),
    ]
    found = said(bench.run(*claims))

    assert "to default/a and to 2 claims of other namespaces;" in found["a"]
    assert "default" not in found["b"]


def test_a_device_held_alone_beside_a_share_is_held_twice(bench):
    """A driver made it shareable, or exclusive, while it was held."""
    effects = bench.run(holder(bench, "alone"), holder(bench, "sharing", share="s"))

    assert sorted(said(effects)) == ["alone", "sharing"]


def test_shares_of_one_device_are_no_collision(bench):
    """That is what they are for."""
    effects = bench.run(holder(bench, "a", share="s"), holder(bench, "b", share="t"))

    assert event_reasons(effects) == []


def test_a_deleted_claim_is_not_cleared_beside_another_holder(bench):
    """It says so, and is cleared once it is the only one."""
    bench.run(holder(bench, "ours"), holder(bench, "theirs", used=USER))
    effects = bench.run(holder(bench, "ours", **GOING))
    assert (cleared(effects), list(said(effects))) == ([], ["ours"])
    assert "keeps its allocation until no other claim has the device" in said(effects)["ours"]

    assert cleared(bench.run()) == []
    assert cleared(bench.run(Delta("ResourceClaim", "default", "theirs", None))) == ["ours"]


@pytest.mark.parametrize("share", ["ours", "theirs"])
def test_a_deleted_claim_is_not_cleared_beside_a_share(bench, share):
    """Nor a share beside who has the device alone."""
    claims = [
        holder(bench, name, share="s" if name == share else None, **({} if name == "theirs" else GOING))
        for name in ("ours", "theirs")
    ]
    assert cleared(bench.run(*claims)) == []


def test_two_deleted_claims_do_not_wait_for_each_other(bench):
    """Neither can be used any more."""
    bench.run(holder(bench, "a", **GOING), holder(bench, "b"))

    assert sorted(cleared(bench.run(holder(bench, "b", **GOING)))) == ["a", "b"]


def test_a_deleted_claim_waits_for_one_that_is_deleted_and_in_use(bench):
    """Its pod still runs."""
    effects = bench.run(holder(bench, "a", **GOING), holder(bench, "b", used=USER, **GOING))

    assert cleared(effects) == []


def test_a_deleted_claim_is_cleared_beside_one_that_shares_with_it(bench):
    """A share is a thing of its own for kube-scheduler."""
    effects = bench.run(holder(bench, "a", share="s", **GOING), holder(bench, "b", share="t"))

    assert cleared(effects) == ["a"]


def test_a_deleted_claim_without_devices_is_let_go(bench):
    """There is nothing to be cleared of it."""
    effects = bench.run(holder(bench, "theirs"), bench.delta(claim("ours", **GOING)))

    assert cleared(effects) == ["ours"]


def test_what_is_decided_and_not_stored_is_no_collision_yet(bench):
    """The API server may still refuse one of the two; what others have twice is told meanwhile."""
    result = DeviceRequestAllocationResult(
        request="gpu", driver="gpu.example.com", pool="pool-1", device="gpu-0"
    )
    decision = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
    bench.allocator.answers["ours"] = Allocated("node-1", (decision,))
    (write,) = writes(bench.run(bench.delta(claim("ours"))))
    before = bench.run(
        holder(bench, "theirs", used=USER),
        *(holder(bench, name, used=USER, device="gpu-1") for name in ("a", "b")),
    )
    stored = bench.delta(claim("ours"), allocation=dict(write.allocation))
    after = bench.run(stored, Written(write, {}))

    assert {effect.subject.name for effect in before} == {"a", "b"}
    assert event_reasons(after) == ["Allocated", *["DeviceAllocatedTwice"] * 2]


@pytest.mark.parametrize("broken", [False, True], ids=["", "after a defect"])
def test_what_comes_again_is_told_again(bench, monkeypatch, broken):
    """An end is not told, so another beginning is; also of what was told when a pass could not go on."""
    bench.run(holder(bench, "a", used=USER))
    report = EventDeduplicator.report_problem

    def report_and_break(*given):
        report(*given)
        raise RuntimeError

    bench.may_break = broken
    with monkeypatch.context() as patch:
        if broken:
            patch.setattr(EventDeduplicator, "report_problem", report_and_break)
        first = event_reasons(bench.run(holder(bench, "b", used=USER)))
    bench.clock.now += 3600
    bench.run(Delta("ResourceClaim", "default", "b", None))
    second = event_reasons(bench.run(holder(bench, "b", used=USER)))

    assert first.count("DeviceAllocatedTwice") == (1 if broken else 2)
    assert second.count("DeviceAllocatedTwice") == 2


async def test_a_device_that_two_claims_hold_is_told_on_both(cluster, operator, gpu):
    """The API server does not stop two allocators; the operator notices, stays ready, and decides the next claim."""
    cluster.put(claim("one"), claim("two", labels={"dra-operator.io/allocate": "false"}))
    await cluster.allocated("one")
    cluster.change("ResourceClaim", "one", lambda body: body["status"].update(reservedFor=USER), "default")
    status = {"allocation": allocation()}
    cluster.change("ResourceClaim", "two", lambda body: body.update(status=status), "default")

    for name in ("one", "two"):
        await cluster.until(lambda name=name: "DeviceAllocatedTwice" in cluster.reasons(name))
    (told,) = (event for event in cluster.events("one") if event["reason"] == "DeviceAllocatedTwice")
    assert "end what uses any of these claims" in told["message"]
    assert b"dra_operator_device_collisions 1.0" in operator.manager.metrics.text()
    versions = [cluster.claim(name)["metadata"]["resourceVersion"] for name in ("one", "two")]
    cluster.put(resource_slice("gpu-0", "gpu-1", generation=2), claim("three"))
    assert await cluster.allocated("three") == ["gpu-1"]
    assert operator.manager.unready() == []
    assert versions == [cluster.claim(name)["metadata"]["resourceVersion"] for name in ("one", "two")]


def test_devices_that_claims_have_twice_are_counted(bench):
    """Until one of them has it alone."""
    claims = [
        holder(bench, f"{name}-{device}", used=USER, device=device) for name in "ab" for device in ("x", "y")
    ]
    bench.run(*claims)
    assert bench.metric("device_collisions") == 2

    bench.run(*[Delta("ResourceClaim", "default", f"b-{device}", None) for device in ("x", "y")])
    assert bench.metric("device_collisions") == 0
