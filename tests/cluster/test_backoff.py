"""Back-off: pauses that grow, are spread, and end."""

import asyncio
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cluster.backoff import Backoff, Outage
from dra_operator.cluster.delivery import UNCHANGED_SECONDS
from dra_operator.cluster.events import EventRecorder
from dra_operator.cluster.lease import Lease
from dra_operator.cluster.writes import Stored, Unclear

from .mirror import GOOD, QUIET
from .script import CLASSES, cut, ok, status
from .writing import DONE, UNCHANGED, allocate

BACKOFF = Backoff(base=0.5, cap=4.0)
LONG = Backoff(base=100.0, cap=100.0)
"""Pauses that no test waits out."""
LIMIT = 60
"""So many seconds something may take that comes at once: this machine may be busy."""


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (4, 4.0), (5, 4.0), (10**6, 4.0)]
)
def test_pauses_double_up_to_the_cap(failures, seconds):
    """Each failure doubles the pause until the cap, however many there are."""
    assert BACKOFF.delay(failures, lambda: 1.0) == seconds


@given(st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_pauses_are_spread_over_their_upper_half(failures, chance):
    """A pause is between half of its length and all of it."""
    longest = BACKOFF.delay(failures, lambda: 1.0)

    assert longest / 2 <= BACKOFF.delay(failures, lambda: chance) <= longest
    assert BACKOFF.delay(failures, lambda: 0.0) == longest / 2


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [(None, 0.5), (0.3, 0.5), (17.0, 17.0), (86400.0, 60.0)],
    ids=["no", "less", "more", "a day"],
)
def test_server_is_obeyed_within_reason(asked, seconds):
    """What the server asks for counts if it is longer, up to a minute."""
    assert BACKOFF.delay(1, lambda: 1.0, asked) == seconds


MADE = ok({"kind": "Event"}, 201)


class About(NamedTuple):
    """What an Event is about."""

    name: str = "c"
    namespace: str = "ns"
    kind: str = "ResourceClaim"
    uid: str = "u"


class Paused:
    """Somebody who has begun a pause, by a clock that stands still."""

    def __init__(self, seconds, in_vain=0):
        self.now, self.slept, self.end = 0.0, [], asyncio.Event()
        self.outage = Outage(lambda: self.now)
        self.pause = asyncio.ensure_future(self.outage.pause(seconds, self.sleep, in_vain))

    async def sleep(self, seconds):
        """Note a pause and wait until the test ends it."""
        self.slept.append(seconds)
        await self.end.wait()


@pytest.fixture
async def paused():
    """Return a function that lets somebody begin a pause, which ends after the test."""
    begun = []

    async def begin(seconds, in_vain=0):
        begun.append(Paused(seconds, in_vain))
        await turns()
        return begun[-1]

    yield begin
    for somebody in begun:
        somebody.end.set()
        await somebody.pause


