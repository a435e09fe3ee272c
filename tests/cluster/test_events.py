"""Events: one for each thing said, never in the way, never anybody's problem."""

import asyncio

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.events import ATTEMPTS, shorten

from .recording import MADE, Recording, Subject
from .script import cut, ok, status


async def test_event_names_its_object_and_us(script, recording):
    """An Event carries all that kubectl needs to find and show it."""
    script.then(MADE)
    recorder = recording()

    recorder.say("request gpu: no device")

    (asked,) = await recorder.sent(script, 1)
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/ns/events")
    name = asked.body["metadata"].pop("name")
    assert name.startswith("c.")
    assert asked.body == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "ns"},
        "involvedObject": {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "namespace": "ns",
            "name": "c",
            "uid": "u",
        },
        "type": "Warning",
        "reason": "NoDevice",
        "message": "request gpu: no device",
        "count": 1,
        "firstTimestamp": "2026-01-01T12:00:00Z",
        "lastTimestamp": "2026-01-01T12:00:00Z",
        "source": {"component": "dra-operator"},
        "reportingComponent": "dra-operator",
        "reportingInstance": "dra-operator",
    }


async def test_repetition_counts_on_the_same_event(script, recording):
    """What is said again is counted on its Event and moves its time."""
    script.then(MADE, ok({}))
    recorder = recording()
    recorder.say()
    await recorder.sent(script, 1)

    recorder.now = 120.0
    recorder.say()

    first, second = await recorder.sent(script, 2)
    assert (second.method, second.path) == ("PATCH", f"{first.path}/{first.body['metadata']['name']}")
    assert second.headers["Content-Type"] == "application/merge-patch+json"
    assert second.body == {"count": 2, "lastTimestamp": "2026-01-01T12:02:00Z"}


async def test_what_is_said_again_after_something_else_is_sent_at_once(script, recording):
    """Else what is no longer so would be the last word, for as long as nothing changes."""
    script.then(MADE, MADE, ok({}))
    recorder = recording()
    for message in ("free", "tainted", "free"):
        recorder.now += 1.0
        recorder.say(message)
        sent = await recorder.sent(script, int(recorder.now))

    assert (sent[2].method, sent[2].body["lastTimestamp"]) == ("PATCH", "2026-01-01T12:00:03Z")
    assert sent[0].body["metadata"]["name"] in sent[2].path


@pytest.mark.parametrize(
    "other",
    [
        {"message": "another"},
        {"reason": "Another"},
        {"subject": Subject(uid="another")},
        {"subject": Subject(namespace="another")},
    ],
    ids=["message", "reason", "uid", "namespace"],
)
async def test_what_differs_is_another_event(script, recording, other):
    """Object, reason and message make an Event; another of any is another Event."""
    script.then(MADE, MADE)
    recorder = recording()
    recorder.say()
    recorder.say(**other)

    first, second = await recorder.sent(script, 2)

    assert first.body["metadata"]["name"] != second.body["metadata"]["name"]


async def test_expired_event_is_made_anew(script, recording):
    """If the API server has forgotten an Event, the next repetition makes it again."""
    script.then(MADE, status(404), MADE)
    recorder = recording()
    recorder.say()
    await recorder.sent(script, 1)

    recorder.now = 4000.0
    recorder.say()

    asked = await recorder.sent(script, 3)
    assert [each.method for each in asked] == ["POST", "PATCH", "POST"]
    assert asked[2].body["count"] == 2


async def test_restarted_operator_goes_on_counting(script, recording):
    """An Event of the operator before this one is found by its name and counted on, also if it is a moment old."""
    stored = {"count": 7, "firstTimestamp": "2026-01-01T12:00:00Z"}
    script.then(status(409, "already exists", "AlreadyExists"), ok(stored), ok({}))
    recorder = recording()
    recorder.say()
    first, second = await recorder.sent(script, 2)
    assert second.path.endswith(first.body["metadata"]["name"])
    assert second.body == {"lastTimestamp": "2026-01-01T12:00:00Z"}

    recorder.now = 100.0
    recorder.say()

    assert (await recorder.sent(script, 3))[2].body["count"] == 9


async def test_events_stand_back_while_the_writer_is_busy(script, recording):
    """While writes wait, Events wait too."""
    script.default = MADE
    busy = [True]
    recorder = recording(busy=lambda: busy[0])
    recorder.say()
    while not recorder.waits:  # noqa: ASYNC110 - a state, not a signal
        await asyncio.sleep(0)
    assert script.asked == []

    busy[0] = False

    await recorder.sent(script, 1)


async def test_rate_is_bounded(script, recording):
    """After a burst, Events go out at the given rate."""
    script.default = MADE
    recorder = recording(rate=10.0, burst=5)

    for number in range(25):
        recorder.say(f"message {number}")
    await recorder.sent(script, 25)

    assert recorder.now == pytest.approx(2.0)


