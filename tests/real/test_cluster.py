"""Writes to a real API server: what the unit tests assume of it is so."""

import asyncio

import pytest

import factories
from dra_operator.api.kinds import KINDS
from dra_operator.api.names import FINALIZER
from dra_operator.api.read import read_object
from dra_operator.cluster import writes
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.writer import Writer

CLAIMS = Served(KINDS["ResourceClaim"], "v1")
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}


def allocation(device="gpu-0"):
    """An allocation as the operator writes it."""
    given = factories.result(device, "pool")
    return factories.allocation(given, allocationTimestamp="2026-01-01T00:00:00Z")


def allocate(body, device="gpu-0"):
    """The decision to give a claim a device."""
    decided = read_object({**body, "status": {"allocation": allocation(device)}}, "ResourceClaim")
    return writes.allocate(read_object(body, "ResourceClaim"), decided.status.allocation)


@pytest.fixture
def make_claim(client, namespace):
    """Create a claim and return it as stored."""

    def make(**metadata):
        metadata |= {"name": "claim", "namespace": namespace}
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "spec": SPEC,
            "metadata": metadata,
        }
        return client.create(CLAIMS.path(namespace), body)

    return make


@pytest.fixture
def read(client, namespace):
    """Return the claim as it is stored now."""
    return lambda: client.get(CLAIMS.path(namespace, "claim"))


async def at_once():
    """Permit everything: this operator is the only one."""


async def write(session, change, seconds=60):
    """Do one write and return its outcome."""
    outcomes = asyncio.Queue()
    writer = Writer(session, CLAIMS, outcomes.put_nowait, may_write=at_once, concurrency=1, timeout=seconds)
    writer.submit(change)
    async with asyncio.timeout(30):
        return await outcomes.get()


async def test_allocation_is_stored(session, make_claim, read):
    """A decision arrives whole: finalizer, devices, node selector, timestamp, in the name of the operator."""
    outcome = await write(session, allocate(make_claim()))

    assert isinstance(outcome, writes.Stored)
    claim = read()
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["allocation"] == allocation()
    assert outcome.body["metadata"]["resourceVersion"] == claim["metadata"]["resourceVersion"]
    assert {
        (entry["manager"], entry.get("subresource", "")) for entry in claim["metadata"]["managedFields"]
    } >= {("dra-operator", ""), ("dra-operator", "status")}


async def test_invalid_allocation_is_refused(session, make_claim):
    """What the API server does not accept is refused in its words."""
    outcome = await write(session, allocate(make_claim(finalizers=[FINALIZER]), device="Not A Name"))

    assert isinstance(outcome, writes.Denied)
    assert "status.allocation.devices.results[0].device" in outcome.message


async def test_write_to_a_silent_server_happens_once(session, control_plane, make_claim, read):
    """Patches that a frozen server took and answered to nobody may all be carried out later: one counts."""
    claim = make_claim(finalizers=[FINALIZER])
    with control_plane.frozen():
        pending = asyncio.create_task(write(session, allocate(claim), seconds=0.5))
        await asyncio.sleep(3)
        assert not pending.done()

    assert isinstance(await pending, writes.Stored)
    assert read()["status"]["allocation"] == allocation()
