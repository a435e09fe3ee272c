"""Of several operators one decides: who, what the others do meanwhile, and what each of them says."""

import asyncio

import aiohttp
import pytest
from structlog.testing import capture_logs

from cluster import Operator, claim


@pytest.fixture
async def start(cluster, gpu):
    """Start operators by identity; all are stopped at the end."""
    started = []

    async def begin(identity, url=None, **settings):
        started.append(await Operator(url or cluster.server.url, identity, **settings).start())
        return started[-1]

    yield begin
    for operator in started:
        await operator.manager.close()


async def ask(operator, path):
    """Return what an operator answers."""
    url = f"http://{operator.manager.address}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


def leading(operator):
    """Return the metric."""
    lines = operator.manager.metrics.text().decode().splitlines()
    return next(line for line in lines if line.startswith("dra_operator_leading "))


def lease(cluster):
    """Return who holds the Lease."""
    return cluster.server.get("Lease", "dra-operator", "default")["spec"].get("holderIdentity")


async def test_second_operator_stands_by_and_says_so(cluster, start):
    """It is ready, since all is as it should be; it watches nothing, and /leaderz names the one that decides."""
    first = await (await start("first")).ready()
    second = await start("second")
    await cluster.until(lambda: not second.manager.unready(), "standing by")
    watches = cluster.server.requests["watch ResourceClaim"]
    cluster.put(claim())
    await cluster.allocated()

    assert (await ask(first, "/leaderz"), leading(first)) == ((200, "ok\n"), "dra_operator_leading 1.0")
    assert await ask(second, "/readyz") == (200, "ok\n")
    assert await ask(second, "/leaderz") == (
        503,
        "standing by: first holds the Lease default/dra-operator\n",
    )
    assert leading(second) == "dra_operator_leading 0.0"
    assert cluster.server.requests["watch ResourceClaim"] == watches
    assert second.manager.summary()["objects"] == {}
    assert (first.manager.summary()["leading"], second.manager.summary()["leading"]) == (True, False)


async def test_operator_that_stops_hands_over(cluster, start):
    """The next one decides at once, not when the Lease is over."""
    first = await (await start("first")).ready()
    second = await start("second")
    await cluster.until(lambda: not second.manager.unready())
    await first.manager.close()
    assert lease(cluster) is None
    cluster.put(claim())

    assert await cluster.allocated() == ["gpu-0"]
    assert lease(cluster) == "second"


async def test_change_of_leader_is_told_on_the_lease(cluster, start):
    """Who asks in the morning what happened at night finds both, with the times, by `kubectl describe lease`."""
    first = await (await start("first")).ready()
    await cluster.until(lambda: cluster.reasons("dra-operator", "Lease"))
    await first.manager.close()
    await (await start("second")).ready()
    await cluster.until(lambda: len(cluster.events("dra-operator", "Lease")) == 2)

    told = cluster.events("dra-operator", "Lease")
    uid = cluster.server.get("Lease", "dra-operator", "default")["metadata"]["uid"]
    assert sorted((event["type"], event["reason"], event["message"]) for event in told) == [
        ("Normal", "LeaderElection", "first became leader"),
        ("Normal", "LeaderElection", "second became leader"),
    ]
    assert {event["involvedObject"]["uid"] for event in told} == {uid}


async def test_operator_that_is_killed_is_followed_when_its_lease_is_over(cluster, start):
    """Three seconds here, fifteen by default."""
    first = await (await start("first")).ready()
    second = await start("second")
    await first.kill()
    cluster.put(claim())
    assert cluster.devices() == []

    await cluster.until(cluster.devices, "the allocation", 10)
    assert cluster.devices() == ["gpu-0"]
    assert (lease(cluster), leading(second)) == ("second", "dra_operator_leading 1.0")


