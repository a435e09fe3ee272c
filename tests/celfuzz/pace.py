"""How fast the machine is just now, against the fastest it was seen: what is slow on a busy machine is no finding.

Time of a thread leaves out what others had of the processor, but not what they take by sharing its caches, or what the
machine itself is not given: under load the same call takes up to twice as long.
"""

import time

_STEPS = 100_000
_MOST = 3.0
"""How much longer a call may take on a busy machine; beyond it the call is to blame."""


class Pace:
    """A piece of work that is always the same, and the least time it took."""

    def __init__(self) -> None:
        self._least = min(_seconds() for _ in range(10))

    def slowdown(self) -> float:
        """Return how many times longer work takes now than at best; at least 1."""
        now = min(_seconds() for _ in range(3))
        self._least = min(self._least, now)
        return min(_MOST, now / self._least)


def _seconds() -> float:
    started = time.thread_time()
    kept: dict[int, list[int]] = {}
    for step in range(_STEPS):
        kept.setdefault(step * 7919 % 4099, []).append(step)
    return time.thread_time() - started
