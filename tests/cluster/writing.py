"""What tests of writes have in common: a claim, what may be written to it, and a writer that never waits."""

import asyncio

from dra_operator.api.names import FINALIZER, PENDING_ANNOTATION
from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.writer import Writer
from dra_operator.cluster.writes import (
    AllocateWrite,
    AnnotateWrite,
    DeallocateWrite,
    Unanswered,
)

from .script import CLAIMS, ok, thing

PATH = "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c"
ALLOCATION = {
    "devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-0"}]},
    "allocationTimestamp": "2026-01-01T00:00:00Z",
}
OTHERS = {"devices": {"results": [{"request": "gpu", "driver": "d", "pool": "p", "device": "gpu-1"}]}}


def claim(version=5, uid="u", *, allocation=None, finalizers=(), annotation=None, name="c"):
    """A claim as on the wire."""
    body = thing(name, version, uid, finalizers=list(finalizers))
    if annotation is not None:
        body["metadata"]["annotations"] = {PENDING_ANNOTATION: annotation}
    body["status"] = {} if allocation is None else {"allocation": allocation}
    return body


def allocate(finalizers=(FINALIZER,), *, drop_annotation=False, name="c", uid="u"):
    """A decision; by default about a claim that has the finalizer, so that one patch is enough."""
    return AllocateWrite("ns", name, uid, "5", finalizers, drop_annotation, ALLOCATION)


def annotate(text, current=None, name="c"):
    """An annotation to be set or taken off."""
    return AnnotateWrite("ns", name, "u", "5", "dra-operator.io/pending", current, text)


def deallocate(finalizers=(FINALIZER,), *, allocated=True):
    """The end of a claim."""
    return DeallocateWrite("ns", "c", "u", "5", finalizers, allocated, 0)


DONE = ok(claim(6, allocation=ALLOCATION, finalizers=[FINALIZER]))
UNCHANGED = ok(claim(5, finalizers=[FINALIZER]))


async def at_once():
    """Permit everything: this operator is the only one."""


def writer_of(session, take, served=CLAIMS, **settings):
    """A writer that nobody holds back."""
    return Writer(
        session, served, take, **{"may_write": at_once, "concurrency": 12, "timeout": 60.0, **settings}
    )


class Desk:
    """A writer under test, its outcomes, and how long it would have waited: its clock knows no other time."""

    def __init__(self, session, **settings):
        self.outcomes = []
        self.told = []
        self.waits = []
        self.writer = writer_of(
            session,
            self.take,
            sleep=self.sleep,
            clock=lambda: 7000.0 + sum(self.waits),
            random=lambda: 1.0,
            backoff=Backoff(base=1.0, cap=10.0),
            **settings,
        )

    def take(self, outcome):
        """Note an outcome, and apart from it what is told before."""
        (self.told if isinstance(outcome, Unanswered) else self.outcomes).append(outcome)

    async def sleep(self, seconds):
        """Note a pause instead of taking it."""
        self.waits.append(seconds)
        await asyncio.sleep(0.001)

    async def results(self, count=1):
        """Wait for so many outcomes."""
        async with asyncio.timeout(5):
            while len(self.outcomes) < count:  # noqa: ASYNC110 - the writer calls back, it signals nothing
                await asyncio.sleep(0.001)
        assert len(self.outcomes) == count
        return self.outcomes

    async def result(self, write):
        """Submit a write and return its outcome."""
        self.writer.submit(write)
        (outcome,) = await self.results()
        assert outcome.write == write
        return outcome


def patches(script):
    """What was patched: subresource and body."""
    return [(asked.path.removeprefix(PATH), asked.body) for asked in script.asked if asked.method == "PATCH"]
