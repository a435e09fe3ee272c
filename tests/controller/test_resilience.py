"""What the operator survives: faults of the API server, lost answers, its own sudden death."""

import asyncio
from dataclasses import replace

import aiohttp
import pytest
from structlog.testing import capture_logs

from cluster import CLASS, FINALIZER, Operator, allocation, claim, node, resource_slice
from dra_operator.cluster.reflector import Reflector
from dra_operator.testing.discovery import RESOURCES
from faulty_server import FaultyServer


@pytest.fixture
def gpu(cluster):
    """A node with two devices, and their class."""
    cluster.put(node(), CLASS, resource_slice("gpu-0", "gpu-1"))


# --- faults of writes
# -----------------------------------------------------------------------------------------------------


CONFLICT = b'dra_operator_writes_total{kind="allocate",outcome="conflict"} 1.0'


async def test_a_claim_that_changes_under_the_decision_is_decided_again(cluster, operator, gpu):
    """A label that somebody adds between decision and write is a conflict, and costs one more attempt."""
    held = cluster.server.faults.delay(0.3, times=1, verb="patch", kind="ResourceClaim")
    cluster.put(claim())
    await cluster.until(lambda: held.met, "the write")
    cluster.change(
        "ResourceClaim", "claim", lambda body: body["metadata"].update(labels={"a": "b"}), "default"
    )

    await cluster.allocated()
    assert cluster.claim()["metadata"]["labels"] == {"a": "b"}
    assert CONFLICT in operator.manager.metrics.text()


async def test_a_claim_that_is_recreated_under_the_decision_gets_its_own(cluster, operator, gpu):
    """The write for the old claim is refused by its uid; the new one is decided by itself."""
    held = cluster.server.faults.delay(0.3, times=1, verb="patch", kind="ResourceClaim")
    cluster.put(claim())
    await cluster.until(lambda: held.met, "the write")
    cluster.server.remove("ResourceClaim", "claim", "default")
    cluster.put(claim())

    assert await cluster.allocated() == ["gpu-0"]
    await cluster.until(lambda: CONFLICT in operator.manager.metrics.text(), "the conflict")


async def test_a_write_that_is_refused_is_told_on_the_claim(cluster, operator, gpu):
    """What the API server does not accept has a reason, and its device goes to the next claim."""
    cluster.server.faults.answer(
        422, times=None, verb="patch", kind="ResourceClaim", subresource="status", name="first", message="no"
    )
    cluster.put(claim("first"))
    await cluster.until(lambda: "AllocationRefused" in cluster.reasons("first"))
    cluster.put(claim("second"), claim("third"))

    assert await cluster.allocated("second") == ["gpu-0"]
    assert await cluster.allocated("third") == ["gpu-1"]
    assert "the API server refuses the allocation: no" in await cluster.waits("first")


async def test_a_webhook_that_denies_a_claim_does_not_make_the_operator_unready(cluster, operator, gpu):
    """A 403 of admission is about one claim, and told there."""
    message = 'admission webhook "policy.example.com" denied the request: label team missing'
    cluster.server.faults.answer(
        403, times=None, verb="patch", kind="ResourceClaim", name="first", message=message
    )
    cluster.put(claim("first"))

    await cluster.until(lambda: "AllocationRefused" in cluster.reasons("first"))
    assert operator.manager.unready() == []


async def test_events_that_are_not_permitted_are_named(cluster, operator, gpu):
    """Allocation goes on, and the operator is ready; `/readyz` names the right until an Event is taken."""
    message = 'events is forbidden: User "operator" cannot create resource "events"'
    fault = cluster.server.faults.answer(403, times=None, verb="create", kind="Event", message=message)
    cluster.put(claim())
    await cluster.allocated()
    await cluster.until(operator.manager.notes)
    assert operator.manager.notes() == [f"not permitted to create events: {message}"]
    assert operator.manager.unready() == []

    fault.times = 0
    with capture_logs() as logs:
        cluster.put(claim("second"))
        await cluster.until(lambda: not operator.manager.notes())
        await cluster.until(lambda: cluster.reasons("second") == ["Allocated"])
        told = {"event": "permitted again", "verb": "create", "resource": "events", "log_level": "info"}
        await cluster.until(lambda: told in logs)


# --- faults of watches
# ----------------------------------------------------------------------------------------------------


async def test_nothing_is_allocated_before_everything_is_listed(cluster, gpu, start):
    """A kind that cannot be listed yet could say that the device must not be used."""
    fault = cluster.server.faults.answer(
        403, times=None, verb="list", kind="DeviceTaintRule", message="no right"
    )
    cluster.put(claim())
    operator = await start()
    await cluster.until(
        lambda: "not permitted to list devicetaintrules: no right" in operator.manager.unready()
    )
    await cluster.stays(lambda: not cluster.devices())
    await cluster.until(lambda: "Forbidden" in cluster.reasons("dra-operator", "Namespace"), seconds=6)

    fault.times = 0
    await cluster.allocated()
    await operator.ready()


@pytest.fixture
def one_by_one(monkeypatch):
    """Lists come in pages of one object, and every page takes its time."""
    monkeypatch.setitem(Reflector.__init__.__kwdefaults__, "chunk", 1)


