"""Of several operators one decides, and one that stands by says whether it could."""

from types import SimpleNamespace

import aiohttp
import pytest
from structlog.testing import capture_logs

from cluster import Operator, access_to, claim
from dra_operator.cluster.session import ApiError, ApiUnreachable
from dra_operator.controller.leader_election import (
    LeaderElection,
)
from dra_operator.controller.settings import Settings


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
    assert second.manager._reflectors == {}
    assert (first.manager._election.is_leader, second.manager._election.is_leader) == (True, False)


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


AWAY = ApiUnreachable("PUT leases: cut")
DENIED = ApiError(403, "Forbidden", 'User "we" cannot get resource "leases"', verb="get", resource="leases")


class Lease:
    """A Lease that is found as a test says: the holder of each time, or what keeps it from being read."""

    name, namespace, identity, uid, period = "ns/dra-operator", "ns", "we", "", 0.0

    def __init__(self, found):
        self.found, self.holder, self.error, self.won = list(found), "", None, False

    async def acquire(self):
        """Return whether it is ours now."""
        found = self.found.pop(0)
        self.error = found if isinstance(found, Exception) else None
        if self.error is not None:
            raise self.error
        self.holder, self.won = found, found == "we"
        return self.won


def refused(code):
    """Return a refusal."""
    return ApiError(code, "No", "no", verb="get", resource="leases")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (["other", "other", "third"], ["standing by", "standing by"]),
        (["other", AWAY, AWAY, "other"], ["standing by", "API server not available", "standing by"]),
        ([AWAY, "other", AWAY], ["API server not available", "standing by", "API server not available"]),
        ([DENIED, DENIED], []),
        ([refused(404)], ["lease refused"]),
        ([refused(401)], ["API server not available"]),
        ([refused(429)], ["API server not available"]),
        ([refused(500)], ["API server not available"]),
    ],
    ids=[
        "others",
        "once away",
        "away again",
        "denied",
        "no namespace",
        "no credentials",
        "busy",
        "in trouble",
    ],
)
async def test_each_state_is_told_when_it_begins(monkeypatch, found, said):
    """Also one that was told before; but for a missing right, which others tell when it lasts."""
    monkeypatch.setattr(
        "dra_operator.controller.leader_election.Lease", lambda *_, **__: Lease([*found, "we"])
    )
    session = SimpleNamespace(access=access_to("http://api.example"))
    operator = LeaderElection(session, Settings(lease_namespace="ns"), lambda _: None)
    with capture_logs() as logs:
        await operator.win()

    assert [line["event"] for line in logs] == [*said, "leading"]
