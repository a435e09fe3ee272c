"""Events while the API server is in trouble, and after: each trouble is one of its own."""

import asyncio

from structlog.testing import capture_logs

from dra_operator.cluster.events import ATTEMPTS

from .recording import MADE
from .script import cut, ok, status

KEPT = ok({"kind": "Event", "count": 2})
DENIED = status(403, 'events is forbidden: User "u" cannot create resource "events"')
MAY_NOT_PATCH = status(403, 'events "c" is forbidden: User "u" cannot patch resource "events"')
CONFLICT = status(409, "please apply your changes to the latest version", "Conflict")


async def test_an_event_that_somebody_else_changes_is_patched_again(script, recording):
    """A conflict says nothing of what it says."""
    script.then(MADE, CONFLICT, KEPT)
    recorder = recording()
    recorder.say()
    await recorder.sent(script, 1)
    recorder.now += 100
    recorder.say()

    assert [asked.method for asked in await recorder.sent(script, 3)] == ["POST", "PATCH", "PATCH"]
    assert recorder.recorder.counts == {"created": 1, "refreshed": 1}


async def test_whoever_alone_gets_no_answer_is_given_up_while_others_do(script, recording):
    """Else it would hold up those that come for as long as some do."""
    script.default = lambda request: (
        cut(request) if script.asked[-1].body["message"] == "bad" else MADE(request)
    )
    recorder = recording()
    recorder.say("bad")
    async with asyncio.timeout(60):
        for number in range(1, 2 + ATTEMPTS):
            recorder.say(f"good {number}")
            while recorder.recorder.counts["created"] < number:  # noqa: ASYNC110 - a count, not a signal
                await asyncio.sleep(0.001)

    assert recorder.recorder.counts["dropped"] == 1


async def test_what_was_stored_without_an_answer_counts_once(script, recording):
    """It is found when it is sent again, like that of an operator that ran before."""
    exists = status(409, "already exists", "AlreadyExists")
    script.then(cut, exists, ok({"count": 1, "firstTimestamp": "2026-01-01T12:00:00Z"}), KEPT)
    recorder = recording()
    recorder.say()
    await recorder.sent(script, 3)
    recorder.now += 100
    recorder.say()

    assert (await recorder.sent(script, 4))[3].body["count"] == 2


async def test_a_right_that_is_missing_is_told_once(script, recording):
    """And not with each Event, until one was permitted."""
    script.then(*[DENIED] * ATTEMPTS, DENIED, MADE, *[DENIED] * ATTEMPTS)
    recorder, asked = recording(), 0
    with capture_logs() as logs:
        for message, requests in (("one", ATTEMPTS), ("two", 1), ("three", 1), ("four", ATTEMPTS)):
            recorder.say(message)
            asked += requests
            await recorder.sent(script, asked)

    told = [line["event"] for line in logs if not line["event"].startswith("events")]
    assert told == ["forbidden", "permitted again", "forbidden"]


async def test_a_right_to_patch_that_is_missing_is_missing_whatever_is_created(script, recording):
    """Until an Event could be patched; that one is made, or cannot be for another reason, does not show it."""
    may_patch = False

    def answer(request):
        if request.method == "PATCH":
            return (KEPT if may_patch else MAY_NOT_PATCH)(request)
        return (status(404, "no such namespace") if script.asked[-1].body["message"] == "bad" else MADE)(
            request
        )

    script.default = answer
    recorder = recording()
    recorder.say("one")
    await recorder.sent(script, 1)
    recorder.say("one")
    await recorder.sent(script, 1 + ATTEMPTS)
    for asked, message in enumerate(("two", "bad", "three"), 2 + ATTEMPTS):
        assert recorder.recorder.forbidden.verb == "patch"
        recorder.say(message)
        await recorder.sent(script, asked)

    assert recorder.recorder.forbidden.verb == "patch"
    may_patch = True
    recorder.say("three")
    await recorder.sent(script, 5 + ATTEMPTS)
    assert recorder.recorder.forbidden is None
