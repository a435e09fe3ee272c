"""Of two claims that hold one device, one that nobody uses gives way."""

import pytest
from passbench import notices, writes

from cluster import CLASS, allocation, claim, node, resource_slice
from dra_operator.allocator import Allocated
from dra_operator.api.types import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from dra_operator.cluster.reflector import Delta
from dra_operator.cluster.session import ApiError
from dra_operator.cluster.writes import Forbidden, Refused, ReleaseWrite, Written
from dra_operator.controller import collisions

USER = [{"resource": "pods", "name": "pod", "uid": "1"}]
OPTED_OUT = {"dra-operator.io/allocate": "false"}


def holder(bench, name, at="2026-01-01T00:00:00Z", used=None, device="gpu-0", **metadata):
    """A claim that has a device since then."""
    return bench.delta(
        claim(name, **metadata), allocation=allocation(device) | {"allocationTimestamp": at}, reservedFor=used
    )


def giving(effects):
    """The claims whose allocation is taken back."""
    return [write.name for write in writes(effects, ReleaseWrite)]


def test_the_claim_of_a_pod_keeps_the_device(bench):
    """Whichever came first: the pod is about to run."""
    bench.run(holder(bench, "ours"))
    effects = bench.run(holder(bench, "theirs", "2026-01-02T00:00:00Z", used=USER))

    assert giving(effects) == ["ours"]
    assert notices(effects) == ["DeviceAllocatedTwice"] * 2


def test_of_claims_that_nobody_uses_none_gives_way(bench):
    """Which of them is right only a person can tell: both are told."""
    effects = bench.run(holder(bench, "a", "2026-01-02T00:00:00Z"), holder(bench, "b"))

    assert (giving(effects), notices(effects)) == ([], ["DeviceAllocatedTwice"] * 2)


def test_a_claim_gives_way_as_soon_as_the_other_is_used(bench):
    """Also where neither was used when they were seen to collide, and no device changes hands since."""
    bench.run(holder(bench, "ours"), holder(bench, "theirs"))

    assert giving(bench.run(holder(bench, "theirs", used=USER))) == ["ours"]


def test_every_claim_that_nobody_uses_gives_way_to_one_in_use(bench):
    """However many there are."""
    claims = [holder(bench, name) for name in "cab"]

    assert sorted(giving(bench.run(*claims, holder(bench, "theirs", used=USER)))) == ["a", "b", "c"]


def test_a_claim_that_cannot_be_read_keeps_its_device(bench):
    """It would not be decided again, and who put it together knows what it is for."""
    ours = claim("ours")
    ours["spec"] = {"devices": {"requests": "nonsense"}}
    effects = bench.run(bench.delta(ours, allocation=allocation()), holder(bench, "theirs", used=USER))

    assert giving(effects) == []


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"used": USER}, {"used": USER}),
        ({"labels": OPTED_OUT}, {"used": USER}),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["another"]}, {"used": USER}),
        (
            {},
            {
                "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["resource.kubernetes.io/delete-protection"],
            },
        ),
    ],
    ids=["both in use", "opted out", "being deleted", "about to be given back"],
)
def test_nothing_is_taken_that_must_stay_or_need_not_go(bench, ours, theirs):
    """What is in use is never cleared, and what the operator was told to leave alone is left alone."""
    assert giving(bench.run(holder(bench, "ours", **ours), holder(bench, "theirs", **theirs))) == []


def test_a_claim_gives_way_once_until_the_answer_is_there(bench):
    """Passes go on meanwhile."""
    bench.run(holder(bench, "ours"))

    assert giving(bench.run(holder(bench, "theirs", used=USER))) == ["ours"]
    assert giving(bench.run(holder(bench, "theirs", used=USER))) == []


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
    assert (giving(after), notices(after)) == (["ours"], ["Allocated", *["DeviceAllocatedTwice"] * 2])


@pytest.mark.parametrize("broken", [False, True], ids=["", "after a defect"])
def test_what_comes_again_is_told_again(bench, monkeypatch, broken):
    """An end is not told, so another beginning is; also of what was told when a pass could not go on."""
    bench.run(holder(bench, "a", used=USER))
    tell = collisions.tell

    def told_and_broken(*given):
        tell(*given)
        raise RuntimeError

    bench.may_break = broken
    with monkeypatch.context() as patch:
        if broken:
            patch.setattr(collisions, "tell", told_and_broken)
        first = notices(bench.run(holder(bench, "b", used=USER)))
    bench.clock.now += 3600
    bench.run(Delta("ResourceClaim", "default", "b", None))
    second = notices(bench.run(holder(bench, "b", used=USER)))

    assert first.count("DeviceAllocatedTwice") == (1 if broken else 2)
    assert second.count("DeviceAllocatedTwice") == 2


