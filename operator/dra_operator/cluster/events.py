"""Events: one at a time, at a bounded rate, from a bounded queue, and after the writer's work.

Deduplicated by object, reason and message, of which the name is made, so that a restarted operator finds the Event of
the one before; count and lastTimestamp move. The API server forgets Events after an hour: repetitions are sent, and
forgotten Events made anew.
Source: core/v1 Event; client-go's recorder; kubectl finds Events by involvedObject.
"""

import asyncio
import datetime as dt
import hashlib
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import random as system_random
from typing import Any, Final

import structlog

from dra_operator.api.kinds import EVENT, KINDS
from dra_operator.api.text import cut, timestamp
from dra_operator.cluster.backoff import DEFAULT_BACKOFF, Backoff
from dra_operator.cluster.discovery import Served
from dra_operator.cluster.faults import UNCOUNTED, Defect, DefectLogger
from dra_operator.cluster.session import MERGE_PATCH, ApiError, ApiSession, ApiUnreachable

log = structlog.get_logger(__name__)

COMPONENT: Final = "dra-operator"
MESSAGE_BYTES: Final = 2048
"""Nobody reads more. The API server takes any length; its `NoteLengthLimit` of 1,024 bytes is for events.k8s.io.

Source: k8s.io/kubernetes/pkg/apis/core/validation/events.go.
"""
CLUSTER_NAMESPACE: Final = "default"
"""Where Events about objects without a namespace live. Source: client-go, `tools/record`."""
RATE: Final = 50.0
BURST: Final = 200
QUEUE: Final = 8192
REMEMBERED: Final = 16384
"""Each costs about a kilobyte. One that was forgotten is found again by its name."""
TOLD_SECONDS: Final = 600.0
"""How often the log says at most that Events wait."""
PATIENCE_SECONDS: Final = 5.0
"""An Event stands back for the writer at most so long: a writer that is stuck must not silence everything."""
ANSWER_SECONDS: Final = 10.0
"""How long the answer to an Event is waited for: those behind it wait as well."""
ATTEMPTS: Final = 5
OUTCOMES: Final = ("created", "refreshed", "dropped", "refused")
"""What becomes of an Event: `dropped` where there are too many or nobody takes it, `refused` by the API server."""

_EVENTS = Served(EVENT, "v1")


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about; `namespace` is empty for cluster-scoped objects, `uid` if it is unknown."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(slots=True)
class _Entry:
    """One Event: what it says, how often it was said, and whether that is on its way."""

    regarding: Subject
    type: str
    reason: str
    message: str
    name: str
    count: int
    first: str
    last: str
    exists: bool = False
    queued: bool = False
    attempts: int = 0
    unanswered_after: int | None = None
    """How many Events had been sent when this one got no answer."""

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or CLUSTER_NAMESPACE


