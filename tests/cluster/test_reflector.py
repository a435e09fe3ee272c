"""The reflector: it delivers every difference once, and outlives every fault of server and network."""

import asyncio

import pytest
from aiohttp import web

from dra_operator.cluster.reflector import Reflector

from .conftest import CLAIMS, CLASSES, cut, event, lines, listed, status, thing

GOOD = [listed(thing("a", 1), thing("b", 2))]
QUIET = lines(event("BOOKMARK", {"metadata": {"resourceVersion": "900"}}), then="stall")
"""A watch that says that it lives, and nothing more."""


class Mirror:
    """A reflector under test, what it delivered, and how long it would have waited."""

    def __init__(self, session, served=CLAIMS, **settings):
        self.deltas = []
        self.waits = []
        self.now = 0.0
        self.reflector = Reflector(
            session,
            served,
            self.take,
            clock=lambda: self.now,
            sleep=self.sleep,
            random=lambda: 1.0,
            **settings,
        )

    def take(self, delta):
        """Receive a delta."""
        self.deltas.append(delta)

    async def sleep(self, seconds):
        """Note a pause instead of taking it."""
        self.waits.append(seconds)
        await asyncio.sleep(0.001)

    @property
    def changes(self):
        """What was delivered, in short: `+a` for an object as it is, `-a` for one that is gone."""
        return [("-" if delta.body is None else "+") + delta.name for delta in self.deltas]

    async def until(self, condition):
        """Wait until a condition holds, for a while."""
        async with asyncio.timeout(5):
            while not condition():  # noqa: ASYNC110 - a condition of any shape
                await asyncio.sleep(0.002)


@pytest.fixture
async def mirror(session):
    """A reflector that runs for as long as the test."""
    tasks = []

    def start(**settings):
        made = Mirror(session, **settings)
        tasks.append(asyncio.create_task(made.reflector.run()))
        return made

    yield start
    for task in tasks:
        assert not task.done(), "a reflector never dies"
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_first_list_delivers_everything(script, mirror):
    """After the first list each object was delivered once and the reflector is synced."""
    script.then(*GOOD, QUIET)
    watching = mirror()

    await watching.reflector.synced.wait()

    assert watching.changes == ["+a", "+b"]
    assert len(watching.reflector) == 2
    assert watching.reflector.counters.repaired == 0


async def test_nothing_is_synced_before_the_list_ends(script, mirror):
    """A list that broke off half-way does not count as one."""
    script.then(listed(thing("a", 1), proceed="p2"), cut)
    script.default = status(503)
    watching = mirror()

    await watching.until(lambda: len(watching.waits) >= 3)

    assert not watching.reflector.synced.is_set()


async def test_list_goes_page_by_page(script, mirror):
    """A list is read in chunks, each with the token of the one before."""
    script.then(listed(thing("a", 1), proceed="p2"), listed(thing("b", 2)), QUIET)
    watching = mirror(chunk=1)

    await watching.reflector.synced.wait()

    assert watching.changes == ["+a", "+b"]
    assert [asked.query for asked in script.asked[:2]] == [{"limit": "1"}, {"limit": "1", "continue": "p2"}]


async def test_watch_delivers_changes(script, mirror):
    """Added, changed and deleted objects are delivered in order."""
    script.then(
        *GOOD,
        lines(
            event("ADDED", thing("c", 101)),
            event("MODIFIED", thing("a", 102)),
            event("DELETED", thing("b", 103)),
            then="stall",
        ),
    )
    watching = mirror()

    await watching.until(lambda: len(watching.deltas) == 5)

    assert watching.changes == ["+a", "+b", "+c", "+a", "-b"]
    assert len(watching.reflector) == 2


async def test_watch_asks_for_bookmarks_from_the_lists_version(script, mirror):
    """The first watch resumes where the list was made, with bookmarks and a time limit."""
    script.then(*GOOD, QUIET)
    watching = mirror()

    await watching.until(lambda: len(script.asked) == 2)

    query = script.asked[1].query
    assert query["resourceVersion"] == "100"
    assert query["allowWatchBookmarks"] == "true"
    assert 240 <= int(query["timeoutSeconds"]) <= 360


async def test_bookmark_moves_the_resume_point(script, mirror):
    """After a bookmark the next watch resumes from it, though no object changed."""
    script.then(*GOOD, lines(event("BOOKMARK", {"metadata": {"resourceVersion": "555"}})), QUIET)
    watching = mirror()

    await watching.until(lambda: len(script.asked) == 3)

    assert script.asked[2].query["resourceVersion"] == "555"
    assert watching.changes == ["+a", "+b"]


