"""Events while the API server is in trouble, and after: each trouble is one of its own."""

import asyncio

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster import events
from dra_operator.cluster.events import ATTEMPTS

from .recording import MADE
from .script import cut, lines, ok, status

KEPT = ok({"kind": "Event", "count": 2})
DENIED = status(403, 'events is forbidden: User "u" cannot create resource "events"')
MAY_NOT_PATCH = status(403, 'events "c" is forbidden: User "u" cannot patch resource "events"')
CONFLICT = status(409, "please apply your changes to the latest version", "Conflict")
TOO_OFTEN = [status(500)] * ATTEMPTS
NEARLY = TOO_OFTEN[1:]


async def test_an_event_that_was_given_up_is_tried_as_often_when_it_is_said_again(script, recording):
    """What was said before is remembered, and that it could not be sent is not."""
    script.then(MADE, *TOO_OFTEN, *NEARLY, KEPT)
    recorder = recording()
    for asked in (1, 1 + ATTEMPTS, 1 + 2 * ATTEMPTS):
        recorder.say()
        await recorder.sent(script, asked)
        recorder.now += 100

    assert recorder.recorder.counts == {"created": 1, "dropped": 1, "refreshed": 1}


async def test_attempts_count_until_one_is_good(script, recording):
    """Each repetition has all of them."""
    script.then(*NEARLY, MADE, *NEARLY, KEPT)
    recorder = recording()
    for asked in (ATTEMPTS, 2 * ATTEMPTS):
        recorder.say()
        await recorder.sent(script, asked)
        recorder.now += 100

    assert recorder.recorder.counts == {"created": 1, "refreshed": 1}


async def test_each_trouble_is_counted_and_begins_with_a_short_pause(script, recording):
    """However often an Event was tried in the one before."""
    script.then(cut, cut, MADE, cut, MADE)
    recorder = recording()
    for message, asked in (("one", 3), ("two", 5)):
        recorder.say(message)
        await recorder.sent(script, asked)

    assert (recorder.recorder.troubles, recorder.recorder.trouble.partition(" /")[0]) == (3, "POST")
    assert recorder.waits == [1.0, 2.0, 1.0]


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


async def test_an_event_that_meets_a_quota_in_change_is_made_later(script, recording):
    """Such a conflict does not say that it exists."""
    script.then(CONFLICT, MADE)
    recorder = recording()
    recorder.say()

    assert [asked.method for asked in await recorder.sent(script, 2)] == ["POST", "POST"]
    assert recorder.recorder.counts == {"created": 1}


@pytest.mark.parametrize(
    ("trouble", "order"),
    [(cut, ["one", "two", "one"]), (status(500), ["one", "one", "two"])],
    ids=["no answer", "an error"],
)
async def test_whoever_gets_no_answer_lets_the_others_go_first(script, recording, trouble, order):
    """Something between may hold back this one alone, for what is in it."""
    script.then(trouble, MADE, MADE)
    recorder = recording()
    recorder.say("one")
    recorder.say("two")

    asked = await recorder.sent(script, 3)
    assert [request.body["message"] for request in asked] == order


async def test_whoever_alone_gets_no_answer_is_given_up_while_others_do(script, recording):
    """Else it would hold up those that come for as long as some do."""
    script.default = lambda request: (
        cut(request) if script.asked[-1].body["message"] == "bad" else MADE(request)
    )
    recorder = recording()
    recorder.say("bad")
    async with asyncio.timeout(5):
        for number in range(1, 2 + ATTEMPTS):
            recorder.say(f"good {number}")
            while recorder.recorder.counts["created"] < number:  # noqa: ASYNC110 - a count, not a signal
                await asyncio.sleep(0.001)

    assert recorder.recorder.counts["dropped"] == 1


async def test_an_answer_is_not_waited_for_as_long_as_that_to_a_write(script, recording, monkeypatch):
    """The other Events wait meanwhile, and nothing depends on this one."""
    monkeypatch.setattr(events, "ANSWER_SECONDS", 0.05)
    script.then(lines(then="stall"), MADE, lines(then="stall"), KEPT)
    recorder = recording()
    for asked in (2, 4):
        recorder.say()
        await recorder.sent(script, asked)
        recorder.now += 100

    assert recorder.recorder.counts == {"created": 1, "refreshed": 1}


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


async def test_a_right_that_is_missing_after_an_outage_is_told_when_it_lasts(script, recording):
    """The pauses begin anew; and what is denied later is denied at once."""
    script.then(cut)
    script.default = DENIED
    recorder = recording()
    recorder.say("one")
    await recorder.sent(script, 1 + ATTEMPTS)
    assert recorder.waits == [1.0, 1.0, 2.0, 4.0, 8.0]
    assert recorder.recorder.forbidden is not None

    recorder.say("two")
    await recorder.sent(script, 2 + ATTEMPTS)
    assert recorder.recorder.counts == {"refused": 2}


async def test_a_right_that_is_missing_is_told_once(script, recording):
    """And not with each Event, until one was permitted."""
    script.then(DENIED, DENIED, MADE, DENIED)
    recorder = recording()
    with capture_logs() as logs:
        for asked, message in enumerate(("one", "two", "three", "four"), 1):
            recorder.say(message)
            await recorder.sent(script, asked)

    assert [line["event"] for line in logs] == ["event refused"] * 2


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
    recorder.now += 100
    recorder.say("one")
    await recorder.sent(script, 2)
    for asked, message in enumerate(("two", "bad", "three"), 3):
        assert recorder.recorder.forbidden.verb == "patch"
        recorder.say(message)
        await recorder.sent(script, asked)

    assert recorder.recorder.forbidden.verb == "patch"
    may_patch = True
    recorder.recorder.try_again()
    await recorder.sent(script, 6)
    assert recorder.recorder.forbidden is None


async def test_an_outage_is_over_with_the_first_event_that_is_taken(script, recording):
    """A right that is missing then is missing."""
    script.then(cut, MADE, DENIED)
    recorder = recording()
    for message, asked in (("one", 2), ("two", 3)):
        recorder.say(message)
        await recorder.sent(script, asked)

    assert recorder.recorder.counts == {"created": 1, "refused": 1}


async def test_nothing_is_tried_again_where_nothing_was_denied(script, recording):
    """It is asked for from time to time, whatever was sent."""
    recorder = recording()
    recorder.recorder.try_again()

    await recorder.sent(script, 0)


async def test_an_event_is_put_back_however_many_repetitions_wait(script, recording):
    """Of a thousand claims that wait the Events are repeated together, and one error must cost none of them."""
    script.then(MADE, MADE, status(500), KEPT, KEPT)
    recorder = recording(queue=1)
    for name in ("one", "two"):
        recorder.say(name)
        await recorder.sent(script, 1 if name == "one" else 2)
    recorder.now += 100
    recorder.say("one")
    recorder.say("two")
    await recorder.sent(script, 5)

    assert recorder.recorder.counts == {"created": 2, "refreshed": 2}
