"""Back-off: how long to wait after the n-th failure in a row, and when an outage is over before that.

Exponential with jitter, since after an outage of the API server all clients come back at once. The first good answer
ends the pauses of all: watches, writes, Events and the Lease; but none before a tenth of its time, or a second, lest a
server that answers one kind and never another be asked for that one in a hot loop.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

LONGEST_ASKED = 60.0
"""A server, or a proxy that speaks for it, is obeyed for at most so many seconds; they ask for one to ten."""


def doubled(first: float, longest: float, times: int) -> float:
    """Return a time that was doubled so many times, and is `longest` at most."""
    # 2.0**1024 is no float, and what fails each half minute has done so as often by the next morning.
    return min(first * 2.0 ** min(times, 30), longest)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays of `base` seconds, doubled by each failure up to `cap`, shortened at random by up to a half."""

    base: float = 0.25
    cap: float = 30.0

    def delay(self, failures: int, random: Callable[[], float], asked: float | None = None) -> float:
        """Return the seconds to wait after `failures` in a row (from 1), or as long as the server `asked` for.

        `random` gives a number from 0 up to 1.
        """
        full = doubled(self.base, self.cap, failures - 1)
        return max(full * (0.5 + random() / 2), min(asked or 0.0, LONGEST_ASKED))


DEFAULT_BACKOFF = Backoff()


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
