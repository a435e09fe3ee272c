"""The writer: decisions on their way to the API server, many at once.

Writing is what bounds the operator: about eight to sixteen requests at once use the API server well, more
only queue there (docs/kopf.md, 2.3). So a dozen slots serve two queues, decisions before annotations. A write
whose own claim is in trouble gives its slot back while it waits, so that one broken webhook does not hold up
a cluster; one that waits for the API server keeps it, since the others would fare no better.

Each write that is submitted gets exactly one outcome. Whoever submits waits for it before the next write to
the same claim, which depends on it (`controller.flights`); here all writes are of different claims.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from random import random as system_random
from typing import Final

import structlog

from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.defects import UNCOUNTED, Defect, DefectLogger
from dra_operator.cluster.delivery import Delivery, Permit, Wait
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.session import ApiSession
from dra_operator.cluster.writes import AnnotateWrite, Unknown, Unsent, Write, WriteOutcome, steps

log = structlog.get_logger(__name__)

CONCURRENCY: Final = 12
TIMEOUT_SECONDS: Final = 60.0
"""For one request; the API server gives up on its side after at most that long."""
BACKOFF = Backoff(base=0.2, cap=10.0)


async def at_once() -> None:
    """Permit everything: this operator is the only one."""


class Writer:
    """Sends writes to claims and reports each outcome to `deliver_outcome`, on the event loop.

    `served` is the ResourceClaim in the version that the API server serves. `permit` is asked before each patch and
    update; a write that waits for it keeps its slot. `sleep`, `clock` (monotonic, in seconds) and `random` are
    arguments so that tests need not wait.
    """

    def __init__(
        self,
        session: ApiSession,
        served: Served,
        deliver_outcome: Callable[[WriteOutcome], None],
        *,
        permit: Permit = at_once,
        concurrency: int = CONCURRENCY,
        timeout: float = TIMEOUT_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = system_random,
        backoff: Backoff = BACKOFF,
        defect_logger: DefectLogger = UNCOUNTED,
    ) -> None:
        self._deliver_outcome = deliver_outcome
        self._concurrency = concurrency
        self._sleep = sleep
        self._outage = session.outage
        self._defect_logger = defect_logger
        self._delivery = Delivery(session, served, permit, self._pause, clock, random, backoff, timeout)
        self._free = concurrency
        self._returning: deque[asyncio.Future[None]] = deque()
        self._decisions: deque[Write] = deque()
        self._annotations: deque[Write] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def in_flight(self) -> int:
        """How many writes were begun and have no outcome yet."""
        return len(self._running)

    @property
    def queued(self) -> int:
        """How many writes were not begun yet."""
        return len(self._decisions) + len(self._annotations)

    @property
    def busy(self) -> bool:
        """Whether requests of lesser weight should wait: writes are queued, or half of the slots are taken."""
        return self.queued > 0 or self._free * 2 < self._concurrency

    def submit(self, write: Write) -> None:
        """Send a write as soon as a slot is free.

        Its outcome arrives later, never within this call.
        """
        if self._stopping or not steps(write):
            self._unsent(write)
            return
        (self._annotations if isinstance(write, AnnotateWrite) else self._decisions).append(write)
        self._fill()

    async def drain(self, seconds: float) -> int:
        """Take no more writes and let those in flight finish, for at most so long.

        Return how many were left unfinished; their outcome is Unknown.
        """
        self._stopping = True
        for queue in (self._decisions, self._annotations):
            for write in queue:
                self._unsent(write)
            queue.clear()
        tasks = set(self._running)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
            return len(late)
        return 0

    def _fill(self) -> None:
        """Give free slots away: first to writes that come back from a pause, then to decisions."""
        while self._free:
            if self._returning:
                back = self._returning.popleft()
                if back.done():
                    continue
                back.set_result(None)
            elif queue := self._decisions or self._annotations:
                self._running.add(asyncio.create_task(self._run(queue.popleft())))
            else:
                return
            self._free -= 1

    async def _run(self, write: Write) -> None:
        outcome: WriteOutcome = Unknown(write)
        try:
            outcome = await self._delivery.deliver(write)
        except asyncio.CancelledError:
            log.warning("write left unfinished", namespace=write.namespace, name=write.name, uid=write.uid)
        except Exception:
            self._defect_logger.exception(Defect.WRITE, namespace=write.namespace, name=write.name)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._running.discard(task)
            self._free += 1
            self._report(outcome)
            self._fill()

    async def _pause(self, seconds: float, wait: Wait) -> None:
        if wait.is_of_all:
            await self._rest(seconds, wait)
            return
        self._free += 1
        self._fill()
        try:
            await self._rest(seconds, wait)
        except BaseException:
            self._free -= 1
            raise
        back = asyncio.get_running_loop().create_future()
        self._returning.append(back)
        self._fill()
        try:
            await back
        except BaseException:
            # Cancelled while waiting for a slot: _run gives one back that was never taken again.
            if not back.done() or back.cancelled():
                self._free -= 1
            raise

    async def _rest(self, seconds: float, wait: Wait) -> None:
        if wait.ends_with_outage:
            await self._outage.pause(seconds, self._sleep)
        else:
            await self._sleep(seconds)

    def _unsent(self, write: Write) -> None:
        asyncio.get_running_loop().call_soon(self._report, Unsent(write))

    def _report(self, outcome: WriteOutcome) -> None:
        try:
            self._deliver_outcome(outcome)
        except Exception:
            self._defect_logger.exception(Defect.OUTCOME, outcome=type(outcome).__name__)
