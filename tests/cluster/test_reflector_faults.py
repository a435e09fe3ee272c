"""The reflector outlives every fault of server and network."""

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from .mirror import GOOD, QUIET
from .script import cut, event, lines, listed, status, thing


@pytest.mark.parametrize(
    "fault",
    [
        cut,
        status(500, "internal"),
        status(503, "etcd is away"),
        status(429, "slow down"),
        status(403, "no", "Forbidden"),
        status(404, "no such kind"),
        lambda _: web.Response(text="<html>not the API server</html>"),
        listed({}),
        lambda _: web.Response(text='{"status": "ok"}'),
        lambda _: web.Response(text='{"kind": "Status", "metadata": {}, "status": "Success"}'),
    ],
    ids=[
        "cut",
        "500",
        "503",
        "429",
        "403",
        "404",
        "not JSON",
        "an item without metadata",
        "JSON of something else",
        "no list",
    ],
)
async def test_fault_of_the_list_is_outlived(script, mirror, fault):
    """Whatever a list meets, however often, it is made again with growing pauses until it succeeds."""
    # Of a cut connection the HTTP client asks twice, so this is at least a dozen failures of each kind.
    script.then(*[fault] * 24, *GOOD, QUIET)
    watching = mirror()

    await watching.reflector.synced.wait()

    assert watching.changes == ["+a", "+b"]
    assert watching.waits[:4] == [0.25, 0.5, 1.0, 2.0]
    assert watching.waits[-1] == 30.0
    assert watching.reflector.trouble is None
    assert watching.reflector.forbidden is None


@pytest.mark.parametrize(
    "fault",
    [
        cut,
        lines(then="cut"),
        status(500, "internal"),
        status(503, "etcd is away"),
        status(429, "slow down"),
        status(403, "no", "Forbidden"),
        status(404, "no such kind"),
        status(401, "who are you"),
        lines(event("ERROR", {"code": 500, "message": "etcdserver: no leader"})),
        lines(event("ERROR", {"code": 504, "message": "timeout"})),
        lines(event("SURPRISE", {})),
        lines(b'{"type": "ADDED", "obj'),
        lines(b'{"type": "ADDED"}'),
        lines(b"null"),
        lines(b'{"type": "ADDED", "object": null}'),
        lines(event("ADDED", {"metadata": {}})),
        lines(event("DELETED", {})),
        lines(),
    ],
    ids=[
        "cut before the answer",
        "cut stream",
        "500",
        "503",
        "429",
        "403",
        "404",
        "401",
        "ERROR 500",
        "ERROR 504",
        "unknown event",
        "garbled line",
        "event without object",
        "null",
        "null object",
        "object without a name",
        "object without metadata",
        "ends at once",
    ],
)
async def test_fault_of_the_watch_is_outlived(script, mirror, fault):
    """Whatever a watch meets, it resumes after a pause from the last version, and nothing is lost."""
    script.then(*GOOD, fault, fault, lines(event("ADDED", thing("c", 101)), then="stall"))
    with capture_logs() as logs:
        watching = mirror()
        await watching.until(lambda: "+c" in watching.changes)

    assert watching.changes == ["+a", "+b", "+c"]
    assert watching.reflector.counters.lists == 1
    assert watching.reflector.forbidden is None
    assert [line for line in logs if line["log_level"] == "error"] == [], "it is no defect of ours"
    assert watching.waits != []
    assert {asked.query["resourceVersion"] for asked in script.asked[1:]} == {"100"}


async def test_silent_stream_is_given_up(script, mirror):
    """A watch that says nothing for too long is opened again, and the event that was missed arrives."""
    script.then(*GOOD, lines(then="stall"), lines(event("ADDED", thing("c", 101)), then="stall"))
    with capture_logs() as logs:
        watching = mirror(idle_timeout=0.5)
        await watching.until(lambda: "+c" in watching.changes)

    assert watching.reflector.counters.lists == 1
    # Nothing is wrong with a kind that nobody changes.
    assert [line["event"] for line in logs] == ["watch silent, opened again"]
    assert watching.waits == []


@pytest.mark.parametrize("version", ["50", "none"], ids=["older", "no number"])
async def test_watches_that_never_say_anything_lead_to_a_list(script, mirror, version):
    """Where watches are accepted and stay silent, not even a bookmark, the version itself is suspect."""
    older = listed(thing("a", 1), version=version)
    script.then(*GOOD, *[lines(then="stall")] * 3, older, status(503), older, QUIET)
    watching = mirror(idle_timeout=0.2)

    await watching.until(lambda: watching.reflector.counters.lists == 2)

    assert watching.changes == ["+a", "+b", "-b"]


@pytest.mark.parametrize(
    "expired",
    [
        lines(event("ERROR", {"code": 410, "message": "too old"})),
        status(410, "too old", "Expired"),
        status(400, "invalid resource version"),
    ],
    ids=["ERROR event", "HTTP 410", "HTTP 400"],
)
async def test_expired_version_leads_to_a_list(script, mirror, expired):
    """A version that the server no longer has, or cannot read, is given up for a list."""
    script.then(*GOOD, expired, listed(thing("a", 1), version="200"), QUIET)
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 2)

    assert watching.changes == ["+a", "+b", "-b"]


async def test_expired_continue_token_starts_the_list_again(script, mirror):
    """A 410 in the middle of a list starts it from the front, and loses nothing."""
    script.then(
        listed(thing("a", 1), proceed="p2"),
        status(410, "continue token expired", "Expired"),
        listed(thing("a", 1), proceed="p2"),
        listed(thing("b", 2)),
        QUIET,
    )
    watching = mirror()

    await watching.reflector.synced.wait()

    assert watching.changes == ["+a", "+b"]
    assert "continue" not in script.asked[2].query


@pytest.mark.parametrize(
    "expired", [lines(event("ERROR", {"code": 410})), status(410)], ids=["ERROR", "HTTP"]
)
async def test_a_list_after_an_outage_does_not_wait_as_long_as_the_outage(script, mirror, expired):
    """An API server that was started anew answers 410 to every kind; the first such answer costs a short pause."""
    away = lines(then="cut")
    script.then(*GOOD, away, away, expired, listed(thing("a", 1)), expired, listed(thing("a", 1)), QUIET)
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 3)

    assert watching.waits == [0.25, 0.5, 0.25, 0.5]


async def test_retry_after_is_obeyed(script, mirror):
    """A server that asks to wait longer than we would is obeyed."""
    script.then(status(429, headers={"Retry-After": "17"}), *GOOD, QUIET)
    watching = mirror()

    await watching.reflector.synced.wait()

    assert watching.waits == [17.0]


async def test_forbidden_is_reported_and_forgotten(script, mirror):
    """While a list is forbidden the refusal can be read, with verb and resource; afterwards it is gone."""
    script.default = status(403, "no", "Forbidden")
    watching = mirror()
    await watching.until(lambda: watching.reflector.forbidden is not None)
    assert (watching.reflector.forbidden.verb, watching.reflector.forbidden.resource) == (
        "list",
        "resourceclaims",
    )

    script.then(*GOOD)
    script.default = QUIET
    await watching.reflector.synced.wait()

    assert watching.reflector.forbidden is None
