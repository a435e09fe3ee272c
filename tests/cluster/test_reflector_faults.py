"""The reflector outlives every fault of server and network."""

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from dra_operator.cluster.faults import Defect, DefectLogger

from .mirror import GOOD, QUIET
from .script import cut, event, lines, listed, ok, status, thing


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


async def test_watches_of_what_nobody_changes_lead_to_no_list(script, mirror):
    """That the version is none of the future is told by one object; it is asked again after as many silent watches."""
    silent, one = [lines(then="stall")] * 3, listed(thing("a", 1), version="100")
    script.then(*GOOD, *silent, one, *silent, one, QUIET)
    watching = mirror(idle_timeout=0.2)

    await watching.until(lambda: watching.reflector.last_contact is not None and not script.answers)

    assert [asked.query["limit"] for asked in script.asked if "limit" in asked.query] == ["500", "1", "1"]
    assert watching.reflector.counters.lists == 1
    assert watching.changes == ["+a", "+b"]


async def test_an_answer_that_is_no_list_takes_nothing_away(script, mirror):
    """What something between answers in the place of a list does not say that every object is gone."""
    script.then(*GOOD, status(410), ok({"status": "ok"}), *GOOD, QUIET)
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 2)

    assert watching.changes == ["+a", "+b"]


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


async def test_repeated_410_backs_off(script, mirror):
    """Lists that succeed do not reset the pause while every watch ends in 410."""
    for _ in range(6):
        script.then(listed(thing("a", 1)), status(410))
    script.then(listed(thing("a", 1)), QUIET)
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 7)

    assert watching.waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]


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


async def test_a_server_that_has_not_read_its_roles_is_asked_again_soon(script, mirror):
    """An API server that was started anew answers 403 for a moment, which costs short pauses."""
    away, denied = lines(then="cut"), status(403, "no", "Forbidden")
    script.then(*GOOD, away, away, denied, denied, QUIET)
    watching = mirror()

    await watching.until(lambda: len(watching.waits) >= 4)

    assert watching.waits[:4] == [0.25, 0.5, 0.25, 0.5]


async def test_event_resets_the_pause(script, mirror):
    """After something useful arrived, the next fault starts with a short pause again."""
    away = status(503)
    script.then(*GOOD, away, away, away, lines(event("ADDED", thing("c", 101)), then="cut"), QUIET)
    watching = mirror()

    await watching.until(lambda: len(watching.waits) == 4)

    assert watching.waits == [0.25, 0.5, 1.0, 0.25]


async def test_a_watch_that_is_cut_after_a_while_is_opened_again_soon(script, mirror):
    """Something between that cuts what is silent for half a minute makes no quiet kind be heard of ever later."""
    away = status(503)

    async def quiet(request):
        watching.now += 35
        return await lines(then="cut")(request)

    script.then(*GOOD, away, away, away, quiet, quiet, QUIET)
    watching = mirror()

    await watching.until(lambda: len(watching.waits) == 5)

    assert watching.waits == [0.25, 0.5, 1.0, 0.25, 0.25]


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


async def test_trouble_is_one_line_while_it_lasts(script, mirror):
    """What is wrong can be read while it is."""
    script.default = status(503, "etcd is away", "ServiceUnavailable")
    watching = mirror()

    await watching.until(lambda: watching.waits != [])

    assert watching.reflector.trouble.why == "list resourceclaims: 503 ServiceUnavailable: etcd is away"


async def test_trouble_ends_when_a_watch_is_accepted(script, mirror):
    """A quiet kind is well again as soon as its watch is open, not only with the next event."""
    script.then(*GOOD, status(503), lines(then="stall"))
    watching = mirror()

    # The trouble itself is over in a moment, perhaps between two looks.
    await watching.until(lambda: watching.reflector.counters.failures == 1)
    await watching.until(lambda: watching.reflector.trouble is None)

    assert watching.reflector.counters.events == 0
    assert watching.reflector.last_trouble.why.startswith("watch resourceclaims: 503")
    assert watching.reflector.last_trouble.sort == "away"


async def test_the_end_of_trouble_is_logged_when_a_watch_is_accepted(script, mirror):
    """Not when a quiet kind says something; and for who looks closely, since all kinds have one line together."""
    script.then(*GOOD, status(503), status(503), lines(then="stall"))

    with capture_logs() as logs:
        watching = mirror()
        await watching.until(lambda: len(logs) == 2)

    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("watch interrupted", "debug"),
        ("watching again", "debug"),
    ]
    assert logs[1]["failures"] == 2
    assert watching.reflector.counters.events == 0


async def test_last_contact_follows_the_clock(script, mirror):
    """Each list and each line of a watch counts as contact."""
    script.then(*GOOD, QUIET)
    watching = mirror()
    assert watching.reflector.last_contact is None

    watching.now = 42.0
    await watching.reflector.synced.wait()

    assert watching.reflector.last_contact == 42.0


async def test_consumer_error_does_not_stop_the_stream(script, mirror):
    """A consumer that raises loses its delta; the others arrive."""
    script.then(*GOOD, lines(event("ADDED", thing("c", 101)), then="stall"))
    met = []
    watching = mirror(defect_logger=DefectLogger(met.append))
    arrived = []

    def take(delta):
        if delta.name == "a":
            raise OSError("the consumer's own fault")
        arrived.append(delta.name)

    watching.reflector._deliver = take
    await watching.until(lambda: "c" in arrived)

    assert arrived == ["b", "c"]
    assert met == [Defect.DELTA]
