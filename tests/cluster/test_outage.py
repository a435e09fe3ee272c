"""Outages: when the server answers one, all others ask at once, and none in a hot loop."""

import asyncio

import pytest

from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.outage import Outage

from .mirror import GOOD, QUIET
from .script import CLASSES, cut, ok, status


class Waiter:
    """A clock, and a pause that ends when a test says so."""

    def __init__(self):
        self.now, self.slept, self.end = 0.0, [], asyncio.Event()

    def __call__(self):
        """Return the time."""
        return self.now

    async def sleep(self, seconds):
        """Note the pause and wait for its end."""
        self.slept.append(seconds)
        await self.end.wait()


@pytest.fixture
async def waiter():
    """A clock that stands still."""
    return Waiter()


async def turns():
    """Let everything else go on."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_pause_ends_when_the_server_is_back(waiter):
    """It need not last as long as it was meant to."""
    outage = Outage(waiter)
    pause = asyncio.ensure_future(outage.pause(30, waiter.sleep))
    await turns()
    waiter.now = 5.0
    outage.lost()
    outage.answered()
    await turns()

    assert (pause.done(), waiter.slept) == (True, [30])


async def test_a_tenth_of_a_pause_is_taken_in_any_case(waiter):
    """A server that answers others and never this one is asked ten times as often at most."""
    outage = Outage(waiter)
    pause = asyncio.ensure_future(outage.pause(30, waiter.sleep))
    await turns()
    waiter.now = 1.0
    outage.lost()
    outage.answered()
    await turns()

    assert (pause.done(), waiter.slept) == (False, [30, 2.0])
    waiter.end.set()
    await pause


async def test_answers_of_a_server_that_was_not_away_end_no_pause(waiter):
    """What waits for another reason goes on waiting."""
    outage = Outage(waiter)
    pause = asyncio.ensure_future(outage.pause(30, waiter.sleep))
    await turns()
    waiter.now = 5.0
    outage.answered()
    await turns()

    assert not pause.done()
    waiter.end.set()
    await pause


@pytest.mark.parametrize("fault", [cut, status(503)], ids=["no answer", "503"])
async def test_a_kind_is_listed_as_soon_as_another_request_is_answered(script, session, mirror, fault):
    """A reflector does not wait out its own pause."""
    script.then(fault)
    script.default = status(503)
    waiting = mirror(served=CLASSES, backoff=Backoff(base=2.0, cap=2.0))

    async def sleep(seconds):
        waiting.waits.append(seconds)
        await asyncio.sleep(seconds)

    waiting.reflector._sleep = sleep
    await waiting.until(lambda: waiting.waits)
    await asyncio.sleep(0.25)
    asked = len(script.asked)
    script.then(ok({}), *GOOD)
    script.default = QUIET
    await session.request("GET", "/readyz")

    async with asyncio.timeout(0.5):
        await waiting.reflector.synced.wait()
    assert len(script.asked) <= asked + 3


async def test_retry_after_is_obeyed_whoever_else_is_answered(script, session, mirror):
    """A server that asks one kind to wait means it."""
    script.then(status(503, headers={"Retry-After": "1"}))
    waiting = mirror(served=CLASSES)

    async def sleep(seconds):
        waiting.waits.append(seconds)
        await asyncio.sleep(seconds)

    waiting.reflector._sleep = sleep
    await waiting.until(lambda: waiting.waits)
    await asyncio.sleep(0.15)
    script.then(ok({}))
    await session.request("GET", "/readyz")
    await asyncio.sleep(0.1)

    assert len(script.asked) == 2