class EventRecorder:
    """Records Events and sends them while `run` runs. Nothing here raises for what the API server does.

    `busy` says whether more important requests are waiting; `clock` is monotonic, `wall` the time of day in
    UTC; `rate` is in Events a second.
    """

    def __init__(
        self,
        session: ApiSession,
        *,
        busy: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = system_random,
        backoff: Backoff = DEFAULT_BACKOFF,
        defect_logger: DefectLogger = UNCOUNTED,
        rate: float = RATE,
        burst: int = BURST,
        queue: int = QUEUE,
        remembered: int = REMEMBERED,
        component: str = COMPONENT,
    ) -> None:
        self.counts: Counter[str] = Counter()
        """How many Events had each of OUTCOMES."""
        self.forbidden: ApiError | None = None
        """The last refusal for lack of permission, until that is given: to create Events, or to patch them."""
        self._session = session
        self._busy = busy
        self._clock = clock
        self._wall = wall
        self._sleep = sleep
        self._random = random
        self._backoff = backoff
        self._defect_logger = defect_logger
        self._rate = rate
        self._burst = burst
        self._queue = queue
        self._remembered = remembered
        self._component = component
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._waiting: deque[_Entry] = deque()
        self._wake = asyncio.Event()
        self._sending = 0
        self._tokens = float(burst)
        self._tokens_at = clock()
        self._failures = 0
        self._waits_since: float | None = None
        """Since when Events wait for the API server, if that was logged."""
        self._quiet_until = float("-inf")

    @property
    def pending(self) -> int:
        """How many Events wait to be sent, or for the answer."""
        return len(self._waiting) + self._sending

    def record(self, regarding: Subject, type: str, reason: str, message: str) -> None:  # noqa: A002
        """Say that something happened: `type` is Normal or Warning, `reason` is CamelCase.

        The first time makes an Event, each further time counts on it.
        """
        message = shorten(message)
        name = _event_name(regarding, reason, message)
        entry = self._entries.get(name)
        if entry is None:
            now = self._now()
            entry = self._entries[name] = _Entry(regarding, type, reason, message, name, 1, now, now)
            if len(self._entries) > self._remembered:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(name)
            entry.count += 1
            entry.last = self._now()
        if not entry.queued:
            if len(self._waiting) >= self._queue:
                self._drop(self._waiting.popleft())
            entry.queued = True
            self._waiting.append(entry)
            self._wake.set()

    async def run(self) -> None:
        """Send Events until cancelled."""
        while True:
            await self._wake.wait()
            await self._stand_back()
            await self._spend_token()
            if entry := self._next():
                self._sending = 1
                try:
                    await self._deliver(entry)
                except Exception:
                    self._defect_logger.exception(Defect.EVENT, reason=entry.reason)
                    self.counts["refused"] += 1
                    # Else it counts as queued for ever, and is never sent, however often it is said.
                    entry.queued = False
                self._sending = 0

    def _drop(self, entry: _Entry) -> None:
        """Give an Event up; the next time it is recorded it is tried again."""
        entry.queued = False
        entry.attempts = 0
        self.counts["dropped"] += 1

    def _next(self) -> _Entry | None:
        entry = self._waiting.popleft() if self._waiting else None
        if not self.pending:
            self._wake.clear()
        return entry

    async def _stand_back(self) -> None:
        until = self._clock() + PATIENCE_SECONDS
        while self._busy() and self._clock() < until:
            await self._sleep(0.05)

    async def _spend_token(self) -> None:
        """Take a token of the bucket, and wait until it is there."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._tokens_at) * self._rate) - 1
        self._tokens_at = now
        if self._tokens < 0:
            await self._sleep(-self._tokens / self._rate)

    async def _deliver(self, entry: _Entry) -> None:
        """Send one Event, and put it back if the API server cannot take it now."""
        sent = self._patch if entry.exists else self._create
        try:
            await sent(entry)
        except ApiUnreachable as error:
            # While nobody is answered it waits. But something between may answer all but this one, for what is in it.
            sent_so_far = self.counts["created"] + self.counts["refreshed"]
            entry.attempts += entry.unanswered_after not in (None, sent_so_far)
            entry.unanswered_after = sent_so_far
            await self._retry(entry, error)
        except ApiError as error:
            # 409: somebody else changes it, or the quota of its namespace.
            # A server that answers again permits nobody anything until it has read its roles, in a moment.
            is_new = error.is_missing_right and self.forbidden is None and entry.attempts < ATTEMPTS - 1
            if is_new or error.status in (401, 408, 409, 429) or error.status >= 500:
                entry.attempts += 1
                await self._retry(entry, error)
            else:
                # 404: the namespace is gone; 403: it is going, or we may not; the rest cannot improve either.
                self._refuse(entry, error)
        else:
            entry.queued = False
            entry.attempts = self._failures = 0
            if self._waits_since is not None:
                log.info("events sent again", seconds=round(self._clock() - self._waits_since))
                self._waits_since = None
            if entry.type == "Normal":
                # What went well is said once; only what is wrong is said again and again.
                self._entries.pop(entry.name, None)

    async def _create(self, entry: _Entry) -> None:
        path = _EVENTS.path(entry.namespace)
        try:
            await self._session.request("POST", path, body=self._body(entry), timeout=ANSWER_SECONDS)
            self._permitted("create")
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            self._permitted("create")
            stored = await self._send_patch(entry, {"lastTimestamp": entry.last})
            # Our own, where only the answer was lost. Else it was made by the operator that ran before this one, maybe
            # in the same second: go on counting where that one stopped.
            is_sent_again = entry.attempts > 0 or entry.unanswered_after is not None
            if not is_sent_again or stored.get("firstTimestamp") != entry.first:
                entry.count += int(stored.get("count") or 0)
        entry.exists = True
        self.counts["created"] += 1

    async def _patch(self, entry: _Entry) -> None:
        try:
            await self._send_patch(entry, {"count": entry.count, "lastTimestamp": entry.last})
        except ApiError as error:
            if error.status != 404:
                raise
            self._permitted("patch")
            entry.exists = False  # it has expired
            await self._create(entry)
            return
        self.counts["refreshed"] += 1

    async def _send_patch(self, entry: _Entry, patch: dict[str, Any]) -> dict[str, Any]:
        path = _EVENTS.path(entry.namespace, entry.name)
        stored = await self._session.request(
            "PATCH", path, body=patch, content_type=MERGE_PATCH, timeout=ANSWER_SECONDS
        )
        self._permitted("patch")
        return stored

    def _permitted(self, verb: str) -> None:
        """Note that the authorizer said yes. It comes first, whatever else is wrong."""
        if (denied := self.forbidden) is not None and denied.verb == verb:
            log.info("permitted again", verb=denied.verb, resource=denied.resource)
            self.forbidden = None

    async def _retry(self, entry: _Entry, error: ApiError | ApiUnreachable) -> None:
        self._failures += 1
        if entry.attempts >= ATTEMPTS:
            self._drop(entry)
        elif isinstance(error, ApiError):
            self._waiting.appendleft(entry)
        else:
            # It may be the only one that gets no answer: then the others have waited long enough.
            self._waiting.append(entry)
        self._wake.set()
        now = self._clock()
        if now >= self._quiet_until:
            self._waits_since, self._quiet_until = now, now + TOLD_SECONDS
            log.warning("events wait for the API server", why=str(error), events=len(self._waiting))
        asked = error.retry_after if isinstance(error, ApiError) else None
        seconds = self._backoff.delay(self._failures, self._random, asked)
        if asked is None:
            await self._session.outage.pause(seconds, self._sleep)
        else:
            await self._sleep(seconds)

    def _refuse(self, entry: _Entry, error: ApiError) -> None:
        self.counts["refused"] += 1
        entry.queued = False
        self._entries.pop(entry.name, None)
        if error.is_missing_right:
            if self.forbidden is None:
                log.error("forbidden", verb=error.verb, resource=error.resource, why=error.message)
            self.forbidden = error
            return
        self._permitted(error.verb)
        # So it goes with each namespace that is deleted, and nobody could read it. Source: client-go, recordEvent.
        tell = log.debug if error.is_namespace_gone else log.warning
        tell("event refused", reason=entry.reason, name=entry.regarding.name, why=str(error))

    def _body(self, entry: _Entry) -> dict[str, Any]:
        regarding = entry.regarding
        involved = {"kind": regarding.kind, "name": regarding.name}
        kind = KINDS.get(regarding.kind)
        if kind is not None:
            involved["apiVersion"] = kind.api_version(kind.versions[0])
        if regarding.namespace:
            involved["namespace"] = regarding.namespace
        if regarding.uid:
            involved["uid"] = regarding.uid
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": entry.name, "namespace": entry.namespace},
            "involvedObject": involved,
            "type": entry.type,
            "reason": entry.reason,
            "message": entry.message,
            "count": entry.count,
            "firstTimestamp": entry.first,
            "lastTimestamp": entry.last,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._component,
        }

    def _now(self) -> str:
        return timestamp(self._wall())


def shorten(message: str) -> str:
    """Return a message that the API server takes: at most MESSAGE_BYTES bytes of UTF-8, cut in the middle."""
    return cut(message, MESSAGE_BYTES)


def _event_name(regarding: Subject, reason: str, message: str) -> str:
    """Return the name of the one Event about this object, reason and message, at most 253 characters long."""
    said = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, reason, message)
    digest = hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]
    return f"{regarding.name[:236].rstrip('-.')}.{digest}"