async def test_operator_that_was_followed_ends_and_writes_nothing_any_more(cluster, proxy, start):
    """What it has decided while it was cut off stays with it, and what it had sent is refused when it arrives."""
    cut_off = []
    proxy.holds = lambda request: (
        bool(cut_off) or (request.method == "PATCH" and request.path.endswith("/status"))
    )
    first = await (await start("first", url=proxy.url, drain_seconds=30)).ready()
    cluster.put(claim("early", creationTimestamp="2026-01-02T00:00:00Z"))
    await cluster.until(lambda: len(proxy.held) == 1, "the allocation")
    cut_off.append(True)
    await (await start("second")).ready()
    cluster.put(claim("late", creationTimestamp="2026-01-01T00:00:00Z"))
    with capture_logs() as logs:
        await cluster.until(lambda: cluster.devices("late") or cluster.devices("early"), "one", 10)
        cut_off.clear()
        proxy.holds = lambda _: False
        await proxy.let_through()
        await cluster.until(lambda: first.crashed, "the end of the first", 10)
    await first.manager.close()

    assert sorted([cluster.devices("early"), cluster.devices("late")]) == [[], ["gpu-0"]]
    assert first.manager.stuck() == ["lease lost: second holds the Lease default/dra-operator"]
    assert first.manager._election.following() == first.manager.stuck()
    lost = [line for line in logs if line["event"] == "lease lost"]
    assert [(line["log_level"], line["holder"]) for line in lost] == [("critical", "second")]
    assert lease(cluster) == "second"


async def test_api_server_that_is_away_for_long_ends_nobody(cluster, start):
    """Writes wait until the Lease is renewed, and go on then, since nobody else could take it."""
    operator = await (await start("first")).ready()
    fault = cluster.server.faults.answer(503, times=None, kind="Lease")
    with capture_logs() as logs:
        await cluster.until(operator.manager.unready, "the end of its time")
        (text,) = operator.manager.unready()
        assert text.startswith("the Lease default/dra-operator could not be renewed (API server: ")
        assert "503 ServiceUnavailable" in text
        assert (await ask(operator, "/leaderz"))[0] == 503
        cluster.put(claim())
        await cluster.stays(lambda: not cluster.claim()["metadata"].get("finalizers"))

        fault.times = 0
        assert await cluster.allocated() == ["gpu-0"]

    assert [line["event"] for line in logs if line["event"].startswith("lease ")] == [
        "lease not renewed, writes wait",
        "lease renewed, writes go on",
    ]
    assert not operator.crashed


async def test_right_that_is_missing_is_named(cluster, start):
    """In /readyz, in an Event about the operator, and until it is granted."""
    message = 'leases.coordination.k8s.io "dra-operator" is forbidden: User "x" cannot get resource "leases"'
    fault = cluster.server.faults.answer(403, times=None, kind="Lease", message=message)
    operator = await start("first")
    expected = f"not permitted to get leases: {message}"
    await cluster.until(lambda: operator.manager.unready() == [expected])
    assert await ask(operator, "/leaderz") == (503, f"{expected}\n")
    await cluster.until(lambda: "Forbidden" in cluster.reasons("dra-operator", "Namespace"))

    fault.times = 0
    await operator.ready()


async def test_lease_in_a_namespace_that_does_not_exist_is_named(cluster, start):
    """It is no API server that is away: whoever reads it finds the setting, or makes the namespace."""
    with capture_logs() as logs:
        operator = await start("first", lease_namespace="misspelt")
        await cluster.until(
            lambda: len(operator.manager.unready()) == 1 and "404" in operator.manager.unready()[0]
        )

    why = 'Lease misspelt/dra-operator: create leases: 404 NotFound: namespaces "misspelt" not found'
    assert operator.manager.unready() == [why]
    assert [(line["event"], line["why"]) for line in logs if line["log_level"] == "warning"] == [
        ("lease refused", why)
    ]


async def test_without_the_namespace_of_its_lease_the_operator_ends(cluster, start):
    """Where none is set: to wait would help nobody who has just typed `dra-operator run`."""
    with capture_logs() as logs:
        operator = await start("first", lease_namespace="")
        await cluster.until(lambda: operator.crashed)

    why = (
        'there is no namespace "dra-operator" for the Lease; create it: kubectl create namespace dra-operator'
    )
    assert [(line["event"], line["why"]) for line in logs if line["log_level"] == "critical"] == [
        ("lease refused", why)
    ]