async def test_full_queue_drops_the_oldest(script, session):
    """Where there are too many Events, the oldest go, and can be said again."""
    script.default = MADE
    recorder = Recording(session, queue=2)
    for message in ("first", "second", "third", "first"):
        recorder.say(message)
    assert recorder.recorder.counts["dropped"] == 2

    task = asyncio.create_task(recorder.recorder.run())
    asked = await recorder.sent(script, 2)
    task.cancel()
    assert [each.body["message"] for each in asked] == ["third", "first"]


@pytest.mark.parametrize(
    "fault", [cut, status(503), status(500), status(429)], ids=["cut", "503", "500", "429"]
)
async def test_event_waits_for_the_server(script, recording, fault):
    """An Event that cannot be sent now is sent when the API server is back, with pauses in between."""
    script.then(fault, fault, MADE)
    recorder = recording()

    recorder.say()
    await recorder.sent(script, 3)

    assert recorder.recorder.counts["created"] == 1
    assert recorder.waits == [1.0, 2.0]


async def test_event_that_always_fails_is_given_up(script, recording):
    """An Event on which the API server fails each time does not stop those behind it."""
    script.then(*[status(500)] * ATTEMPTS, MADE)
    recorder = recording()

    recorder.say("bad")
    recorder.say("good")
    asked = await recorder.sent(script, ATTEMPTS + 1)

    assert asked[-1].body["message"] == "good"


@pytest.mark.parametrize("code", [400, 403, 404, 422])
async def test_refusal_hurts_nobody(script, recording, code):
    """An Event that the API server refuses is dropped, counted, and may be said again."""
    script.then(status(code, "no", "Nope"), MADE, MADE)
    recorder = recording()

    recorder.say("bad")
    recorder.say("good")
    asked = await recorder.sent(script, 2)
    recorder.say("bad")
    asked = await recorder.sent(script, 3)

    assert [each.body["message"] for each in asked] == ["bad", "good", "bad"]
    assert recorder.recorder.counts == {"refused": 1, "created": 2}


DENIED = status(403, 'events is forbidden: User "u" cannot create resource "events"', "Forbidden")


@pytest.mark.parametrize("after", [MADE, status(404, "no such namespace")], ids=["made", "refused"])
async def test_forbidden_names_verb_and_resource(script, recording, after):
    """Missing permission can be read while it is missing: until the authorizer lets an Event pass."""
    script.then(*[DENIED] * ATTEMPTS, after)
    recorder = recording()
    recorder.say()
    await recorder.sent(script, ATTEMPTS)
    error = recorder.recorder.forbidden
    assert (error.verb, error.resource) == ("create", "events")

    recorder.say()
    await recorder.sent(script, 1 + ATTEMPTS)

    assert recorder.recorder.forbidden is None


@pytest.mark.parametrize(
    "refusal",
    [
        status(403, "no", "Forbidden", details={"causes": [{"reason": "NamespaceTerminating"}]}),
        status(404, "no", "NotFound", details={"kind": "namespaces", "name": "ns"}),
    ],
    ids=["terminating", "gone"],
)
async def test_namespace_that_ends_is_no_news(script, recording, refusal):
    """An Event for which there is no namespace any more is refused without a warning, others with one."""
    script.then(refusal, status(422, "no", "Invalid"))
    recorder = recording()

    with capture_logs() as logs:
        recorder.say("in a namespace that is going")
        recorder.say("wrong")
        await recorder.sent(script, 2)

    assert [line["log_level"] for line in logs] == ["debug", "warning"]
    assert recorder.recorder.counts == {"refused": 2}


async def test_memory_is_bounded(script, recording):
    """Of more Events than are remembered, the least recent are forgotten."""
    script.default = MADE
    recorder = recording(remembered=3)

    for number in range(10):
        recorder.say(f"message {number}")
    await recorder.sent(script, 10)

    assert len(recorder.recorder._entries) == 3


async def test_name_is_short_enough(script, recording):
    """The name of an Event is a DNS name of at most 253 characters, however long its object's is."""
    script.then(MADE)
    recorder = recording()

    recorder.say(subject=Subject(name=("a" * 235) + "-" + "b" * 17))

    (asked,) = await recorder.sent(script, 1)
    name = asked.body["metadata"]["name"]
    assert len(name) <= 253
    assert name.startswith("a" * 235 + ".")


@pytest.mark.parametrize("message", ["x" * 2049, "\u20ac" * 683], ids=["one too many", "in bytes"])
def test_longer_messages_are_cut(message):
    """To 2,048 bytes."""
    assert shorten(message) != message
    assert len(shorten(message).encode()) <= 2048
