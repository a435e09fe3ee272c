"""An independent reader of the watch beside a recorder, and what it comes to, told naively: state by state, by hand.

It knows nothing of the record. Between two transactions a state holds from its event to the next; in a gap only what
has the same uid and resourceVersion on both sides is there.
"""

import asyncio
import json
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import aiohttp

from dra_operator.history.schema import MICRO

from .histories import last_revision, recorded

PATHS = {
    "ResourceClaim": "/apis/resource.k8s.io/v1/resourceclaims",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceTaintRule": "/apis/resource.k8s.io/v1/devicetaintrules",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/pods",
}
PARTS = {"part-0": Fraction(1, 2), "part-1": Fraction(1, 2), "part-2": Fraction(1)}
SHARE = Fraction(1, 4)


class Event(NamedTuple):
    """What a watch told: `body` is None for what is gone."""

    at: int
    key: tuple[str, str, str]
    body: dict | None


class Stored(NamedTuple):
    """The recorder stored what came: up to a time, behind a gap or not."""

    at: int
    is_gap: bool


class Piece(NamedTuple):
    """The objects that there were from a time to another; in a gap, those that stayed."""

    since: int
    until: int
    bodies: dict
    is_gap: bool


class Watcher:
    """Lists and watches by itself; `log` has what was told, by the clock of the recorder."""

    def __init__(self, url, clock):
        self.log, self.seen, self._told = [], {kind: {} for kind in PATHS}, dict.fromkeys(PATHS, 0)
        self._url, self._clock = url, clock

    async def run(self):
        """Watch until it is cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in PATHS:
                tasks.create_task(self._follow(kind))

    async def _follow(self, kind):
        async with aiohttp.ClientSession(self._url) as session:
            while True:
                with suppress(aiohttp.ClientError):
                    await self._list_and_watch(session, kind)
                await asyncio.sleep(0.01)

    async def _list_and_watch(self, session, kind):
        async with session.get(PATHS[kind]) as response:
            listed = await response.json()
        bodies = {key_of(kind, body): body for body in listed["items"]}
        for key in [*self.seen[kind].keys() - bodies.keys()]:
            self._add(key, None)
        for key, body in bodies.items():
            if version_of(self.seen[kind].get(key)) != version_of(body):
                self._add(key, body)
        self._told[kind] = int(listed["metadata"]["resourceVersion"])
        options = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        async with session.get(PATHS[kind], params=options) as response:
            async for line in response.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                body = event["object"]
                self._add(key_of(kind, body), None if event["type"] == "DELETED" else body)
                self._told[kind] = int(body["metadata"]["resourceVersion"])

    def _add(self, key, body):
        self.log.append(Event(self._clock(), key, body))
        if body is None:
            self.seen[key[0]].pop(key, None)
        else:
            self.seen[key[0]][key] = body

    async def caught_up(self, server):
        """Wait until it knows all that there is."""
        async with asyncio.timeout(120):
            while any(self._is_behind(server, kind) for kind in PATHS):  # noqa: ASYNC110
                await asyncio.sleep(0.002)

    def _is_behind(self, server, kind):
        there = {key_of(kind, body): version_of(body) for body in server.list(kind)}
        seen = {key: version_of(body) for key, body in self.seen[kind].items()}
        return self._told[kind] < last_revision(server, kind) or there != seen


def key_of(kind, body):
    """Return kind, namespace and name."""
    return kind, body["metadata"].get("namespace", ""), body["metadata"]["name"]


def version_of(body):
    """Return uid and resourceVersion; None of nothing."""
    return body and (body["metadata"]["uid"], body["metadata"]["resourceVersion"])


async def play_watched(url, seed, steps=12):
    """Record a random history in which much changes between two transactions; return what the watcher has."""
    async with recorded(url, seed) as (world, recording):
        watcher = Watcher(recording.server.url, lambda: recording.recorder.now)
        watching = asyncio.create_task(watcher.run())

        async def settle():
            await recording.caught_up()
            await watcher.caught_up(recording.server)

        async def store(*, is_gap=False):
            await settle()
            missed = recording.recorder.missed
            await recording.store()
            # A watch that was refused once more behind an outage makes a gap of its own.
            is_gap |= recording.recorder.missed > missed
            watcher.log.append(Stored(recording.recorder.covered, is_gap))

        async def happen(seconds):
            for each in seconds:
                recording.seconds += each
                world.step()
                await settle()

        await store(is_gap=True)
        for _ in range(steps):
            await happen(world.random.choices((0.25, 0.5, 1), k=world.random.randint(1, 4)))
            roll = world.random.random()
            if roll < 0.15:
                await recording.kill()
                recording.seconds += 1
                world.step()
                recording.seconds += world.random.choice((3, 60))
                recording.step_of_wall += world.random.choice((0, -300, -60, 300))
                await watcher.caught_up(recording.server)
                await recording.start()
            elif roll < 0.25:
                await recording.server.stop()
                recording.seconds += 1
                world.step()
                recording.server.expire_history()
                recording.seconds += 7
                await recording.server.start()
            elif roll < 0.3:
                # Nobody came to look for so long that something may be missed.
                await happen((2, 3))
            await store(is_gap=roll < 0.3)
        await happen((1,))
        await store()
        watching.cancel()
        await asyncio.wait({watching})
        return watcher.log


def pieces_of(log):
    """Yield what there was, from the first transaction to the last one, in the order of time."""
    kept, told, at = {}, [], None
    for entry in log:
        if isinstance(entry, Event):
            told.append(entry)
            continue
        before = dict(kept)
        for event in told:
            if not entry.is_gap:
                yield Piece(at, event.at, dict(kept), is_gap=False)
                at = event.at
            if event.body is None:
                kept.pop(event.key, None)
            else:
                kept[event.key] = event.body
        told.clear()
        if at is None:
            pass
        elif entry.is_gap:
            yield Piece(at, at + 1, before, is_gap=False)
            stayed = {
                key: body for key, body in before.items() if version_of(kept.get(key)) == version_of(body)
            }
            yield Piece(at + 1, entry.at, stayed, is_gap=True)
        else:
            yield Piece(at, entry.at, dict(kept), is_gap=False)
        at = entry.at
    yield Piece(at, at, kept, is_gap=False)


def waits_of(log):
    """Return since when until when each pod waited, by uid; a wait goes on over a gap in which its pod stayed."""
    found, first = defaultdict(list), {}
    for before, piece in pairwise([Piece(0, 0, {}, is_gap=False), *pieces_of(log)]):
        for key, body in piece.bodies.items():
            if key[0] != "Pod" or body["spec"].get("nodeName"):
                continue
            uid = body["metadata"]["uid"]
            if found[uid] and key in before.bodies and found[uid][-1][1] == piece.since:
                found[uid][-1] = found[uid][-1][0], piece.until
                continue
            created = first.setdefault(uid, min(piece.since, created_of(body)))
            found[uid].append((piece.since if found[uid] else created, piece.until))
    spans = {uid: [span for span in each if span[0] < span[1]] for uid, each in found.items()}
    return {uid: each for uid, each in spans.items() if each}


def created_of(body):
    """Return the time of creation, in microseconds."""
    return round(datetime.fromisoformat(body["metadata"]["creationTimestamp"]).timestamp() * MICRO)


# --- what cards are


def account(log, since, until):
    """Return card-microseconds by state and idle, and what namespaces and nodes held, idle and unpublished."""
    states, rows = Counter(), defaultdict(Counter)
    for piece in pieces_of(log):
        length = min(piece.until, until) - max(piece.since, since)
        if length > 0:
            _account_piece(piece, length, states, rows)
    return +states, {name: +row for name, row in rows.items() if +row}


def _account_piece(piece, length, states, rows):
    of_kind = defaultdict(list)
    for (kind, _, _), body in piece.bodies.items():
        of_kind[kind].append(body)
    running = {
        body["metadata"]["uid"]
        for body in of_kind["Pod"]
        if body["spec"].get("nodeName") and (body.get("status") or {}).get("phase") == "Running"
    }
    holders = defaultdict(list)
    for body in of_kind["ResourceClaim"]:
        status = body.get("status") or {}
        uses = {each["uid"] for each in status.get("reservedFor") or ()}
        is_idle = not piece.is_gap and not uses & running
        for each in (status.get("allocation") or {}).get("devices", {}).get("results", ()):
            holders[each["pool"], each["device"]].append((body["metadata"]["namespace"], is_idle))
    published = {
        (body["spec"]["pool"]["name"], device["name"]): (body, device)
        for body in of_kind["ResourceSlice"]
        for device in body["spec"].get("devices") or ()
    }
    for place, held in holders.items():
        part = PARTS.get(place[1], SHARE if place[1] == "gpu-9" else Fraction(1))
        for namespace, is_idle in held:
            if place in published:
                for name in (namespace, place[0]):
                    rows[name] += Counter(held=part * length, idle=part * length * is_idle)
            else:
                for name in (namespace, "(none)"):
                    # Several claims of a device that nobody publishes have it by parts.
                    rows[name] += Counter(unpublished=Fraction(length, len(held)))
    parts = {}
    for place, (body, device) in published.items():
        held = holders.get(place, ())
        if held:
            state = "shared" if place[1] == "gpu-9" and len(held) * SHARE < 1 else "used"
        else:
            state = "unknown" if piece.is_gap else _state_of_free(body, device, holders, of_kind)
        whole = PARTS.get(place[1], Fraction(1))
        if place[1] in PARTS and not held:
            parts[place[1]] = state
            continue
        states[state] += whole * length
        states["idle"] += whole * length * (bool(held) and all(is_idle for _, is_idle in held))
    if parts:
        # What is left of the card is the best of what could still be cut of it.
        left = 1 - sum(PARTS[name] for (pool, name) in holders if pool == "node-3")
        best = next(each for each in ("unknown", "free", "tainted", "blocked") if each in parts.values())
        states[best] += left * length


def _state_of_free(body, device, holders, of_kind):
    """Return the state of a device that nobody holds, as docs/audit.md has it."""
    spec = body["spec"]
    pool = [each for each in of_kind["ResourceSlice"] if each["spec"]["pool"]["name"] == spec["pool"]["name"]]
    node = next(each for each in of_kind["Node"] if each["metadata"]["name"] == spec["nodeName"])
    taken = sum(PARTS[name] for (name_of_pool, name) in holders if name_of_pool == "node-3")
    if (
        len(pool) < spec["pool"]["resourceSliceCount"]
        or node["spec"].get("unschedulable")
        or taken + PARTS.get(device["name"], 0) > 1
    ):
        return "blocked"
    rules = {each["spec"]["deviceSelector"]["pool"] for each in of_kind["DeviceTaintRule"]}
    return "tainted" if device.get("taints") or spec["pool"]["name"] in rules else "free"