async def test_managed_fields_are_trimmed(script, mirror):
    """What nobody reads is not delivered; kind and version, which items of a list lack, are."""
    script.then(listed(thing("a", 1, managedFields=[{"manager": "kubectl"}])), QUIET)
    watching = mirror()

    await watching.reflector.synced.wait()

    body = watching.deltas[0].body
    assert "managedFields" not in body["metadata"]
    assert (body["apiVersion"], body["kind"]) == ("resource.k8s.io/v1", "ResourceClaim")


async def test_cluster_scoped_objects_have_no_namespace(script, mirror):
    """Objects of a cluster-scoped kind are delivered with an empty namespace."""
    body = thing("gpu", 1)
    del body["metadata"]["namespace"]
    script.then(listed(body), QUIET)
    watching = mirror(served=CLASSES)

    await watching.reflector.synced.wait()

    assert (watching.deltas[0].namespace, watching.deltas[0].name) == ("", "gpu")


async def test_replayed_events_are_dropped(script, mirror):
    """An event that is not newer than what is known is dropped and counted."""
    script.then(
        *GOOD,
        lines(event("MODIFIED", thing("a", 1)), event("ADDED", thing("c", 101)), then="stall"),
    )
    watching = mirror()

    await watching.until(lambda: "+c" in watching.changes)

    assert watching.changes == ["+a", "+b", "+c"]
    assert watching.reflector.counters.dropped == 1


async def test_versions_are_compared_as_numbers(script, mirror):
    """Version 1000 is newer than 999, though not as text."""
    script.then(
        listed(thing("a", 999)),
        lines(event("MODIFIED", thing("a", 1000)), event("MODIFIED", thing("a", 999)), then="stall"),
    )
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.dropped == 1)

    assert [delta.body["metadata"]["resourceVersion"] for delta in watching.deltas] == ["999", "1000"]


async def test_recreated_object_is_two_differences(script, mirror):
    """An object deleted and made anew under its name is delivered as gone and then as new."""
    script.then(*GOOD, lines(event("ADDED", thing("a", 101, uid="other")), then="stall"))
    watching = mirror()

    await watching.until(lambda: len(watching.deltas) == 4)

    assert watching.changes == ["+a", "+b", "-a", "+a"]


async def test_late_deletion_of_an_earlier_object_is_dropped(script, mirror):
    """A deletion only counts for the object whose uid it names."""
    script.then(
        *GOOD,
        lines(
            event("DELETED", thing("a", 101, uid="earlier")), event("ADDED", thing("c", 102)), then="stall"
        ),
    )
    watching = mirror()

    await watching.until(lambda: "+c" in watching.changes)

    assert watching.changes == ["+a", "+b", "+c"]


async def test_list_after_410_repairs_the_gap(script, mirror):
    """What was deleted, made and changed while the watch was broken is delivered, and nothing else."""
    script.then(
        listed(thing("kept", 1), thing("gone", 2), thing("changed", 3), thing("replaced", 4)),
        lines(event("ERROR", {"kind": "Status", "code": 410, "message": "too old resource version"})),
        listed(
            thing("kept", 1),
            thing("changed", 7),
            thing("new", 8),
            thing("replaced", 9, uid="x"),
            version="200",
        ),
        QUIET,
    )
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 2)

    assert watching.changes[4:] == ["+changed", "+new", "-replaced", "+replaced", "-gone"]
    assert watching.reflector.counters.repaired == 4


async def test_list_is_believed_when_versions_run_backwards(script, mirror):
    """After a restore of etcd objects are older than known: a list says what is."""
    script.then(
        listed(thing("a", 500)),
        lines(event("ERROR", {"code": 410})),
        listed(thing("a", 300), version="310"),
        QUIET,
    )
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 2)

    assert [delta.body["metadata"]["resourceVersion"] for delta in watching.deltas] == ["500", "300"]


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
        lambda _: web.Response(text='{"items": [{}]}'),
    ],
    ids=["cut", "500", "503", "429", "403", "404", "not JSON", "an item without metadata"],
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
        "ends at once",
    ],
)
async def test_fault_of_the_watch_is_outlived(script, mirror, fault):
    """Whatever a watch meets, it resumes after a pause from the last version, and nothing is lost."""
    script.then(*GOOD, fault, fault, lines(event("ADDED", thing("c", 101)), then="stall"))
    watching = mirror()

    await watching.until(lambda: "+c" in watching.changes)

    assert watching.changes == ["+a", "+b", "+c"]
    assert watching.reflector.counters.lists == 1
    assert watching.waits != []
    assert {asked.query["resourceVersion"] for asked in script.asked[1:]} == {"100"}


