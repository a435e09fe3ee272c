"""The writer: a pool of a dozen slots for two queues, decisions before annotations, fair by namespace.

More requests at once only queue at the API server (docs/kopf.md). A write whose own claim is in trouble gives its
slot back while it waits; one that waits for the API server keeps it. Each write gets exactly one outcome; all writes
under way are of different objects (`controller.queue`).
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from random import random as system_random
from typing import Final, TypeAlias

import structlog

from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.delivery import Delivery, Permit, Wait
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.faults import UNCOUNTED, Defect, DefectLogger
from dra_operator.cluster.session import ApiSession
from dra_operator.cluster.writes import Stale, Unclear, Write, WriteOutcome

log = structlog.get_logger(__name__)

BACKOFF: Final = Backoff(base=0.2, cap=10.0)

_Returning: TypeAlias = asyncio.Future[None]
"""A write that wants its slot again, after a pause."""


class _Queue:
    """What waits for a slot, by namespace."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Write | _Returning]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, namespace: str, item: Write | _Returning) -> None:
        self._waiting.setdefault(namespace, deque()).append(item)

    def pop(self, held: Counter[str]) -> tuple[str, Write | _Returning]:
        """Return the next one, and its namespace: of those that hold the fewest slots the one that had none longest."""
        without = (namespace for namespace in self._waiting if namespace not in held)
        namespace = next(without, None) or min(self._waiting, key=held.__getitem__)
        waiting = self._waiting.pop(namespace)
        item = waiting.popleft()
        if waiting:
            self._waiting[namespace] = waiting
        return namespace, item


class Writer:
    """Sends writes to claims, or to pods, and reports each outcome to `deliver_outcome`, on the event loop.

    `served` is the kind that is written to, in the version that the API server serves. `may_write` is asked before each
    patch and update; a write that waits for it keeps its slot. `concurrency` is the number of slots; `timeout` is in
    seconds, for one request. `sleep`, `clock` (monotonic, in seconds) and `random` are arguments so that tests need not
    wait.
    """

    def __init__(
        self,
        session: ApiSession,
        served: Served,
        deliver_outcome: Callable[[WriteOutcome], None],
        *,
        may_write: Permit,
        concurrency: int,
        timeout: float,
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
        self._delivery = Delivery(session, served, may_write, self._pause, clock, random, backoff, timeout)
        self._held = Counter[str]()
        """How many slots each namespace has."""
        self._decisions, self._annotations = _Queue(), _Queue()
        self._running: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def in_flight(self) -> int:
        """How many writes were begun and have no outcome yet."""
        return len(self._running)

    @property
    def queued(self) -> int:
        """How many writes wait for a slot."""
        return len(self._decisions) + len(self._annotations)

    @property
    def busy(self) -> bool:
        """Whether requests of lesser weight should wait: writes are queued, or half of the slots are taken."""
        return self.queued > 0 or self._free * 2 < self._concurrency

    def submit(self, write: Write) -> None:
        """Send a write as soon as a slot is free.

        Its outcome arrives later, never within this call.
        """
        if self._stopping or not write.patches:
            self._unsent(write)
            return
        (self._annotations if write.kind == "annotate" else self._decisions).put(write.key[0], write)
        self._fill()

    async def drain(self, seconds: float) -> int:
        """Take no more writes and let those in flight finish, for at most so long.

        Return how many were left unfinished; their outcome is Unclear.
        """
        self._stopping = True
        tasks = set(self._running)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
            return len(late)
        return 0

    @property
    def _free(self) -> int:
        return self._concurrency - self._held.total()

    def _fill(self) -> None:
        """Give free slots away, annotations last. Writers that stop begin nothing more."""
        while self._free and (queue := self._decisions or self._annotations):
            namespace, item = queue.pop(self._held)
            if isinstance(item, asyncio.Future):
                if item.done():
                    continue
                item.set_result(None)
            elif self._stopping:
                self._unsent(item)
                continue
            else:
                self._running.add(asyncio.create_task(self._run(item)))
            self._held[namespace] += 1

    def _give_back(self, namespace: str) -> None:
        self._held -= Counter((namespace,))

    async def _run(self, write: Write) -> None:
        outcome: WriteOutcome = Unclear(write)
        namespace, name = write.key
        try:
            outcome = await self._delivery.deliver(write)
        except asyncio.CancelledError:
            log.warning("write left unfinished", namespace=namespace, name=name, uid=write.uid)
        except Exception:
            self._defect_logger.exception(Defect.WRITE, namespace=namespace, name=name)
        finally:
            task = asyncio.current_task()
            assert task is not None
            self._running.discard(task)
            self._give_back(namespace)
            self._report(outcome)
            self._fill()

    async def _pause(self, write: Write, seconds: float, wait: Wait) -> None:
        namespace = write.key[0]
        if wait == "away":
            await self._outage.pause(seconds, self._sleep)
            return
        if wait == "server":
            await self._sleep(seconds)
            return
        # Whoever is cut short here gives back a slot that it does not have; nothing is begun any more by then.
        self._give_back(namespace)
        self._fill()
        await self._sleep(seconds)
        back = asyncio.get_running_loop().create_future()
        self._decisions.put(namespace, back)
        self._fill()
        await back

    def _unsent(self, write: Write) -> None:
        asyncio.get_running_loop().call_soon(self._report, Stale(write, None, "nothing was sent"))

    def _report(self, outcome: WriteOutcome) -> None:
        try:
            self._deliver_outcome(outcome)
        except Exception:
            self._defect_logger.exception(Defect.OUTCOME, outcome=type(outcome).__name__)
