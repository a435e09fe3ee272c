"""Back-off: how long to wait after the n-th failure in a row.

Exponential with jitter, since after an outage of the API server all clients come back at once. Everything in
this package waits by this rule, and what must not be waited for in tests, the sleep and the random numbers,
comes in as arguments.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
