"""The dry run: everything is decided, nothing is written."""

import pytest

from cluster import CLASS, Operator, allocation, claim, node, pod, resource_slice
from dra_operator.controller.dry_run import DryRun

WRITES = ("create", "update", "patch")


@pytest.fixture
async def dry(cluster):
    """An operator that writes nothing, on a node with two devices, and what it would tell, as (name, reason)."""
    told = []
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1"))
    before = dict(cluster.server.requests)
    run = DryRun(lambda notice: told.append((notice.subject.name, notice.reason)))
    operator = Operator(cluster.server.url, leader_election="none", dry_run=run)

    async def begin():
        await operator.start()
        await operator.ready()
        return told

    yield begin
    await operator.manager.close()
    asked = {name.partition(" ")[0] for name in cluster.server.requests if name not in before}
    assert asked.isdisjoint(WRITES)


async def test_what_would_be_told_is_shown_and_nothing_is_written(cluster, dry):
    """What is decided counts for the next decision, though the cluster does not know it."""
    cluster.put(claim("first"), claim("second"), claim("third"))
    told = await dry()

    await cluster.until(lambda: len(told) == 3)
    await cluster.stays(lambda: len(told) == 3)
    assert sorted(told) == [("first", "Allocated"), ("second", "Allocated"), ("third", "DeviceInUse")]
    assert cluster.devices("first") == []


async def test_what_a_claim_says_already_is_shown_all_the_same(cluster, dry):
    """An operator that writes has told so by an Event; whoever tries a dry run has not seen it."""
    text = "request gpu: device class absent does not exist"
    cluster.put(
        claim("waits", request={"deviceClassName": "absent"}, annotations={"dra-operator.io/pending": text})
    )
    told = await dry()

    await cluster.until(lambda: told == [("waits", "ClassNotFound")])


async def test_a_claim_that_is_deleted_gives_back_what_it_would_have(cluster, dry):
    """And one of its name that is made anew is decided anew."""
    cluster.put(claim("first"), claim("second"))
    told = await dry()
    await cluster.until(lambda: len(told) == 2)

    await cluster.delete("first")
    cluster.put(claim("third"))
    await cluster.until(lambda: ("third", "Allocated") in told)
    await cluster.delete("second")
    cluster.put(claim("second"))
    await cluster.until(lambda: told.count(("second", "Allocated")) == 2)


async def test_what_another_allocates_counts_more_than_what_was_only_decided(cluster, dry):
    """Nobody else knows of these devices; so the claim gets another one, and no collision is told."""
    cluster.put(claim("first"))
    told = await dry()
    await cluster.until(lambda: told == [("first", "Allocated")])

    cluster.put(pod(uses="second"), {**claim("second"), "status": {"allocation": allocation("gpu-0")}})
    await cluster.until(lambda: told.count(("first", "Allocated")) == 2)
    cluster.put(pod("other", uses="third"), {**claim("third"), "status": {"allocation": allocation("gpu-1")}})
    await cluster.until(lambda: told[-1] == ("first", "DeviceInUse"))
    assert "DeviceAllocatedTwice" not in [reason for _, reason in told]


async def test_nothing_waits_for_what_an_earlier_operator_may_have_sent(cluster, dry):
    """A claim with the finalizer and without devices is decided at once, and keeps it."""
    cluster.put(claim("left", finalizers=["resource.kubernetes.io/delete-protection"]))
    told = await dry()

    await cluster.until(lambda: told == [("left", "Allocated")])
    assert cluster.claim("left")["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