async def test_right_that_is_withdrawn_is_named(cluster, start):
    """Also of an operator that decides: in /readyz with verb and resource, and in an Event."""
    operator = await (await start("first")).ready()
    message = (
        'leases.coordination.k8s.io "dra-operator" is forbidden: User "x" cannot update resource "leases"'
    )
    fault = cluster.server.faults.answer(403, times=None, kind="Lease", message=message)
    await cluster.until(operator.manager.unready)

    assert f"(not permitted to update leases: {message})" in operator.manager.unready()[0]
    await cluster.until(lambda: "Forbidden" in cluster.reasons("dra-operator", "Namespace"))
    fault.times = 0
    await operator.ready()


async def test_api_server_in_trouble_does_not_permit_the_lease(cluster, start):
    """A 503 says nothing of the right that was denied before, so `permitted again` waits for an answer."""
    operator = await (await start("first")).ready()
    message = 'leases.coordination.k8s.io "dra-operator" is forbidden: User "x" cannot update resource'
    with capture_logs() as logs:

        def told():
            return [line["event"] for line in logs if line.get("resource") == "leases"]

        denial = cluster.server.faults.answer(403, times=None, kind="Lease", message=message)
        await cluster.until(told, "the refusal")
        trouble = cluster.server.faults.answer(503, times=None, kind="Lease")
        denial.times = 0
        await cluster.until(lambda: trouble.met, "the trouble")
        await cluster.stays(lambda: told() == ["forbidden"])

        trouble.times = 0
        await operator.ready()
        await cluster.until(lambda: told() == ["forbidden", "permitted again"], "the grant")


async def test_one_that_stands_by_and_may_not_list_says_so(cluster, start, monkeypatch):
    """In /readyz, in the log and in an Event, before it has to decide, and until it is granted."""
    monkeypatch.setattr("dra_operator.controller.leader_election.RETRY_SECONDS", 0.05)
    await (await start("first")).ready()
    message = 'nodes is forbidden: User "x" cannot list resource "nodes"'
    fault = cluster.server.faults.answer(403, times=None, verb="list", kind="Node", message=message)
    with capture_logs() as logs:
        second = await start("second")
        await cluster.until(
            lambda: second.manager.unready() == [f"not permitted to list nodes: {message}"], "the reason"
        )
        assert (await ask(second, "/readyz"))[0] == 503
        await cluster.until(lambda: "Forbidden" in cluster.reasons("dra-operator", "Namespace"))
        fault.times = 0
        await cluster.until(lambda: not second.manager.unready(), "the grant")

    assert [line["resource"] for line in logs if line["event"] == "forbidden"] == ["nodes"]


async def test_one_that_takes_over_and_may_not_list_yet_does_not_say_that_it_may(cluster, start):
    """What it told while it stood by stands until its reflectors have an answer, and is not told again."""
    first = await (await start("first")).ready()
    message = 'nodes is forbidden: User "x" cannot list resource "nodes"'
    fault = cluster.server.faults.answer(403, times=None, verb="list", kind="Node", message=message)
    with capture_logs() as logs:

        def told():
            return [line["event"] for line in logs if line.get("resource") == "nodes"]

        second = await start("second")
        await cluster.until(told, "the refusal")
        held = cluster.server.faults.delay(0.5, verb="list", kind="Node")
        await first.manager.close()
        await cluster.until(lambda: held.met > 1, "the second list")
        assert told() == ["forbidden"]

        held.times = fault.times = 0
        await second.ready()
        await cluster.until(lambda: told() == ["forbidden", "permitted again"], "the grant")


async def test_one_that_stands_by_and_loses_the_api_server_says_so(cluster, start):
    """In /readyz and, when it is back, in the log, as at the start."""
    await (await start("first")).ready()
    with capture_logs() as logs:
        second = await start("second")
        await cluster.until(lambda: not second.manager.unready())
        fault = cluster.server.faults.answer(500, times=None, verb="get", kind="Lease")
        await cluster.until(second.manager.unready)
        assert second.manager.unready() == (await ask(second, "/leaderz"))[1].splitlines()
        fault.times = 0
        await cluster.until(lambda: not second.manager.unready())

    assert [line["event"] for line in logs if "holder" in line or "server" in line] == [
        "standing by",
        "API server not available",
        "standing by",
    ]