async def turns():
    """Let everything else go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_pause_ends_when_the_server_is_back(paused):
    """It need not last as long as it was meant to."""
    somebody = await paused(30)
    somebody.now = 5.0
    somebody.outage.lost()
    somebody.outage.answered()
    await turns()

    assert (somebody.pause.done(), somebody.slept) == (True, [30])


@pytest.fixture
def patient(mirror):
    """Return a function that makes a reflector which takes the pauses that it notes."""

    def make(**settings):
        made = mirror(**settings)

        async def sleep(seconds):
            made.waits.append(seconds)
            await asyncio.sleep(seconds)

        made.reflector._sleep = sleep
        return made

    return make


@pytest.mark.parametrize("fault", [cut, status(503)], ids=["no answer", "503"])
async def test_a_kind_is_listed_as_soon_as_another_request_is_answered(script, session, patient, fault):
    """A reflector does not wait out its own pause."""
    script.then(fault)
    script.default = status(503)
    waiting = patient(served=CLASSES, backoff=LONG)
    await waiting.until(lambda: waiting.waits)
    await asyncio.sleep(0.25)
    asked = len(script.asked)
    script.then(ok({}), *GOOD)
    script.default = QUIET
    await session.request("GET", "/readyz")

    async with asyncio.timeout(LIMIT):
        await waiting.reflector.synced.wait()
    assert len(script.asked) <= asked + 3


@pytest.mark.parametrize("away", [cut, status(500), status(503)], ids=["no answer", "500", "503"])
async def test_a_kind_that_may_not_be_listed_after_an_outage_is_listed_again_in_a_moment(
    script, mirror, away
):
    """However the server was away: one that was just started permits nobody anything until it has read its roles."""
    script.then(*[away] * 16, status(403), status(403), *GOOD, QUIET)
    waiting = mirror(served=CLASSES)
    await waiting.reflector.synced.wait()

    assert waiting.waits[-2:] == [0.25, 0.5]


@pytest.fixture
def slowly(desk):
    """Start a writer that takes one of its pauses, by number, and the others not; return it."""

    def start(number):
        made = desk()

        async def sleep(seconds):
            made.waits.append(seconds)
            await asyncio.sleep(LONG.base if len(made.waits) == number else 0)

        made.writer._sleep = sleep
        return made

    return start


async def come_back(script, session, *answers):
    """Let the server answer somebody in the middle of a pause, and then so."""
    await asyncio.sleep(0.2)
    script.then(ok({}), *answers)
    await session.request("GET", "/readyz")


@pytest.mark.parametrize(
    "faults",
    [[cut], [status(503)], [cut, status(503)]],
    ids=["not answered", "503", "not read back"],
)
async def test_a_write_goes_on_as_soon_as_another_request_is_answered(script, session, slowly, faults):
    """It does not wait out its own pause, whether it was to be sent again or the claim to be read back."""
    script.then(*faults)
    writing = slowly(len(faults))
    writing.writer.submit(allocate())
    await come_back(script, session, UNCHANGED, DONE)

    async with asyncio.timeout(LIMIT):
        (outcome,) = await writing.results()
    assert isinstance(outcome, Stored)


@pytest.mark.parametrize("away", [1, 20])
async def test_a_claim_that_may_not_be_read_long_after_an_outage_is_unclear(script, desk, away):
    """Some seconds after the API server is back it has read its roles."""
    script.then(cut, *[status(503)] * away)
    script.default = status(403)
    writing = desk()

    outcome = await writing.result(allocate())
    assert isinstance(outcome, Unclear)
    assert UNCHANGED_SECONDS <= sum(writing.waits[away + 1 :]) < UNCHANGED_SECONDS + 10


@pytest.mark.parametrize(
    "fault",
    [
        status(503, headers={"Retry-After": "1"}),
        status(429, headers={"Retry-After": "1"}),
        status(500, "failed calling webhook"),
    ],
    ids=["503 with a time", "429 with a time", "a webhook"],
)
async def test_a_write_that_was_answered_waits_whoever_else_is_answered(script, session, slowly, fault):
    """A server that says when to come again means it, and a webhook that fails is none that is away."""
    script.then(fault)
    writing = slowly(1)
    writing.writer.submit(allocate())
    await asyncio.sleep(0.1)
    session.outage.lost()
    await come_back(script, session)
    await asyncio.sleep(0.1)

    assert len(script.asked) == 2


async def test_events_go_on_as_soon_as_another_request_is_answered(script, session):
    """The one that was not taken is sent at once, and those behind it."""
    script.then(cut)
    recorder = EventRecorder(session, backoff=LONG, random=lambda: 1.0)
    running = asyncio.create_task(recorder.run())
    for name in ("a", "b"):
        recorder.record(About(name=name), "Warning", "NoDevice", "why")
    await come_back(script, session, MADE, MADE)

    async with asyncio.timeout(LIMIT):
        while recorder.counts["created"] < 2:  # noqa: ASYNC110 - a count, not a signal
            await asyncio.sleep(0.01)
    running.cancel()


async def test_the_lease_is_renewed_as_soon_as_another_request_is_answered(script, session):
    """Writes wait for nothing else any more."""

    def away(request):
        lease.period = LONG.base
        return cut(request)

    held = {"kind": "Lease", "metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "we"}}
    script.then(status(404), ok(held), away)
    lease = Lease(session, "ns", "we", seconds=600)
    lease.period = 0.01
    assert await lease.acquire()
    keeping = asyncio.create_task(lease.keep())
    await come_back(script, session, ok(held))

    async with asyncio.timeout(LIMIT):
        while lease.error is not None or len(script.asked) < 5:  # noqa: ASYNC110 - nothing signals it
            await asyncio.sleep(0.01)
    keeping.cancel()
