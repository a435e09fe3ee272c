"""Events on a real API server, as kubectl shows them."""

import asyncio

import pytest
from structlog.testing import capture_logs

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.events import MESSAGE_BYTES, EventRecorder
from factories import claim, request

CLAIMS = Served(KINDS["ResourceClaim"], "v1")


@pytest.fixture
def make_claim(client, namespace):
    """Create a claim and return it as stored."""

    def make():
        body = claim("claim", request("gpu", "gpu.example.com"), namespace=namespace)
        return client.create(CLAIMS.path(namespace), body)

    return make


async def until(condition):
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - a condition of any shape
            await asyncio.sleep(0.02)


class Subject:
    """A claim as the subject of an Event."""

    def __init__(self, body):
        self.kind = body["kind"]
        self.namespace = body["metadata"].get("namespace", "")
        self.name = body["metadata"]["name"]
        self.uid = body["metadata"]["uid"]


@pytest.fixture
async def recorder(session):
    """A recorder that runs for as long as the test."""
    made = EventRecorder(session)
    task = asyncio.create_task(made.run())
    yield made
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_api_server_takes_the_longest_message(recorder, make_claim, client, namespace):
    """It has a limit for those of events.k8s.io alone."""
    subject = Subject(make_claim())

    recorder.record(subject, "Warning", "NoDevice", "x" * 9999)
    await until(lambda: recorder.counts["created"] == 1)

    (stored,) = client.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    assert len(stored["message"]) == MESSAGE_BYTES - 1


async def test_event_in_a_namespace_that_is_going_is_no_news(recorder, client, namespace):
    """An Event for a claim that outlives the deletion of its namespace is refused without a warning."""
    going = f"{namespace}-going"
    client.create("/api/v1/namespaces", {"metadata": {"name": going, "finalizers": ["example.com/stay"]}})
    client.delete(f"/api/v1/namespaces/{going}")
    subject = Subject({"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": going, "uid": "u"}})

    with capture_logs() as logs:
        recorder.record(subject, "Warning", "NoDevice", "why")
        await until(lambda: recorder.counts["refused"] == 1)
    client.patch(f"/api/v1/namespaces/{going}", {"metadata": {"finalizers": None}})

    assert "because it is being terminated" in logs[0]["why"]
    assert [line["log_level"] for line in logs] == ["debug"]