async def test_one_whose_take_met_a_conflict_does_not_stand_by_for_itself(cluster, start):
    """A container that is started anew finds its own name, which is nobody else's."""
    await (await start("pod")).kill()
    cluster.server.faults.answer(409, times=3, verb="update", kind="Lease")
    with capture_logs() as logs:
        operator = await start("pod")
        await operator.ready()

    assert "standing by" not in [line["event"] for line in logs]


async def test_end_does_not_wait_long_for_the_lease(cluster, start, monkeypatch):
    """Where the API server is silent the next operator waits a little longer, which is logged; the kubelet does not."""
    monkeypatch.setattr("dra_operator.controller.leader_election.GIVE_UP_SECONDS", 0.1)
    operator = await (await start("first", lease_seconds=60)).ready()
    cluster.server.faults.delay(5, kind="Lease")
    with capture_logs() as logs:
        async with asyncio.timeout(2):
            await operator.manager.close()

    told = [(line["event"], line.get("why")) for line in logs]
    assert ("lease not given up", "no answer in 0.1 s") in told


async def test_namespace_that_does_not_exist_is_named(cluster, start):
    """Not ready, with the words of the API server."""
    operator = await start("first", lease_namespace="nowhere")

    await cluster.until(lambda: 'namespaces "nowhere" not found' in "".join(operator.manager.unready()))


async def test_without_leader_election_there_is_no_lease(cluster, start):
    """Whoever says `none` decides at once."""
    operator = await (await start("first", leader_election="none")).ready()

    assert cluster.server.get("Lease", "dra-operator", "default") is None
    assert (await ask(operator, "/leaderz"), leading(operator)) == (
        (200, "ok\n"),
        "dra_operator_leading 1.0",
    )


@pytest.mark.parametrize(
    ("code", "said"),
    [(None, "standing by"), (500, "API server not available")],
    ids=["standing by", "in trouble"],
)
async def test_one_that_waits_says_so_once(cluster, start, code, said):
    """However often it asks: a standby that waits for weeks fills no log."""
    await (await start("first")).ready()
    if code is not None:
        cluster.server.faults.answer(code, times=None, verb="get", kind="Lease")
    with capture_logs() as logs:
        await start("second")
        asked = cluster.server.requests["get Lease"]
        await cluster.until(lambda: cluster.server.requests["get Lease"] >= asked + 3)

    assert [line["event"] for line in logs].count(said) == 1


async def test_lease_is_in_the_namespace_of_the_operator_where_none_is_given(cluster, start):
    """As its credentials name it, so that its role for Leases fits."""
    cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dra-operator"}})
    await (await start("first", lease_namespace="")).ready()

    assert cluster.server.get("Lease", "dra-operator", "dra-operator") is not None


async def test_identity_is_that_of_the_host_where_none_is_given(cluster, start):
    """With a part at random, so that two on one host are two."""
    await (await start("")).ready()

    host, _, part = lease(cluster).rpartition("_")
    assert host
    assert len(part) == 36


async def test_operator_whose_lease_went_back_ends(cluster, start):
    """Etcd was restored: what is known may not be stored any more. The next one takes the Lease at once."""
    first = await (await start("first")).ready()
    stored = cluster.server.get("Lease", "dra-operator", "default")
    with capture_logs() as logs:
        first.manager._election._lease._body["metadata"]["resourceVersion"] = "999999999"
        await cluster.until(lambda: first.crashed, "the end")
    assert [line["log_level"] for line in logs if line["event"] == "lease went back"] == ["critical"]
    why = "lease went back: an older version of it is stored than before: etcd was restored; "
    for path, code in (("/healthz", 500), ("/readyz", 503), ("/leaderz", 503)):
        assert await ask(first, path) == (code, f"{why}what is known may not be stored any more\n")
    await first.manager.close()
    assert (stored["spec"]["holderIdentity"], lease(cluster)) == ("first", None)
