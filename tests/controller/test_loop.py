"""When a pass runs, and where what it decided goes."""

import asyncio
import contextlib

import pytest

from dra_operator.controller.cycle import Tick
from dra_operator.controller.loop import ROOM, Loop
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.settings import Tuning

QUIET, LATEST = 0.02, 0.1


class SchedulingCycle:
    """A stand-in that notes what it is given."""

    def __init__(self):
        self.observed, self.runs, self.effects = [], [], []

    def takes_long(self):
        """Take no time, unless a test says otherwise."""

    def observe(self, items):
        """Keep what was observed."""
        self.observed += items

    def run(self, items, emit, _stopping):
        """Note a pass."""
        self.runs.append(list(items))
        self.takes_long()
        if self.effects:
            emit(self.effects)


@pytest.fixture
def passes():
    """A stand-in for the passes."""
    return SchedulingCycle()


@pytest.fixture
def done():
    """What was carried out."""
    return []


@pytest.fixture
async def loop(passes, done):
    """A loop that runs, with its gate closed."""
    loop = Loop(passes, done.append, metrics=Metrics(), tuning=Tuning(QUIET, LATEST, 1000))
    task = asyncio.create_task(loop.run())
    yield loop
    loop.stop()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def until(condition):
    """Wait until a condition holds, for two seconds at most."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.002)
    pytest.fail("it did not happen")


async def test_nothing_is_decided_before_the_gate_opens(loop, passes):
    """What arrives earlier is observed; the first pass tries everything."""
    loop.put("delta")
    await until(lambda: passes.observed)
    assert not passes.runs

    loop.open()
    await until(lambda: passes.runs)
    assert passes.observed == ["delta"]
    assert isinstance(passes.runs[0][0], Tick)


async def test_a_burst_is_one_pass(loop, passes):
    """Changes that follow each other closely are taken together."""
    loop.open()
    await until(lambda: len(passes.runs) == 1)
    for index in range(100):
        loop.put(index)
    await until(lambda: len(passes.runs) == 2)

    assert passes.runs[1] == list(range(100))


async def test_an_endless_stream_cannot_put_a_pass_off(loop, passes):
    """A pass begins at the latest so long after the first change, quiet or not."""
    loop.open()
    await until(lambda: len(passes.runs) == 1)
    ends = asyncio.get_running_loop().time() + 20 * LATEST
    while len(passes.runs) < 2 and asyncio.get_running_loop().time() < ends:
        loop.put("delta")
        await asyncio.sleep(QUIET / 4)

    assert len(passes.runs) == 2


async def test_no_pass_begins_after_stop(loop, passes):
    """SIGTERM: no new pass."""
    loop.open()
    await until(lambda: passes.runs)
    loop.stop()
    loop.put("delta")
    await asyncio.sleep(LATEST * 2)

    assert len(passes.runs) == 1


async def test_everything_is_tried_again_every_so_often(passes, done):
    """The full pass is the net under all triggers."""
    loop = Loop(passes, done.append, metrics=Metrics(), tuning=Tuning(0, 0, 0.03))
    task = asyncio.create_task(loop.run())
    loop.open()
    await until(lambda: len(passes.runs) >= 3)
    loop.stop()
    await task

    assert all(any(isinstance(item, Tick) for item in items) for items in passes.runs)


async def test_a_list_waits_for_room(loop, passes):
    """While much waits for a pass, whoever lists waits too, and goes on once it has been taken in."""
    await loop.room()
    for number in range(ROOM + 1):
        loop.put(number)

    waiting = asyncio.create_task(loop.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    await waiting

    await until(lambda: len(passes.observed) == ROOM + 1)


async def test_what_is_known_settles_once(passes, done):
    """After the first pass that decides, and not before, what is known is declared to stay."""
    settled = []
    loop = Loop(
        passes,
        done.append,
        metrics=Metrics(),
        tuning=Tuning(0, 0, 1000),
        settle=lambda: settled.append(len(passes.runs)),
    )
    task = asyncio.create_task(loop.run())
    loop.put(Tick())
    await until(lambda: passes.observed)
    assert not settled

    loop.open()
    await until(lambda: loop.settled)
    loop.put(Tick())
    await until(lambda: len(passes.runs) == 2)
    loop.stop()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task

    assert settled == [1]
