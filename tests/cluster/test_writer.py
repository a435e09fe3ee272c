"""The writer: many at once, decisions first, and an end in time."""

import asyncio
from dataclasses import replace

import pytest

from dra_operator.api.names import FINALIZER, PENDING_ANNOTATION
from dra_operator.cluster.writes import Stale, Stored, Unclear

from .script import ok, status
from .writing import (
    ALLOCATION,
    DONE,
    allocate,
    annotate,
    claim,
    writer_of,
)


class TestOrder:
    """Many writes at once."""

    @pytest.fixture
    def gate(self, script):
        """Hold every request until it is let through; say which are held."""

        class Gate:
            def __init__(self):
                self.held = {}
                self.most = 0

            async def answer(self, request):
                name = request.path.removesuffix("/status").rpartition("/")[2]
                self.held[name] = asyncio.Event()
                self.most = max(self.most, len(self.held))
                await self.held[name].wait()
                del self.held[name]
                asked = next(asked for asked in reversed(script.asked) if asked.path == request.path)
                text = (asked.body["metadata"].get("annotations") or {}).get(PENDING_ANNOTATION)
                return ok(
                    claim(6, allocation=ALLOCATION, finalizers=[FINALIZER], annotation=text, name=name)
                )(request)

            async def until(self, *names):
                async with asyncio.timeout(60):
                    while set(self.held) != set(names):  # noqa: ASYNC110 - a state, not a signal
                        await asyncio.sleep(0.001)

            def release(self, name):
                self.held[name].set()

        made = Gate()
        script.default = made.answer
        return made

    async def test_no_more_than_the_limit_at_once(self, gate, desk):
        """Requests at once never exceed the number of slots, and every write gets its turn."""
        writing = desk(concurrency=3)
        for number in range(10):
            writing.writer.submit(allocate(name=f"c{number}"))
        await gate.until("c0", "c1", "c2")

        while len(writing.outcomes) < 10:
            for name in list(gate.held):
                gate.release(name)
            await asyncio.sleep(0.001)

        assert gate.most == 3

    async def test_decisions_precede_annotations(self, gate, desk):
        """A decision that comes later is sent before annotations that wait."""
        writing = desk(concurrency=1)
        writing.writer.submit(annotate("text", name="busy"))
        await gate.until("busy")
        writing.writer.submit(annotate("text", name="late"))
        writing.writer.submit(allocate(name="decision"))

        gate.release("busy")
        await gate.until("decision")
        gate.release("decision")
        await gate.until("late")
        gate.release("late")

    async def test_requests_that_hang_hold_up_no_other_namespace(self, gate, desk):
        """A webhook of one namespace hangs, and its writes have all slots and wait for more: the next is another's."""
        writing = desk(concurrency=2)
        for number in range(4):
            writing.writer.submit(replace(allocate(), key=("slow", f"slow-{number}")))
        writing.writer.submit(replace(allocate(), key=("good", "good")))
        writing.writer.submit(replace(allocate(), key=("fair", "fair")))
        await gate.until("slow-0", "slow-1")

        gate.release("slow-0")
        await gate.until("slow-1", "good")
        gate.release("good")
        await gate.until("slow-1", "fair")
        gate.release("fair")
        await gate.until("slow-1", "slow-2")

    async def test_claim_in_trouble_gives_its_slot_back(self, script, session):
        """While one claim waits out an error of its own, others are written."""
        slept = asyncio.Event()
        outcomes = []

        def answer(request):
            if "/broken" in request.path:
                return status(500, "failed calling webhook")(request)
            return DONE(request)

        async def sleep(_):
            await slept.wait()

        script.default = answer
        writer = writer_of(session, outcomes.append, concurrency=1, sleep=sleep)
        writer.submit(allocate(name="broken"))
        writer.submit(allocate(name="good"))
        async with asyncio.timeout(60):
            while not outcomes:  # noqa: ASYNC110 - the writer calls back, it signals nothing
                await asyncio.sleep(0.001)

        assert [outcome.write.key[1] for outcome in outcomes] == ["good"]
        await writer.drain(0)
        assert isinstance(outcomes[-1], Unclear)

    async def test_busy_while_writes_wait(self, gate, desk):
        """The writer is busy while writes wait for a slot, and not when all is done."""
        writing = desk(concurrency=1)
        assert not writing.writer.busy
        writing.writer.submit(allocate(name="a"))
        writing.writer.submit(allocate(name="b"))
        await gate.until("a")
        assert writing.writer.busy
        assert (writing.writer.in_flight, writing.writer.queued) == (1, 1)

        gate.release("a")
        await gate.until("b")
        gate.release("b")
        await writing.results(2)

        assert not writing.writer.busy

    async def test_drain_lets_writes_in_flight_finish(self, gate, desk):
        """On the way out, what is in flight finishes and what was not begun is not begun."""
        writing = desk(concurrency=1)
        writing.writer.submit(allocate(name="a"))
        writing.writer.submit(allocate(name="b"))
        await gate.until("a")
        draining = asyncio.create_task(writing.writer.drain(5))
        await asyncio.sleep(0)
        writing.writer.submit(allocate(name="c"))
        gate.release("a")

        assert await draining == 0

        assert {outcome.write.key[1]: type(outcome) for outcome in await writing.results(3)} == {
            "a": Stored,
            "b": Stale,
            "c": Stale,
        }

    async def test_drain_ends_in_time(self, gate, desk):
        """What does not finish in time is left, and its outcome is unknown."""
        writing = desk()
        writing.writer.submit(allocate(name="a"))
        await gate.until("a")

        assert await writing.writer.drain(0.02) == 1

        assert isinstance(writing.outcomes[0], Unclear)
