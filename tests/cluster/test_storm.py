"""Reflector and writer in a storm: whatever faults come together, what they say of the cluster is true.

Each seed is another mixture, played against the in-memory API server: watches cut, stalled and expired,
requests refused, delayed, answered by errors, answers lost after the change was stored, and other people at
work on the same claims.
"""

import asyncio
import random
import time
from collections import Counter
from dataclasses import replace

import pytest

import factories
from dra_operator.api.read import read_object
from dra_operator.api.types import ResourceClaimStatus
from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.credentials import load_access
from dra_operator.cluster.delivery import UNCHANGED_SECONDS
from dra_operator.cluster.reflector import Reflector
from dra_operator.cluster.session import ApiSession
from dra_operator.cluster.writes import Stored, Unclear, allocate
from faulty_server import FaultyServer

from .script import CLAIMS
from .writing import writer_of

QUICK = Backoff(base=0.001, cap=0.01)
OURS = {
    "devices": {"results": [{"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "ours"}]},
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}
THEIRS = {
    "devices": {"results": [{"request": "gpu", "driver": "d.example.com", "pool": "p", "device": "theirs"}]}
}


def claim(name, **status):
    """A claim that asks for one device."""
    return factories.claim(name, namespace="default", status=status)


@pytest.fixture
async def server():
    """An API server in memory, with frequent bookmarks."""
    async with FaultyServer(bookmark_seconds=0.05) as running:
        yield running


@pytest.fixture
async def session(server, tmp_path):
    """A session with it, by its kubeconfig."""
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    async with ApiSession(load_access(str(path))) as opened:
        yield opened


async def until(condition):
    """Wait until a condition holds."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - a condition of any shape
            await asyncio.sleep(0.005)


def versions(bodies):
    """What there is: name, uid and version of each object."""
    return {
        (body["metadata"]["name"], body["metadata"]["uid"], body["metadata"]["resourceVersion"])
        for body in bodies
    }


@pytest.mark.parametrize("seed", range(8))
async def test_mirror_equals_the_server(server, session, seed):
    """After any storm, and whatever answers to writes told, the differences add up to what the API server stores."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    mirror = {}

    def take(delta):
        key = (delta.namespace, delta.name)
        if delta.body is None:
            del mirror[key]  # a deletion of what was never delivered would be a KeyError
        else:
            mirror[key] = delta.body

    reflector = Reflector(
        session, CLAIMS, take, chunk=3, idle_timeout=0.05, backoff=QUICK, random=chance.random
    )
    task = asyncio.create_task(reflector.run())
    faults = server.faults
    storms = [
        lambda: faults.cut_watches("ResourceClaim"),
        faults.expire,
        lambda: faults.stall_watches("ResourceClaim"),
        lambda: faults.resume_watches("ResourceClaim"),
        lambda: faults.answer(503, verb="list", times=2),
        lambda: faults.answer(410, verb="list"),
        lambda: faults.answer(410, verb="watch"),
        lambda: faults.answer(500, verb="watch"),
        lambda: faults.answer(403, verb="watch"),
        lambda: faults.refuse(verb="watch"),
        lambda: faults.lose_answer(verb="list"),
        lambda: faults.cut_watch_after(chance.randrange(4)),
    ]
    late = []
    for _ in range(120):
        for _ in range(chance.randrange(4)):
            name = f"c{chance.randrange(12)}"
            if chance.random() < 0.4:
                server.remove("ResourceClaim", name, "default")
            else:
                labels = {"n": str(chance.randrange(1000))}
                body = claim(name)
                server.put(body | {"metadata": body["metadata"] | {"labels": labels}})
        if chance.random() < 0.3:
            chance.choice(storms)()
        answer = server.get("ResourceClaim", f"c{chance.randrange(12)}", "default")
        if answer is not None and chance.random() < 0.3:
            late.append(answer)
        if late and chance.random() < 0.3:
            reflector.observe(late.pop(chance.randrange(len(late))))
        await asyncio.sleep(chance.choice([0, 0, 0.002, 0.01]))
    faults.clear()

    await until(lambda: versions(mirror.values()) == versions(server.list("ResourceClaim")))
    for answer in late:
        reflector.observe(answer)

    assert versions(mirror.values()) == versions(server.list("ResourceClaim"))
    assert not task.done()
    assert len(reflector) == len(mirror)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("seed", range(8))
async def test_every_outcome_is_true(server, session, seed):
    """After any storm, claims of writes that say `Stored` have our devices, and no others have."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    names = [f"c{number}" for number in range(40)]
    for name in names:
        server.put(claim(name))
    outcomes, at_once = [], []

    def devices(write):
        stored = server.get("ResourceClaim", write.key[1], "default")
        if stored is None or stored["metadata"]["uid"] != write.uid:
            return "gone"
        allocation = stored["status"].get("allocation")
        return allocation["devices"]["results"][0]["device"] if allocation else "none"

    def take(outcome):
        outcomes.append(outcome)
        if isinstance(outcome, Stored):
            at_once.append(devices(outcome.write))

    # What is read unchanged for a fifth of a second is decided anew: no patch here takes longer.
    writer = writer_of(
        session,
        take,
        concurrency=6,
        timeout=0.05,
        backoff=QUICK,
        random=chance.random,
        clock=lambda: time.monotonic() * UNCHANGED_SECONDS / 0.2,
    )
    for name in names:
        decided = {**server.get("ResourceClaim", name, "default"), "status": {"allocation": OURS}}
        found = read_object(decided, "ResourceClaim")
        writer.submit(allocate(replace(found, status=ResourceClaimStatus()), found.status.allocation))
    faults = server.faults
    storms = [
        lambda: faults.lose_answer(verb="patch", times=3),
        lambda: faults.lose_answer(verb="get"),
        lambda: faults.refuse(verb="patch", times=2),
        lambda: faults.answer(chance.choice([409, 422, 429, 500, 503, 504]), verb="patch", times=3),
        lambda: faults.answer(chance.choice([429, 500, 503]), verb="get", times=2),
        lambda: faults.delay(0.08, verb="patch", times=3),
    ]
    rounds = 0
    while len(outcomes) < len(names):
        rounds += 1
        if rounds <= 60 and chance.random() < 0.4:
            chance.choice(storms)()
        other = chance.choice(names)
        stored = server.get("ResourceClaim", other, "default")
        deed = chance.random() if rounds <= 60 else 1.0
        if stored is None or deed < 0.05:
            server.remove("ResourceClaim", other, "default")
            server.put(claim(other))
        elif deed < 0.1:
            server.remove("ResourceClaim", other, "default")
        elif deed < 0.15 and "allocation" not in stored["status"]:
            server.put(stored | {"status": {"allocation": THEIRS}})
        elif deed < 0.3:
            stored["metadata"]["labels"] = {"n": str(chance.randrange(1000))}
            server.put(stored)
        await asyncio.sleep(0.002)
    faults.clear()
    await asyncio.sleep(0.1)  # what was delayed arrives now

    assert Counter(outcome.write.key[1] for outcome in outcomes) == Counter(names)
    assert not any(isinstance(outcome, Unclear) for outcome in outcomes)
    for outcome in outcomes:
        if isinstance(outcome, Stored):
            assert devices(outcome.write) in ("ours", "gone")
        else:
            assert devices(outcome.write) != "ours", outcome
    assert set(at_once) & {"ours"}
    assert set(at_once) <= {"ours", "gone"}
