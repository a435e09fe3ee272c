"""A recorder of Events for tests: time passes when it sleeps, and when a test says so."""

import asyncio
import datetime as dt
from dataclasses import dataclass

from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.events import EventRecorder

from .script import ok

START = dt.datetime(2026, 1, 1, 12, 0, 0, tzinfo=dt.UTC)
MADE = ok({"kind": "Event"}, 201)


@dataclass(frozen=True)
class Subject:
    """What an Event is about."""

    kind: str = "ResourceClaim"
    namespace: str = "ns"
    name: str = "c"
    uid: str = "u"


class Recording:
    """A recorder under test; time passes when it sleeps, and when a test says so."""

    def __init__(self, session, **settings):
        self.now = 0.0
        self.waits = []
        self.recorder = EventRecorder(
            session,
            clock=lambda: 7000.0 + self.now,
            wall=lambda: START + dt.timedelta(seconds=self.now),
            sleep=self.sleep,
            random=lambda: 1.0,
            backoff=Backoff(base=1.0, cap=10.0),
            **settings,
        )

    async def sleep(self, seconds):
        """Let time pass instead of waiting."""
        self.waits.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def say(self, message="why", subject=Subject(), reason="NoDevice"):
        """Record an Event."""
        self.recorder.record(subject, "Warning", reason, message)

    async def sent(self, script, count):
        """Wait until so many requests were made and answered, and nothing waits."""
        async with asyncio.timeout(60):
            while len(script.asked) < count or self.recorder.pending:  # noqa: ASYNC110 - a count, not a signal
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)
        assert len(script.asked) == count
        return script.asked
