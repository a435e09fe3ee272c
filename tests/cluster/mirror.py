"""A reflector under test, and what its API server says when all is well."""

import asyncio

from dra_operator.cluster.reflector import Reflector

from .script import CLAIMS, event, lines, listed, thing

GOOD = [listed(thing("a", 1), thing("b", 2))]
QUIET = lines(event("BOOKMARK", {"metadata": {"resourceVersion": "900"}}), then="stall")
"""A watch that says that it lives, and nothing more."""


class Mirror:
    """A reflector under test, what it delivered, and how long it would have waited."""

    def __init__(self, session, served=CLAIMS, **settings):
        self.deltas = []
        self.waits = []
        self.now = 1000.0
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
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110 - a condition of any shape
                await asyncio.sleep(0.002)
