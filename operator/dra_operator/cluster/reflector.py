"""The reflector: all objects of one kind as a stream of differences, by list and watch.

When a watch cannot be resumed, the kind is listed again and what differs is delivered, deletions included, which Kopf's
handlers would miss (docs/kopf.md). It outlives every error, with back-off. It keeps uid and resourceVersion of
each object, no body. Versions of one kind are compared as integers (by contract since Kubernetes 1.35); after a restore
of etcd they run backwards, so a list is believed as it is.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import random as system_random
from typing import Any, Final

import structlog

from dra_operator.api.managed_fields import trim_metadata
from dra_operator.api.text import shown
from dra_operator.cluster.backoff import DEFAULT_BACKOFF, Backoff
from dra_operator.cluster.decoding import decode
from dra_operator.cluster.discovery import Served, list_version, pages
from dra_operator.cluster.faults import UNCOUNTED, Defect, DefectLogger
from dra_operator.cluster.session import ApiError, ApiSession, ApiSilent, ApiUnreachable, Trouble

log = structlog.get_logger(__name__)

CHUNK: Final = 500
IDLE_SECONDS: Final = 75.0
"""A stream silent for longer is taken for dead: the API server sends a bookmark about once a minute."""
WATCH_SECONDS: Final = 300
"""About how long one watch lasts before the server ends it, so that connections move on to new API
servers."""
FRUITLESS_WATCHES: Final = 3
"""After so many watches in a row that were accepted and brought nothing, not even a bookmark, the version is asked for:
the one to resume from may lie in the future of an etcd that was restored, where a watch is silent and not refused."""
SHORT_SECONDS: Final = 1.0
"""A watch that ends sooner, and empty, is a fault: without a pause it would be opened again in a hot loop."""
TOMBSTONES: Final = 8192

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Delta:
    """One difference: the object as it is now, or None if it is gone.

    `body` is the object as the API server sent it, with `apiVersion` and `kind` filled in, and without
    managedFields, but for our nomination of a pod.
    """

    kind: str
    namespace: str
    name: str
    body: dict[str, Any] | None


@dataclass(slots=True)
class Counters:
    """What happened so far.

    `events` counts changes that a watch told of, `repaired` objects that a later list found to differ from that: near 0
    is good.
    """

    lists: int = 0
    events: int = 0
    repaired: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class _KnownObject:
    uid: str
    version: int | None


class _Expired(Exception):  # noqa: N818 - a state of the watch, not a defect
    """The resourceVersion is too old to resume from; only a list helps (410)."""


class _BadStream(Exception):  # noqa: N818
    """The stream said something that is no event, or reported an error."""


async def _room() -> None:
    """Wait for nothing: there is room."""


class Reflector:
    """Keeps one kind in step with the API server and delivers each difference, in order, to `deliver`.

    `deliver` is called on the event loop and must be quick; what it raises is logged and does not stop the
    stream. `room` is awaited between the pages of a list, so that a slow consumer is not given the whole kind at
    once; `turned` is called when `halfway` changes. `clock` is a monotonic clock in seconds, `random` gives
    numbers from 0 up to 1. `fields` is a field selector. Without `trims`, bodies keep their managedFields.
    """

    def __init__(
        self,
        session: ApiSession,
        served: Served,
        deliver: Callable[[Delta], None],
        *,
        room: Callable[[], Awaitable[None]] = _room,
        turned: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = system_random,
        backoff: Backoff = DEFAULT_BACKOFF,
        defect_logger: DefectLogger = UNCOUNTED,
        chunk: int = CHUNK,
        idle_timeout: float = IDLE_SECONDS,
        fields: str = "",
        trims: bool = True,
    ) -> None:
        self.served = served
        self.synced = asyncio.Event()
        self.halfway = False
        """Whether a list of several pages has begun and not ended: of what was delivered some is old and some new, so
        that an object may seem to have lost what another one does not have yet."""
        self.forbidden: ApiError | None = None
        self.trouble: Trouble | None = None
        """What is wrong now; None while all is well."""
        self.well_since = float("-inf")
        """When it was listed last, or watched again after trouble, by `clock`; what was missed is told after that."""
        self.last_trouble = Trouble("", "")
        """What was wrong last, be it over or not."""
        self.last_contact: float | None = None
        """When the API server last said something useful, by `clock`; None if it never did."""
        self.counters = Counters()
        self._session = session
        self._deliver = deliver
        self._room = room
        self._turned = turned
        self._clock = clock
        self._sleep = sleep
        self._random = random
        self._backoff = backoff
        self._defect_logger = defect_logger
        self._chunk = chunk
        self._idle_timeout = idle_timeout
        self._selection = {"fieldSelector": fields} if fields else {}
        self._trims = trims
        self._seen: dict[Key, _KnownObject] = {}
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._observed: set[Key] | None = None
        self._resume: str | None = None
        self._failures = 0
        self._in_vain = 0
        """How often in a row a pause ended early, and it failed again."""
        self._fruitless = 0
        self._interrupted = False
        self._away = False

    def __len__(self) -> int:
        """Return how many objects there are."""
        return len(self._seen)

    @property
    def silence(self) -> float | None:
        """For how many seconds the API server has said nothing useful; None if it never did."""
        return None if self.last_contact is None else self._clock() - self.last_contact

    def has_told(self, version: str) -> bool:
        """Return whether list and watch have told of everything up to a version, or it cannot be compared."""
        told, asked = _integer(self._resume or ""), _integer(version)
        return told is None or asked is None or told >= asked

    def observe(self, body: dict[str, Any]) -> bool:
        """Take in the answer to a write of our own, as if the watch had brought it; return if it was news.

        It is not if the watch was faster, or if the object is gone by now: a late answer must not revive it.
        What is news is delivered as a Delta, so that there is one way into the state.
        """
        if self._came_and_went(body):
            return False
        if self._observed is not None:
            self._observed.add(_key(body))
        return self._put(body)

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            try:
                if self._resume and self._fruitless >= FRUITLESS_WATCHES and await self._is_ahead():
                    self._resume = None
                if self._resume is None:
                    await self._list()
                await self._watch(self._resume or "")
            except _Expired as error:
                self._begin_anew()
                await self._pause(error)
            except ApiError as error:
                if error.status in (400, 410):  # 400: a resourceVersion that this server cannot read
                    self._begin_anew()
                self.forbidden = error if error.status == 403 else None
                if self.forbidden is not None and self._away:
                    # It answers again, and permits nobody anything until it has read its roles: in a moment.
                    self._start_afresh()
                self._away = self._away or error.status >= 500
                await self._pause(error)
            except ApiSilent as error:
                # A kind that nobody changes has nothing to say, and not even a bookmark where etcd tells no
                # progress. If the connection is dead, the next watch tells more; enough time has passed.
                log.debug("watch silent, opened again", kind=self.served.kind.kind, why=str(error))
            except ApiUnreachable as error:
                self._away = True
                await self._pause(error)
            except _BadStream as error:
                await self._pause(error)
            except Exception as error:
                # Whatever else there may be: a kind that stands still for ever is worse than a traceback in
                # the log.
                self._defect_logger.exception(Defect.REFLECTOR, kind=self.served.kind.kind)
                await self._pause(error, f"{type(error).__name__}: {error}")

    async def _is_ahead(self) -> bool:
        """Return whether the version to resume from is one of the future. A list of one object tells."""
        page = await self._session.request("GET", self.served.path(), params={"limit": "1"})
        now, resume = _integer(list_version(self.served.path(), page)), _integer(self._resume or "")
        self._touch()
        self._fruitless = 0
        return now is None or resume is None or now < resume

    def _begin_anew(self) -> None:
        """Have the next attempt make a list, since the version to resume from is too old.

        So it is for every kind after an API server was started anew. It answers again: the list need not wait as
        long as the server was away.
        """
        self._resume = None
        if self._away:
            self._start_afresh()

    def _came_and_went(self, body: dict[str, Any]) -> bool:
        """Return whether an object that is not known must be gone: what has been told goes beyond its version.

        It may have been made and deleted between two lists, so that no watch ever told of it.
        """
        return _key(body) not in self._seen and not _beyond(_seen(body), self._resume or "")

    async def _list(self) -> None:
        """Take in all objects, page by page, and deliver what differs from what is known."""
        present: set[Key] = set()
        # What is observed while the list runs may be newer than the list, whose version is that of its first
        # page; an answer that was long on its way is older.
        self._observed = set()
        try:
            fields = self._selection.get("fieldSelector", "")
            async for version, items, proceed in pages(self._session, self.served, self._chunk, fields):
                self._touch()
                if proceed:
                    self._turn(halfway=True)
                for item in items:
                    present.add(_key(item))
                    self._reconcile(item, version)
                if proceed:
                    await self._room()
            for key in [key for key in self._seen if key not in present and not self._outlives(key, version)]:
                self._repair()
                self._drop(key)
        finally:
            self._observed = None
        self._turn(halfway=False)
        self.counters.lists += 1
        self._resume = version
        self._fruitless = 0
        self.forbidden = None
        self.well_since, self.trouble = self._clock(), None
        self.synced.set()

    def _turn(self, *, halfway: bool) -> None:
        if self.halfway != halfway:
            self.halfway = halfway
            self._turned()

    def _reconcile(self, item: dict[str, Any], version: str) -> None:
        """Take in an object of a list of that version, also an older one than is known: etcd may have been restored."""
        key = _key(item)
        if self._seen.get(key) == _seen(item) or self._outlives(key, version):
            return
        self._repair()
        self._apply(item)

    def _outlives(self, key: Key, version: str) -> bool:
        """Return whether an answer told more of an object than the list of that version, which runs now."""
        known = self._seen.get(key)
        return known is not None and key in (self._observed or ()) and _beyond(known, version)

    async def _watch(self, version: str) -> None:
        """Follow the events from `version` on, until the server ends the watch."""
        params = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            # Spread, so that the watches of all kinds do not end together.
            "timeoutSeconds": str(int(WATCH_SECONDS * (0.8 + 0.4 * self._random()))),
            "resourceVersion": version,
            **self._selection,
        }
        opened = self._clock()
        async with self._session.stream(
            self.served.path(), params=params, idle_timeout=self._idle_timeout
        ) as lines:
            self._touch()
            self.forbidden = None
            # A quiet kind may have to say nothing for a minute; that it is heard is enough to be well.
            self._heard()
            self._fruitless += 1
            try:
                async for line in lines:
                    if line.strip():
                        self._event(line)
            finally:
                if self._clock() - opened >= self._backoff.cap:
                    # What is between cuts connections that are silent, which a quiet kind is for a minute. It has been
                    # heard for longer than any pause.
                    self._failures = 0
        if self._fruitless and self._clock() - opened < SHORT_SECONDS:
            raise _BadStream(f"watch {self.served.kind.plural}: ended at once and empty")
        self._well()

    def _event(self, line: bytes) -> None:
        """Act on one line of a watch. Raises _Expired or _BadStream where the watch cannot go on."""
        plural = self.served.kind.plural
        try:
            event = decode(line)
            kind, body = event["type"], event["object"]
            version = str(body.get("metadata", {}).get("resourceVersion", ""))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # It may have been an event: resuming from the last good one brings it again.
            raise _BadStream(f"watch {plural}: a line that is no event: {line[:80]!r}") from error
        match kind:
            case "ADDED" | "MODIFIED":
                self.counters.events += 1
                self._put(body)
            case "DELETED":
                self.counters.events += 1
                self._remove(body)
            case "BOOKMARK":
                pass
            case "ERROR" if body.get("code") == 410:
                raise _Expired(f"watch {plural}: 410 {body.get('message', '')}")
            case _:
                raise _BadStream(f"watch {plural}: {kind} {body.get('code', '')} {body.get('message', '')}")
        self._resume = version or self._resume
        self._fruitless = 0
        self._touch()
        self._well()

    def _put(self, body: dict[str, Any]) -> bool:
        """Take in an object that was added or changed; return False if it is not newer than what is known."""
        known, seen = self._seen.get(_key(body)), _seen(body)
        # Of an earlier object of this name, too: an answer may have told of the one that took its place. Versions
        # of one kind are of one series, whichever object they are of.
        stale = known is not None and not _newer(seen, known)
        if stale or seen.uid in self._gone:
            return False
        self._apply(body)
        return True

    def _remove(self, body: dict[str, Any]) -> None:
        """Take in a deletion, unless it is that of an earlier object of the same name."""
        key, uid = _key(body), _seen(body).uid
        known = self._seen.get(key)
        if known is None or known.uid != uid:
            self._bury(uid)
            return
        self._drop(key)

    def _apply(self, body: dict[str, Any]) -> None:
        key, seen = _key(body), _seen(body)
        known = self._seen.get(key)
        if known is not None and known.uid != seen.uid:
            # Deleted and created anew under its name: two objects, so two differences.
            self._drop(key)
        self._gone.pop(seen.uid, None)
        self._seen[key] = seen
        if self._trims:
            trim_metadata(body, is_namespaced=self.served.kind.namespaced)
        body.setdefault("apiVersion", self.served.api_version)
        body.setdefault("kind", self.served.kind.kind)
        self._hand_over(Delta(self.served.kind.kind, *key, body))

    def _drop(self, key: Key) -> None:
        self._bury(self._seen.pop(key).uid)
        self._hand_over(Delta(self.served.kind.kind, *key, None))

    def _bury(self, uid: str) -> None:
        """Remember that an object is gone, so that a late answer to a write does not revive it."""
        self._gone[uid] = None
        if len(self._gone) > TOMBSTONES:
            self._gone.popitem(last=False)

    def _hand_over(self, delta: Delta) -> None:
        try:
            self._deliver(delta)
        except Exception:
            self._defect_logger.exception(
                Defect.DELTA, kind=delta.kind, namespace=delta.namespace, name=delta.name
            )

    def _repair(self) -> None:
        if self.synced.is_set():
            self.counters.repaired += 1

    def _touch(self) -> None:
        self.last_contact = self._clock()

    def _heard(self) -> None:
        """Say that the trouble is over, if one was told. Pauses stay long until something useful has come."""
        if self._interrupted:
            log.debug("watching again", kind=self.served.kind.kind, failures=self._failures)
            self.well_since = self._clock()
        self._interrupted, self._in_vain = False, 0
        self.trouble = None

    def _well(self) -> None:
        self._heard()
        self._start_afresh()

    def _start_afresh(self) -> None:
        """Begin with short pauses again."""
        self._failures = 0
        self._away = False

    async def _pause(self, error: Exception, why: str = "") -> None:
        trouble = Trouble.from_error(error, why)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        self._failures += 1
        self.counters.failures += 1
        if trouble != self.trouble:
            # For all kinds together it is told by `controller.health`.
            log.debug("watch interrupted", kind=self.served.kind.kind, why=trouble.why)
        self._interrupted = True
        self.trouble = self.last_trouble = trouble
        seconds = self._backoff.delay(self._failures, self._random, retry_after)
        if retry_after is None:
            # What ends an outage for others may not help this kind, as where it may not be listed: there would be a
            # list each second for as long as a webhook fails, which looks like an outage that begins and ends.
            self._in_vain += await self._session.outage.pause(seconds, self._sleep, self._in_vain)
        else:
            await self._sleep(seconds)


def _key(body: dict[str, Any]) -> Key:
    """Return the name of an object. Raises _BadStream for what has none: no API server sends that."""
    try:
        metadata = body["metadata"]
        return metadata.get("namespace", ""), metadata["name"]
    except (LookupError, TypeError, AttributeError):
        raise _BadStream(f"what came is no object, but {shown(body)}") from None


def _seen(body: dict[str, Any]) -> _KnownObject:
    metadata = body["metadata"]
    return _KnownObject(metadata.get("uid", ""), _integer(metadata.get("resourceVersion", "")))


def _integer(version: str) -> int | None:
    try:
        return int(version)
    except ValueError:
        return None


def _newer(seen: _KnownObject, known: _KnownObject) -> bool:
    """Compare two versions of one object; what cannot be compared counts as newer."""
    if seen.version is None or known.version is None:
        return True
    return seen.version > known.version


def _beyond(seen: _KnownObject, version: str) -> bool:
    """Return whether an object is newer than a list or a watch of that version; so counts what cannot be compared."""
    told = _integer(version)
    return seen.version is None or told is None or seen.version > told