async def test_nothing_is_decided_by_half_a_list(one_by_one, cluster, operator):
    """While a watch was broken, a device went from one claim of a pod to another; in between nobody else gets it."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": "1", "controller": True}
    before, after = (claim(name, ownerReferences=[owner]) for name in ("a", "z"))
    cluster.put(node(), CLASS, resource_slice("gpu-0"))
    cluster.put({**before, "status": {"allocation": allocation()}}, after, claim("m"))
    await cluster.waits("m")
    cluster.server.faults.stall_watches("ResourceClaim")
    cluster.put({**before, "status": {}}, {**after, "status": {"allocation": allocation()}})
    cluster.server.faults.delay(0.1, verb="list", kind="ResourceClaim")
    cluster.server.faults.expire()
    cluster.server.faults.cut_watches("ResourceClaim")
    cluster.server.faults.resume_watches("ResourceClaim")

    await cluster.until(lambda: operator.manager._reflectors["ResourceClaim"].counters.lists == 2)
    await operator.settled()
    assert cluster.devices("m") == []
    cluster.put({**after, "status": {}})
    assert await cluster.allocated("m") == ["gpu-0"]


# --- an API server that is away
# -------------------------------------------------------------------------------------------


async def test_an_api_server_that_is_away_at_the_start_is_waited_for():
    """The process lives, says why it is not ready, and begins when the API server is there."""
    server = FaultyServer()
    await server.start()
    url = server.url
    await server.stop()
    operator = await Operator(url).start()
    try:
        async with asyncio.timeout(60):
            while operator.manager.unready()[0][:11] != "API server:":  # noqa: ASYNC110 - nothing signals it
                await asyncio.sleep(0.01)
        base = f"http://{operator.manager.address}"
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{base}/healthz") as response:
                assert response.status == 200
            async with session.get(f"{base}/readyz") as response:
                assert (response.status, (await response.text())[:11]) == (503, "API server:")
        server.load([node(), CLASS, resource_slice("gpu-0"), claim()])
        await server.start()
        await operator.ready()
    finally:
        await operator.manager.close()
        server.faults.cut_watches()
        await server.stop()


async def test_a_kind_that_is_not_served_is_skipped():
    """A cluster without DeviceTaintRules is served all the same."""
    resources = tuple(found for found in RESOURCES if found.kind != "DeviceTaintRule")
    async with FaultyServer(resources=resources) as server:
        server.load([node(), CLASS, resource_slice("gpu-0"), claim()])
        operator = await Operator(server.url).start()
        try:
            await operator.ready()
            for _ in range(300):
                if (
                    (server.get("ResourceClaim", "claim", "default") or {})
                    .get("status", {})
                    .get("allocation")
                ):
                    break
                await asyncio.sleep(0.01)
            else:
                pytest.fail("the claim was not allocated")
        finally:
            await operator.manager.close()
            server.faults.cut_watches()


async def test_a_cluster_without_claims_is_told_apart_from_one_that_is_away():
    """Where resource.k8s.io is switched off, readiness says so."""
    resources = tuple(found for found in RESOURCES if found.group != "resource.k8s.io")
    async with FaultyServer(resources=resources) as server:
        operator = await Operator(server.url).start()
        try:
            for _ in range(100):
                if "does not serve ResourceClaim" in operator.manager.unready()[0]:
                    break
                await asyncio.sleep(0.01)
            else:
                pytest.fail(str(operator.manager.unready()))
        finally:
            await operator.manager.close()


@pytest.fixture
async def unstarted(cluster):
    """The operator, for tests that change something before it starts."""
    operator = Operator(cluster.server.url)
    yield operator
    await operator.manager.close()


def leave_out(runtime, kind):
    """Let the API server seem not to serve a kind; return what makes it serve it again."""
    discover = runtime._discover

    async def without():
        return {name: found for name, found in (await discover()).items() if name != kind}

    def again(change=lambda found: found):
        async def changed():
            return change(await discover())

        runtime._discover = changed
        runtime._discovered_at = float("-inf")

    runtime._discover = without
    return again


async def test_a_kind_that_is_served_later_ends_the_operator(cluster, unstarted):
    """A feature was switched on: a new start knows all objects of the kind before it decides."""
    serve_again = leave_out(unstarted.manager, "DeviceTaintRule")
    await unstarted.start()
    await unstarted.ready()
    assert "DeviceTaintRule" not in unstarted.manager._reflectors
    serve_again()
    await cluster.until(lambda: unstarted.crashed)
    (why,) = unstarted.manager.stuck()
    assert why == "DeviceTaintRule is served as resource.k8s.io/v1 now, was nothing"


async def test_a_kind_that_is_no_longer_served_ends_the_operator(cluster, unstarted):
    """The taints of its objects end with it."""
    await unstarted.start()
    await unstarted.ready()
    cluster.server.faults.answer(404, times=None, kind="DeviceTaintRule")
    cluster.server.faults.cut_watches("DeviceTaintRule")
    await cluster.until(lambda: unstarted.manager._reflectors["DeviceTaintRule"].trouble)
    leave_out(unstarted.manager, "DeviceTaintRule")
    unstarted.manager._discovered_at = float("-inf")

    await cluster.until(lambda: unstarted.crashed)


async def test_a_kind_that_is_served_in_another_version_ends_the_operator(cluster, unstarted):
    """What is known was read in the old version; a new start reads it in the new one, and no defect is told of."""
    serve_again = leave_out(unstarted.manager, "DeviceTaintRule")
    await unstarted.start()
    await unstarted.ready()

    def otherwise(found):
        del found["DeviceTaintRule"]
        return {**found, "Node": replace(found["Node"], version="v2")}

    serve_again(otherwise)
    await cluster.until(lambda: unstarted.crashed)
    assert unstarted.manager.stuck() == ["Node is served as v2 now, was v1"]


# --- sudden death
# ---------------------------------------------------------------------------------------------------------


async def test_a_stale_annotation_of_an_earlier_operator_is_taken_off(cluster, gpu, start):
    """What was allocated while nobody looked does not go on saying that it waits."""
    body = claim(annotations={"dra-operator.io/pending": "old"}, finalizers=[FINALIZER])
    cluster.put(body)
    await start()

    await cluster.allocated()
    await cluster.until(lambda: cluster.annotation() is None)
