"""How fast the machine is just now, against the fastest it was seen: what is slow on a busy machine is no finding.

Time of a thread leaves out what others had of the processor, but not what they take by sharing its caches: then the
same call takes up to twice as long. So what is measured reads memory all over the place.
"""

import random
import time

_TEXTS = 300_000
_READS = 40_000
_MOST = 2.0
"""How much longer a call may take on a busy machine; beyond it the call is to blame."""


class Pace:
    """A piece of work that is always the same, and the least time it took."""

    def __init__(self) -> None:
        self._texts = [str(number) for number in range(_TEXTS)]
        self._order = random.Random(1).choices(range(_TEXTS), k=_READS)
        self._least = min(self._seconds() for _ in range(20))

    def slowdown(self) -> float:
        """Return how many times longer work takes now than at best; at least 1."""
        now = min(self._seconds() for _ in range(3))
        self._least = min(self._least, now)
        return min(_MOST, now / self._least)

    def _seconds(self) -> float:
        texts = self._texts
        started = time.thread_time()
        for number in self._order:
            len(texts[number])
        return time.thread_time() - started