async def test_silent_stream_is_given_up(script, mirror):
    """A watch that says nothing for too long is opened again, and the event that was missed arrives."""
    script.then(*GOOD, lines(then="stall"), lines(event("ADDED", thing("c", 101)), then="stall"))
    watching = mirror(idle_timeout=0.05)

    await watching.until(lambda: "+c" in watching.changes)

    assert watching.reflector.counters.lists == 1


async def test_watches_that_never_say_anything_lead_to_a_list(script, mirror):
    """Where watches are accepted and stay silent, not even a bookmark, the version itself is suspect."""
    script.then(*GOOD, *[lines(then="stall")] * 3, listed(thing("a", 1), version="50"), QUIET)
    watching = mirror(idle_timeout=0.02)

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


async def test_repeated_410_backs_off(script, mirror):
    """Lists that succeed do not reset the pause while every watch ends in 410."""
    for _ in range(6):
        script.then(listed(thing("a", 1)), status(410))
    script.then(listed(thing("a", 1)), QUIET)
    watching = mirror()

    await watching.until(lambda: watching.reflector.counters.lists == 7)

    assert watching.waits == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]


async def test_event_resets_the_pause(script, mirror):
    """After something useful arrived, the next fault starts with a short pause again."""
    away = status(503)
    script.then(*GOOD, away, away, away, lines(event("ADDED", thing("c", 101)), then="cut"), QUIET)
    watching = mirror()

    await watching.until(lambda: len(watching.waits) == 4)

    assert watching.waits == [0.25, 0.5, 1.0, 0.25]


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

    assert watching.reflector.trouble == "list resourceclaims: 503 ServiceUnavailable: etcd is away"


async def test_trouble_ends_when_a_watch_is_accepted(script, mirror):
    """A quiet kind is well again as soon as its watch is open, not only with the next event."""
    script.then(*GOOD, status(503), lines(then="stall"))
    watching = mirror()

    await watching.until(lambda: watching.reflector.trouble is not None)
    await watching.until(lambda: watching.reflector.trouble is None)

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
    watching = mirror()
    arrived = []

    def take(delta):
        if delta.name == "a":
            raise OSError("the consumer's own fault")
        arrived.append(delta.name)

    watching.reflector._deliver = take
    await watching.until(lambda: "c" in arrived)

    assert arrived == ["b", "c"]
    assert watching.reflector.counters.consumer_errors == 1


class TestObserve:
    """Answers to writes of our own."""

    async def test_answer_is_delivered_at_once(self, script, mirror):
        """The answer to a write is delivered without waiting for the watch, whose event is then dropped."""
        script.then(*GOOD, lines(event("MODIFIED", thing("a", 50)), then="stall"))
        watching = mirror()
        await watching.reflector.synced.wait()

        assert watching.reflector.observe(thing("a", 50))
        await watching.until(lambda: watching.reflector.counters.dropped == 1)

        assert watching.changes == ["+a", "+b", "+a"]

    async def test_older_answer_is_dropped(self, script, mirror):
        """An answer that the watch has overtaken changes nothing."""
        script.then(listed(thing("a", 60)), QUIET)
        watching = mirror()
        await watching.reflector.synced.wait()

        assert not watching.reflector.observe(thing("a", 50))

        assert watching.changes == ["+a"]

    async def test_answer_does_not_revive_what_is_gone(self, script, mirror):
        """An answer that arrives after the deletion of its object is dropped."""
        script.then(*GOOD, lines(event("DELETED", thing("a", 103)), then="stall"))
        watching = mirror()
        await watching.until(lambda: "-a" in watching.changes)

        assert not watching.reflector.observe(thing("a", 102))

        assert watching.changes == ["+a", "+b", "-a"]

    async def test_answer_during_a_list_outlives_it(self, script, mirror):
        """What was written while a list ran is newer than the list, also if the list does not know it."""
        watching = None

        def page(request):
            assert watching.reflector.observe(thing("a", 150))
            assert watching.reflector.observe(thing("made", 151))
            return listed(thing("b", 2), version="120")(request)

        script.then(*GOOD, status(410), listed(thing("a", 1), version="120", proceed="p2"), page, QUIET)
        watching = mirror()
        await watching.until(lambda: watching.reflector.counters.lists == 2)

        assert watching.changes == ["+a", "+b", "+a", "+made"]
        assert watching.reflector.counters.repaired == 0
