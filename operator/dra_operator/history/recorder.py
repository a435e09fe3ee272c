"""Recorder: what the reflectors tell goes into the store, with gaps, sums of pods without claims, and waits.

Once a second all that came is one transaction. While a kind is not watched, or the store cannot be written, nothing is
stored, and then there is a gap. The cluster is only read. Source: docs/history.md.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final

import orjson
import structlog

from dra_operator.api.convert import Body
from dra_operator.api.kinds import KINDS
from dra_operator.api.names import ENDED_PHASES, LEASE_NAME
from dra_operator.api.text import seconds_of
from dra_operator.cluster.discovery import served, server_version
from dra_operator.cluster.reflector import Delta, Reflector
from dra_operator.cluster.session import ApiError, ApiSession, ApiUnreachable, in_thread
from dra_operator.history.reader import LEFT_OUT, Moment, build_state, expand_sum, time_text
from dra_operator.history.schema import (
    MICRO,
    POD_SHAPE,
    POD_SUM,
    SERVER,
    UNREAD,
    OtherWriterError,
    StoreError,
)
from dra_operator.history.writer import Change, Key, WaitChange, Writer
from dra_operator.questions.answers import QuestionError
from dra_operator.questions.explain import SCHEDULING_GATED
from dra_operator.questions.kept_fields import NEEDED, TAKEN, asks_for_devices, trim
from dra_operator.questions.waiting import WaitingItem, find_waiting

log = structlog.get_logger(__name__)

TICK_SECONDS: Final = 1.0
STALL_SECONDS: Final = 5.0
"""Who did not come to look for so long has missed what was told meanwhile: it is a gap."""
LEASE_SECONDS: Final = 20
"""So often is kept that the operator renewed its Lease."""
SUM_SECONDS: Final = 60
ASK_SECONDS: Final = 60
MOST_OF_TIME: Final = 10
"""Asking may take this part of the time."""
FORGET_SECONDS: Final = 3600
DISCOVER_SECONDS: Final = 60
WARN_SECONDS: Final = 60
END_SECONDS: Final = 20
"""So long the end waits for what is being asked."""
GATED: Final = "Gated"
_HIDDEN: Final = ("ResourceClaim", "Pod")
_REQUIRED: Final = (*NEEDED, "Pod")
"""The kinds without which nothing is recorded."""


@dataclass(frozen=True, slots=True)
class Clocks:
    """The wall clock, which is asked once, and the monotonic one by which it goes on; both in seconds."""

    wall: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic


class Recorder:
    """Keeps a record of one cluster while `run` runs. `keep_seconds` is how long what has ended stays; 0 is for ever.

    `failures` counts the transactions that the store refused, `missed` are the seconds of its gaps.
    """

    def __init__(
        self, session: ApiSession, writer: Writer, *, clocks: Clocks = Clocks(), keep_seconds: float = 0
    ) -> None:
        self.failures = 0
        self.missed = 0.0
        self._session = session
        self._writer = writer
        self._keep = round(keep_seconds * MICRO)
        self._monotonic = clocks.monotonic
        # A clock that was set back must not run against what is stored.
        self._epoch = max(round(clocks.wall() * MICRO), (writer.covered or 0) + 2)
        self._begun = clocks.monotonic()
        self._reflectors: dict[str, Reflector] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._marks: dict[str, tuple[int, int]] = {}
        self._ticked = self.now
        self._is_first = True
        self._is_whole = False
        """Whether all was watched and stored since `covered`."""
        self._changes: list[Change | WaitChange] = []
        self._unread: dict[str, str] = {}
        self._version = ""
        self._bodies: dict[Key, Body] = {}
        self._residents: dict[Key, tuple[str, str]] = {}
        """Pods without claims: the node and the shape of each."""
        self._sums = Counter[tuple[str, str]]()
        self._shapes: dict[str, Body] = {}
        self._due = dict.fromkeys(("sums", "reasons", "kinds", "forget", "warning"), 0)
        """When what is done from time to time is next."""
        self._unasked = True
        self._asked_at = 0
        self._ask: asyncio.Task[tuple[WaitingItem, ...] | None] | None = None

    @property
    def now(self) -> int:
        """The time by which is recorded, in microseconds since 1970."""
        return self._epoch + round((self._monotonic() - self._begun) * MICRO)

    @property
    def covered(self) -> int:
        """Up to when the record is complete, but for gaps; 0 before the first transaction."""
        return self._writer.covered or 0

    async def run(self, stopping: asyncio.Event) -> None:
        """Record until that is set. Raises ApiError, ApiUnreachable, LookupError at its begin, and OtherWriterError."""
        await self.start()
        try:
            while not stopping.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(stopping.wait(), TICK_SECONDS)
                # At the end, what came in the last second.
                await self.tick(is_last=stopping.is_set())
                if len(self._reflectors) < len(TAKEN) and self._is_due("kinds", DISCOVER_SECONDS):
                    with suppress(ApiError, ApiUnreachable):
                        await self._watch()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Watch each kind that is served. Raises as `run` does."""
        self._version = await server_version(self._session)
        await self._watch()
        if missing := [name for name in _REQUIRED if name not in self._reflectors]:
            await self.stop()
            raise LookupError(f"the API server does not serve {', '.join(missing)}")
        self._put(SERVER, "kubernetes", {"version": self._version})

    async def stop(self) -> None:
        """Watch no more."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._ask is not None:
            # An interpreter that ends while a thread is in compiled code aborts.
            await asyncio.wait({self._ask}, timeout=END_SECONDS)

    async def _watch(self) -> None:
        """Watch the kinds that are served and were not before."""
        missing = {name: KINDS[name] for name in TAKEN if name not in self._reflectors}
        for name, kind in (await served(self._session, missing)).items():
            fields = f"metadata.name={LEASE_NAME}" if name == "Lease" else ""
            reflector = Reflector(self._session, kind, self.deliver, fields=fields, trims=False)
            self._reflectors[name] = reflector
            self._tasks.append(asyncio.create_task(reflector.run()))

    def _is_due(self, what: str, seconds: float) -> bool:
        """Return whether something is to be done now, which then is so again after some seconds."""
        if self.now < self._due[what]:
            return False
        self._due[what] = self.now + round(seconds * MICRO)
        return True

    # --- what comes

    def deliver(self, delta: Delta) -> None:
        """Take in a difference."""
        key, sent = (delta.kind, delta.namespace, delta.name), delta.body
        body, metadata = (None, {}) if sent is None else (trim(sent), sent["metadata"])
        if delta.kind == "Pod":
            self._residents.pop(key, None)
            if sent is not None and body is not None and not asks_for_devices(sent):
                self._residents[key] = self._place_of(body)
                body = None
            elif body is not None and (labels := metadata.get("labels")):
                body = {**body, "metadata": {**body["metadata"], "labels": labels}}
        before, now = self._bodies.get(key), self.now
        if delta.kind == "Lease" and _is_renewal(before, body):
            return
        if body is None:
            if self._bodies.pop(key, None) is not None:
                self._changes.append(Change(now, key))
            return
        uid = metadata.get("uid", "")
        self._changes.append(Change(now, key, uid, str(metadata.get("resourceVersion", "")), body))
        self._bodies[key] = body
        if delta.kind in _HIDDEN:
            is_over = not may_wait(body)
            self._unasked |= not is_over
            if is_over or _names_claims(body):
                reason = None if is_over else ""
                self._changes.append(WaitChange(now, key, uid, reason, created=_created(body)))

    def _put(self, kind: str, name: str, spec: Body | None) -> None:
        """Keep something that is no object of the cluster."""
        body = None if spec is None else {"kind": kind, "metadata": {"name": name}, "spec": spec}
        self._changes.append(Change(self.now, (kind, "", name), body=body))

    def _place_of(self, body: Body) -> tuple[str, str]:
        """Return the node of a pod without claims, and by which name its shape is known."""
        metadata = {name: each for name, each in body["metadata"].items() if name not in ("name", "uid")}
        spec = {name: each for name, each in body["spec"].items() if name != "nodeName"}
        shape = {**body, "metadata": metadata, "spec": spec}
        text = orjson.dumps(shape, default=orjson.Fragment, option=orjson.OPT_SORT_KEYS)
        digest = blake2b(text, digest_size=8).hexdigest()
        self._shapes[digest] = shape
        # An operator that is not placed yet is on no node.
        return body["spec"].get("nodeName", ""), digest

    def _sum_up(self) -> None:
        """Keep how many equal pods without claims nodes have, where that has changed."""
        before, self._sums = self._sums, Counter(self._residents.values())
        changed = sorted(
            place for place in before.keys() | self._sums.keys() if before[place] != self._sums[place]
        )
        for shape in dict.fromkeys(shape for _, shape in changed):
            if (POD_SHAPE, "", shape) not in self._writer.open:
                self._put(POD_SHAPE, shape, self._shapes[shape])
        for node, shape in changed:
            number = self._sums[node, shape]
            self._put(POD_SUM, f"{node}/{shape}", {shape: number} if number else None)

    # --- once a second

    async def tick(self, *, is_last: bool = False) -> None:
        """Store what came, if all kinds were watched since the last time; ask why pods wait, if it is time.

        The last one asks nothing more. Raises OtherWriterError.
        """
        now, is_watched = self.now, self._was_watched()
        self._is_whole &= now - self._ticked < STALL_SECONDS * MICRO
        self._ticked = now
        if not self._is_whole:
            # There is a gap, of which only the end counts.
            self._changes = _newest(self._changes)
        if not is_watched:
            return
        self._tell_unread()
        if self._is_due("sums", SUM_SECONDS) or self._is_first:
            self._sum_up()
        if self._is_first:
            # What the store has and the cluster has no more.
            gone = self._writer.open.keys() - {change.key for change in self._changes}
            self._changes += [Change(now, key) for key in gone if key[0] != POD_SHAPE]
        await self._store(now)
        # While a thread stores, the watches go on.
        self._ticked = self.now
        if not self._is_first and not is_last:
            self._ask_why(now)

    def _was_watched(self) -> bool:
        """Return whether each kind is watched and in step, and note where lists or failures came in between."""
        # What may not be read is none; a kind that is served, or may be read, since just now counts when it was listed.
        watched = {
            name: each
            for name, each in self._reflectors.items()
            if name in _REQUIRED or (each.forbidden is None and (self._is_first or each.synced.is_set()))
        }
        found = all(
            each.synced.is_set() and each.trouble is None and not each.halfway for each in watched.values()
        )
        marks = {name: (each.counters.lists, each.counters.failures) for name, each in watched.items()}
        self._is_whole &= found and all(self._marks.get(name, mark) == mark for name, mark in marks.items())
        self._marks = marks if found else self._marks
        return found

    def _tell_unread(self) -> None:
        """Keep which kinds may not be read."""
        refused = {name: each.forbidden for name, each in self._reflectors.items()}
        unread = {name: f"not permitted to {why.verb} {why.resource}" for name, why in refused.items() if why}
        for name, _ in unread.items() ^ self._unread.items():
            self._put(UNREAD, name, {"why": unread[name]} if name in unread else None)
        self._unread = unread

    async def _store(self, now: int) -> None:
        """Store what came, or keep it for the next time. Raises OtherWriterError."""
        changes, self._changes, is_gap = self._changes, [], not self._is_whole
        commit = partial(self._writer.commit, changes, now, is_gap=is_gap)
        try:
            missed = await in_thread("history", commit) / MICRO
        except OtherWriterError:
            raise
        except StoreError as error:
            self.failures += 1
            if self._is_due("warning", WARN_SECONDS):
                log.warning("history: not stored", why=str(error))
            self._changes, self._is_whole = [*changes, *self._changes], False
            return
        self.missed += missed
        if missed:
            log.warning("history: gap", seconds=round(missed, 1))
        if self._is_first:
            log.info("history: recording", to=self._writer.url, since=time_text(now))
        self._is_whole, self._is_first = True, False
        if self._keep and self._is_due("forget", FORGET_SECONDS):
            try:
                await in_thread("history", partial(self._writer.forget, now - self._keep))
            except StoreError as error:
                log.warning("history: nothing taken off", why=str(error))

    # --- why pods and claims wait

    def _ask_why(self, now: int) -> None:
        """Ask why what waits does, in a thread: at first sight, and once a minute."""
        if self._ask is not None:
            if not self._ask.done():
                return
            found, self._ask = self._ask.result(), None
            self._take_reasons(found)
            self._due["reasons"] = now + (MOST_OF_TIME - 1) * (now - self._asked_at)
        is_due = self._unasked or now - self._asked_at >= ASK_SECONDS * MICRO
        if not is_due or now < self._due["reasons"]:
            return
        self._unasked, self._asked_at = False, now
        if not any(may_wait(body) for (kind, _, _), body in self._bodies.items() if kind in _HIDDEN):
            return
        bodies = [*self._bodies.values()]
        for (node, shape), number in self._sums.items():
            bodies += expand_sum({"metadata": {"name": node}, "spec": {shape: number}}, self._shapes)
        listed = self._reflectors.keys() - self._unread.keys()
        unread = {**dict.fromkeys(LEFT_OUT, "a record has none"), **self._unread}
        moment = Moment(now, tuple(bodies), unread, self._version)
        self._ask = asyncio.create_task(in_thread("reasons", lambda: _find_reasons(moment, listed)))

    def _take_reasons(self, items: Iterable[WaitingItem] | None) -> None:
        now, found = self.now, {(item.kind, item.namespace, item.name): item for item in items or ()}
        for key, item in found.items():
            if (body := self._bodies.get(key)) is not None and may_wait(body):
                reason = GATED if item.reason == SCHEDULING_GATED else item.reason
                uid, created = body["metadata"].get("uid", ""), _created(body)
                self._changes.append(WaitChange(now, key, uid, reason, item.message, created))
        for key, known in self._writer.open.items():
            # A pod uses it by now, which waits itself.
            if (
                items is not None
                and key[0] == "ResourceClaim"
                and known.wait is not None
                and key not in found
            ):
                self._changes.append(WaitChange(now, key, known.row["uid"], None))


def _find_reasons(moment: Moment, listed: AbstractSet[str]) -> tuple[WaitingItem, ...] | None:
    """Return what waits, and why; None if that cannot be said."""
    try:
        return find_waiting(build_state(moment, listed)).items
    except QuestionError as error:
        log.debug("history: no reasons", why=str(error))
    except Exception:
        log.exception("history: no reasons")
    return None


def may_wait(body: Body) -> bool:
    """Return whether a pod has no node, or a claim no devices, and is to have some."""
    if body["metadata"].get("deletionTimestamp"):
        return False
    spec, status = body.get("spec") or {}, body.get("status") or {}
    if body["kind"] == "Pod":
        return not spec.get("nodeName") and status.get("phase") not in ENDED_PHASES
    return not status.get("allocation")


def _names_claims(body: Body) -> bool:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    return bool(spec.get("resourceClaims") or status.get("extendedResourceClaimStatus"))


def _is_renewal(before: Body | None, after: Body | None) -> bool:
    """Return whether a Lease was renewed by its holder soon after it was kept: each would be a state of its own."""
    if before is None or after is None:
        return False
    old, new = (each.get("spec") or {} for each in (before, after))
    times = seconds_of(old.get("renewTime")), seconds_of(new.get("renewTime"))
    is_soon = None not in times and (times[1] or 0) - (times[0] or 0) < LEASE_SECONDS
    return is_soon and old.get("holderIdentity") == new.get("holderIdentity")


def _created(body: Body) -> int:
    return round((seconds_of(body["metadata"].get("creationTimestamp")) or 0) * MICRO)


def _newest(changes: Iterable[Change | WaitChange]) -> list[Change | WaitChange]:
    """Return the last that is said of each object, and then of each wait."""
    found = {(type(change) is WaitChange, change.key): change for change in changes}
    return [found[each] for each in sorted(found, key=lambda each: each[0])]
