"""The loop: when a cycle runs, and where what it decided goes.

Changes come in bursts, so a cycle starts when nothing has changed for a moment (`quiet`), or some time after the first
change (`latest`), and takes in everything at once (debouncing). It runs in a thread: the event loop must go on
answering probes and sending writes. A cycle that ends with an error is tried again, and what it had taken in stays.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial

from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.faults import Defect
from dra_operator.cluster.ownership_policy import RuleAnswer, RuleProbe
from dra_operator.cluster.session import in_thread
from dra_operator.cluster.writes import Unclear
from dra_operator.controller.cycle import Effect, Emit, Item, SchedulingCycle, Tick
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.settings import Tuning

ROOM = 500
"""If more changes than this wait, reflectors do not list the next page yet."""
RETRY = (1.0, 30.0)
"""First and longest wait, in seconds, after a cycle that ended with an error."""


class Loop:
    """Collects what arrives and runs the cycles; used on the event loop only.

    `carry_out` gets each write and Event, on the event loop, in order. `settle` is called once, in the thread of
    cycles, after the first that decided: what is known then stays.
    """

    def __init__(
        self,
        cycle: SchedulingCycle,
        carry_out: Callable[[Effect], None],
        *,
        metrics: Metrics,
        tuning: Tuning,
        settle: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cycle = cycle
        self._carry_out = carry_out
        self._metrics = metrics
        self._tuning = tuning
        self._settle = settle
        self._clock = clock
        self._queue: list[Item] = []
        metrics.queue_depth.set_function(lambda: len(self._queue))
        self._first = self._last = 0.0
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._gate = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self.running_since: float | None = None
        """When the cycle that runs now began, by the clock; None between cycles."""
        self.settled = False
        """Whether a cycle has decided since everything was listed."""

    def put(self, item: Item) -> None:
        """Queue what arrived for the next cycle."""
        self._last = self._clock()
        if not self._queue:
            self._first = self._last
        self._queue.append(item)
        self._arrived.set()

    async def room(self) -> None:
        """Wait while too many changes wait for a cycle: until they are taken in, their whole bodies are in memory."""
        while len(self._queue) > ROOM:
            self._taken.clear()
            await self._taken.wait()

    def open(self) -> None:
        """Begin or resume deciding: everything has been listed."""
        if not self._gate.is_set():
            self._gate.set()
            self.put(Tick())

    def close(self) -> None:
        """Stop deciding, after the cycle that runs, until `open`: something has to be listed again."""
        self._gate.clear()

    @property
    def is_open(self) -> bool:
        """Whether decisions are made."""
        return self._gate.is_set()

    @property
    def has_arrivals(self) -> bool:
        """Return whether something waits for the next cycle. May be called in any thread."""
        return bool(self._queue)

    async def run(self) -> None:
        """Run cycles until cancelled, or until `stop` is called."""
        failures, wake_at = 0, None
        next_full = self._clock() + self._tuning.full_pass_seconds
        while not self._stopping:
            await self._wait(min(next_full, wake_at if wake_at is not None else next_full))
            if self._clock() >= next_full:
                self._queue.append(Tick())
                next_full = self._clock() + self._tuning.full_pass_seconds
            try:
                wake_at = await self._run_cycle()
                failures = 0
            except Exception:
                self._metrics.passes.labels("error").inc()
                self._metrics.defect_logger.exception(Defect.PASS)
                await asyncio.sleep(doubled(*RETRY, failures))
                failures += 1
                # What it was to do still has to be done.
                self.put(Tick())

    def stop(self) -> None:
        """Start no further cycle; the one that runs ends after its current claim."""
        self._stopping = True
        self._arrived.set()

    async def idle(self) -> None:
        """Wait for the end of the cycle that runs; return at once if none does."""
        await self._idle.wait()

    async def _wait(self, until: float) -> None:
        """Wait for something to arrive and then for quiet, or until the time given."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - self._clock())):
                await self._arrived.wait()
        while self._queue and not self._stopping:
            now = self._clock()
            start = min(self._last + self._tuning.quiet_seconds, self._first + self._tuning.latest_seconds)
            if now >= start:
                return
            await asyncio.sleep(start - now)

    async def _run_cycle(self) -> float | None:
        if self._stopping:
            return None
        items, self._queue = self._queue, []
        self._arrived.clear()
        self._taken.set()
        self.running_since = self._clock()
        self._idle.clear()
        try:
            if not self.is_open:
                await in_thread("pass", partial(self._cycle.observe, _drained(items)))
                return None
            emit = self._emit_to(asyncio.get_running_loop())
            wake_at = await in_thread(
                "pass", partial(self._cycle.run, _drained(items), emit, self._is_stopping)
            )
            if not self.settled and not self._stopping:
                await in_thread("pass", self._settle)
                self.settled = True
        finally:
            self.running_since = None
            self._idle.set()
        self._metrics.passes.labels("done").inc()
        return wake_at

    def _is_stopping(self) -> bool:
        return self._stopping

    def _emit_to(self, loop: asyncio.AbstractEventLoop) -> Emit:
        def carry_out(effects: list[Effect]) -> None:
            for effect in effects:
                try:
                    self._carry_out(effect)
                except Exception:
                    self._metrics.defect_logger.exception(Defect.EFFECT, effect=type(effect).__name__)
                    if isinstance(effect, RuleProbe):
                        self.put(RuleAnswer(effect, is_known=False))
                    elif not isinstance(effect, EventRequest):
                        # Cycles wait for the outcome of each write.
                        self.put(Unclear(effect))

        def emit(effects: list[Effect]) -> None:
            loop.call_soon_threadsafe(carry_out, effects)

        return emit


def _drained(items: list[Item]) -> Iterator[Item]:
    """Yield what arrived and let go of each piece as soon as it has been taken in: a page of slices is large."""
    items.reverse()
    while items:
        yield items.pop()
