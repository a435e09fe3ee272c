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
from typing import Any, Final, Protocol, TypeAlias

import structlog

from dra_operator.api.kinds import EVENT, KINDS
from dra_operator.api.text import cut
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
REPEAT_SECONDS: Final = 60.0
"""A repetition that comes sooner after the one before is counted, and sent with a later one.

Unless something else was said of the object in between: of two Events the older one would look like the newer.
"""
PATIENCE_SECONDS: Final = 5.0
"""An Event stands back for the writer at most so long: a writer that is stuck must not silence everything."""
ANSWER_SECONDS: Final = 10.0
"""How long the answer to an Event is waited for: those behind it wait as well."""
ATTEMPTS: Final = 5
OUTCOMES: Final = ("created", "refreshed", "dropped", "refused")
"""What becomes of an Event: `dropped` where there are too many or nobody takes it, `refused` by the API server."""

_EVENTS = Served(EVENT, "v1")


class Regarding(Protocol):
    """The object that an Event is about."""

    @property
    def kind(self) -> str:
        """Its kind."""

    @property
    def namespace(self) -> str:
        """Its namespace; empty for cluster-scoped objects."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def uid(self) -> str:
        """Its uid; empty if unknown."""


About: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of the object that an Event is about."""


@dataclass(slots=True)
class _Entry:
    """One Event: what it says, how often it was said, and whether that is on its way."""

    regarding: Regarding
    type: str
    reason: str
    message: str
    name: str
    count: int
    first: str
    last: str
    exists: bool = False
    queued: bool = False
    sent_at: float = 0.0
    attempts: int = 0
    unanswered_after: int | None = None
    """How many Events had been sent when this one got no answer."""
    again: bool = False
    """Whether it was said again, after something else, since it was taken from the queue."""

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or CLUSTER_NAMESPACE

    @property
    def about(self) -> About:
        return self.regarding.kind, self.regarding.namespace, self.regarding.name


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
    ) -> None:
        self.counts: Counter[str] = Counter()
        """How many Events had each of OUTCOMES."""
        self.forbidden: ApiError | None = None
        """The last refusal for lack of permission, until that is given: to create Events, or to patch them."""
        self.trouble = ""
        """Why an Event could not be sent the last time, and had to wait."""
        self.troubles = 0
        """How often that was so."""
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
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._names: dict[About, dict[str, None]] = {}
        """The names of the Events that are remembered, by their object; the one that was recorded last comes last."""
        self._news: deque[_Entry] = deque()
        self._refreshes: deque[_Entry] = deque()
        self._wake = asyncio.Event()
        self._sending = 0
        self._tokens = float(burst)
        self._tokens_at = clock()
        self._failures = 0
        self._away = False
        self._in_vain = False
        """Whether the last pause ended because somebody was answered; where that helps no Event, the next one lasts."""
        self._denied: _Entry | None = None

    @property
    def pending(self) -> int:
        """How many Events wait to be sent, or for the answer."""
        return len(self._news) + len(self._refreshes) + self._sending

    def record(self, regarding: Regarding, type: str, reason: str, message: str) -> None:  # noqa: A002
        """Say that something happened: `type` is Normal or Warning, `reason` is CamelCase.

        The first time makes an Event, each further time counts on it.
        """
        entry, known = self._entry(regarding, type, reason, message)
        names = self._names[entry.about]
        is_news = next(reversed(names)) != entry.name
        if known:
            entry.count += 1
            entry.last = self._now()
            del names[entry.name]
            names[entry.name] = None
            entry.again |= is_news
        self._send(entry, 0.0 if is_news else REPEAT_SECONDS)

    def forget(self, kind: str, namespace: str, name: str) -> None:
        """Remember no more what was said of an object, which is gone; what is still to be sent is sent."""
        for event in self._names.pop((kind, namespace, name), ()):
            del self._entries[event]

    def try_again(self) -> None:
        """Send the Event once more that was denied last, to learn whether Events are permitted now."""
        if self._denied is not None:
            self._send(self._denied, 0.0)

    async def run(self) -> None:
        """Send Events until cancelled."""
        while True:
            await self._wake.wait()
            await self._stand_back()
            await self._spend_token()
            if entry := self._next():
                entry.again = False
                self._sending = 1
                try:
                    await self._deliver(entry)
                except Exception:
                    self._defect_logger.exception(Defect.EVENT, reason=entry.reason)
                    self.counts["refused"] += 1
                    # Else it counts as queued for ever, and is never sent, however often it is said.
                    entry.queued = False
                self._sending = 0

    def _entry(self, regarding: Regarding, type_: str, reason: str, message: str) -> tuple[_Entry, bool]:
        """Return the entry of an Event, and whether it was there before."""
        message = shorten(message)
        name = _event_name(regarding, reason, message)
        entry = self._entries.get(name)
        if entry is not None:
            self._entries.move_to_end(name)
            return entry, True
        now = self._now()
        entry = _Entry(regarding, type_, reason, message, name, 1, now, now)
        self._entries[name] = entry
        self._names.setdefault(entry.about, {})[name] = None
        if len(self._entries) > self._remembered:
            self._let_go(next(iter(self._entries.values())))
        return entry, False

    def _let_go(self, entry: _Entry) -> None:
        """Remember an Event no more."""
        if self._entries.get(entry.name) is not entry:
            return
        del self._entries[entry.name]
        names = self._names[entry.about]
        names.pop(entry.name, None)
        if not names:
            del self._names[entry.about]

    def _send(self, entry: _Entry, pause: float) -> None:
        """Queue an Event, unless it is queued, or was sent less than `pause` seconds ago.

        News are bounded by the queue; repetitions are of Events that are remembered, and bounded with them.
        """
        if entry.queued or (entry.exists and self._clock() - entry.sent_at < pause):
            return
        queue, most = (self._refreshes, self._remembered) if entry.exists else (self._news, self._queue)
        if len(queue) >= most:
            self._drop(queue.popleft())
        entry.queued = True
        queue.append(entry)
        self._wake.set()

    def _drop(self, entry: _Entry) -> None:
        """Give an Event up; the next time it is recorded it is tried again."""
        entry.queued = False
        entry.attempts = 0
        self.counts["dropped"] += 1

    def _next(self) -> _Entry | None:
        """Take the next Event; news come before repetitions."""
        queue = self._news or self._refreshes
        entry = queue.popleft() if queue else None
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
            self._away = True
            # While nobody is answered it waits. But something between may answer all but this one, for what is in it.
            sent_so_far = self.counts["created"] + self.counts["refreshed"]
            entry.attempts += self._in_vain or entry.unanswered_after not in (None, sent_so_far)
            entry.unanswered_after = sent_so_far
            await self._retry(entry, error)
        except ApiError as error:
            if error.is_missing_right and self._away and entry.attempts < ATTEMPTS - 1:
                # It answers again, and permits nobody anything until it has read its roles: in a moment.
                self._failures = entry.attempts
                entry.attempts += 1
                await self._retry(entry, error)
                return
            # 409: somebody else changes it, or the quota of its namespace.
            if error.status in (401, 408, 409, 429) or error.status >= 500:
                entry.attempts += 1
                self._away = self._away or error.status >= 500
                await self._retry(entry, error)
                return
            # 404: the namespace is gone; 403: it is going, or we may not; the rest cannot improve either.
            self._away = False
            self._refuse(entry, error)
        else:
            self._away = self._in_vain = False
            entry.queued = False
            entry.attempts = 0
            entry.sent_at = self._clock()
            self._failures = 0
            if entry.type == "Normal":
                # What went well is said once; only what is wrong is said again and again.
                self._let_go(entry)
            if entry.again:
                self._send(entry, 0.0)

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
        if self.forbidden is not None and self.forbidden.verb == verb:
            self.forbidden = self._denied = None

    async def _retry(self, entry: _Entry, error: ApiError | ApiUnreachable) -> None:
        self._failures += 1
        self.troubles += 1
        self.trouble = str(error)
        queue = self._refreshes if entry.exists else self._news
        # It may be the only one that gets no answer: then the others have waited long enough.
        retry_after, put_back = None, queue.append
        if isinstance(error, ApiError):
            retry_after, put_back = error.retry_after, queue.appendleft
        if entry.attempts >= ATTEMPTS:
            self._drop(entry)
        else:
            put_back(entry)
            self._wake.set()
        seconds = self._backoff.delay(self._failures, self._random, retry_after)
        if retry_after is not None or self._in_vain:
            self._in_vain = False
            await self._sleep(seconds)
            return
        until = self._clock() + seconds
        await self._session.outage.pause(seconds, self._sleep)
        self._in_vain = self._clock() < until

    def _refuse(self, entry: _Entry, error: ApiError) -> None:
        self.counts["refused"] += 1
        entry.queued = False
        self._let_go(entry)
        known = self.forbidden
        if error.is_missing_right:
            self.forbidden, self._denied = error, entry
        else:
            self._permitted(error.verb)
        if error.is_namespace_gone:
            # So it goes with each namespace that is deleted, and nobody could read it. Source: client-go, recordEvent.
            log.debug("event refused", reason=entry.reason, name=entry.regarding.name, why=str(error))
        elif known is None or not error.is_missing_right:
            log.warning("event refused", reason=entry.reason, name=entry.regarding.name, why=str(error))

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
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
        }

    def _now(self) -> str:
        return self._wall().astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def shorten(message: str) -> str:
    """Return a message that the API server takes: at most MESSAGE_BYTES bytes of UTF-8, cut in the middle."""
    return cut(message, MESSAGE_BYTES)


def _event_name(regarding: Regarding, reason: str, message: str) -> str:
    """Return the name of the one Event about this object, reason and message, at most 253 characters long."""
    said = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, reason, message)
    digest = hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]
    return f"{regarding.name[:236].rstrip('-.')}.{digest}"
