"""Outages: whoever waits for a server that was away goes on when it has answered somebody.

After an outage of minutes each kind would wait out a pause of its own, of up to half a minute, while the Lease is
renewed again already. What is allocated meanwhile is decided on what was known before. And writes that were under way
would hold their slots for ten seconds more, so that nothing new is written. So the first good answer ends the pauses of
all: watches, writes, Events, and the Lease. But none before a tenth of its time is over, or a second: a server that
answers one kind and never another would be asked for that one in a hot loop. Whoever says how often that was in vain
waits twice as long each time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from dra_operator.cluster.backoff import doubled

SHARE: Final = 0.1
"""The part of a pause that is taken in any case."""
LONGEST_SHARE: Final = 1.0
"""It is no longer than so many seconds, at first: the Lease asks every two, so that no pause is worth much more."""


class Outage:
    """What all requests to one server have seen of it. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lost = False
        self._back = asyncio.Event()

    def lost(self) -> None:
        """Note that a request got no answer, or that of a server in trouble."""
        self._lost = True

    def answered(self) -> None:
        """Note that a request got a good answer."""
        if self._lost:
            self._lost = False
            self._back.set()
            self._back = asyncio.Event()

    async def pause(
        self, seconds: float, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep, in_vain: int = 0
    ) -> bool:
        """Wait for so long, or until the server is back; return whether it is.

        `in_vain` says how often in a row it was back, and what was waited for failed again.
        """
        begun = self._clock()
        pause = asyncio.ensure_future(sleep(seconds))
        back = asyncio.ensure_future(self._back.wait())
        try:
            await asyncio.wait({pause, back}, return_when=asyncio.FIRST_COMPLETED)
            if pause.done():
                await pause
                return False
        finally:
            pause.cancel()
            back.cancel()
        least = doubled(min(seconds * SHARE, LONGEST_SHARE), seconds, in_vain)
        if (left := begun + least - self._clock()) > 0:
            await sleep(left)
        return True