def test_what_was_refused_is_told_and_tried_again_later(bench, clock):
    """Also if nothing else happens meanwhile."""
    (write,) = writes(bench.run(holder(bench, "ours"), holder(bench, "theirs", used=USER)), ReleaseWrite)
    effects = bench.run(Refused(write, "no"))
    assert (giving(effects), notices(effects)) == ([], ["AllocationRefused"])

    clock.now = bench.wake_at
    assert giving(bench.run()) == ["ours"]


def test_a_right_that_lacks_is_told_once_as_long_as_it_is_wanted(bench, clock):
    """The readiness names it, and no attempt says it again."""
    (write,) = writes(bench.run(holder(bench, "ours"), holder(bench, "theirs", used=USER)), ReleaseWrite)
    error = ApiError(403, "Forbidden", "no", verb="patch", resource="resourceclaims/status")
    told = []
    for _ in range(3):
        told += notices(bench.run(Forbidden(write, error)))
        assert bench.passes.desk.rights.texts()
        clock.now = bench.wake_at
        (write,) = writes(bench.run(), ReleaseWrite)

    assert told == ["Forbidden"]


async def test_a_device_that_two_claims_hold_is_told_on_both(cluster, operator, gpu):
    """The API server does not stop two allocators; the operator notices. What pods use it leaves as it is."""
    cluster.put(claim("one"), claim("two", labels={"dra-operator.io/allocate": "false"}))
    await cluster.allocated("one")
    cluster.change("ResourceClaim", "one", lambda body: body["status"].update(reservedFor=USER), "default")
    status = {"allocation": allocation()}
    cluster.change("ResourceClaim", "two", lambda body: body.update(status=status), "default")

    for name in ("one", "two"):
        await cluster.until(lambda name=name: "DeviceAllocatedTwice" in cluster.reasons(name))
    (told,) = (event for event in cluster.events("one") if event["reason"] == "DeviceAllocatedTwice")
    assert "delete one of the claims" in told["message"]
    assert b"dra_operator_device_collisions 1.0" in operator.runtime.metrics.text()
    await operator.settled()
    assert cluster.devices("one") == cluster.devices("two") == ["gpu-0"]


async def test_a_claim_that_nobody_uses_gives_way_to_that_of_a_pod(cluster, operator):
    """Another allocator gave its device away at the same moment: it gets another one, and both claims were told why."""
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1"), claim("ours"))
    assert await cluster.allocated("ours") == ["gpu-0"]
    cluster.put(claim("theirs") | {"status": {"allocation": allocation(), "reservedFor": USER}})

    await cluster.until(lambda: cluster.devices("ours") == ["gpu-1"], "another device")
    assert cluster.devices("theirs") == ["gpu-0"]
    for name in ("ours", "theirs"):
        await cluster.until(lambda name=name: "DeviceAllocatedTwice" in cluster.reasons(name))
    metric = b"dra_operator_device_collisions 0.0"
    await cluster.until(lambda: metric in operator.runtime.metrics.text(), "the end of the collision")


async def test_a_claim_that_gave_way_waits_where_there_is_no_other_device(cluster, operator, gpu):
    """It says so like any other."""
    cluster.put(claim("ours"))
    await cluster.allocated("ours")
    cluster.put(claim("theirs") | {"status": {"allocation": allocation(), "reservedFor": USER}})

    assert "in use" in await cluster.waits("ours")
    assert cluster.devices("ours") == []


async def test_a_claim_that_is_used_from_now_on_does_not_give_way(cluster, operator):
    """Whoever began to use it was faster than our write, which comes to nothing."""
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1"), claim("ours"))
    await cluster.allocated("ours")
    release = {"verb": "patch", "kind": "ResourceClaim", "subresource": "status"}
    held = cluster.server.faults.delay(0.3, times=1, **release)
    cluster.put(claim("theirs") | {"status": {"allocation": allocation(), "reservedFor": USER}})
    await cluster.until(lambda: held.met, "our write")
    cluster.change("ResourceClaim", "ours", lambda body: body["status"].update(reservedFor=USER), "default")

    conflict = b'dra_operator_writes_total{kind="release",outcome="conflict"} 1.0'
    await cluster.until(lambda: conflict in operator.runtime.metrics.text(), "the conflict")
    await cluster.stays(lambda: cluster.devices("ours") == ["gpu-0"])


def test_devices_that_claims_have_twice_are_counted(bench):
    """Until one of them has it alone."""
    claims = [
        holder(bench, f"{name}-{device}", used=USER, device=device) for name in "ab" for device in ("x", "y")
    ]
    bench.run(*claims)
    assert bench.metric("device_collisions") == 2

    bench.run(*[Delta("ResourceClaim", "default", f"b-{device}", None) for device in ("x", "y")])
    assert bench.metric("device_collisions") == 0
