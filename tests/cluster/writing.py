"""What tests of writes have in common: a claim, what may be written to it, and a writer that never waits."""

import asyncio

from dra_operator.api.names import FINALIZER, PENDING_ANNOTATION
from dra_operator.api.read import read_object
from dra_operator.cluster import writes
from dra_operator.cluster.backoff import Backoff
from dra_operator.cluster.writer import Writer

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


def known(*, name="c", uid="u", finalizers=(), annotation=None, allocation=None, reserved_for=()):
    """The claim that something was decided about."""
    body = claim(5, uid, allocation=allocation, finalizers=finalizers, annotation=annotation, name=name)
    body["status"]["reservedFor"] = [{"resource": "pods", "name": pod, "uid": pod} for pod in reserved_for]
    return read_object({**body, "spec": {}}, "ResourceClaim")


def allocate(finalizers=(FINALIZER,), *, drop_annotation=False, name="c", uid="u"):
    """A decision; by default about a claim that has the finalizer, so that one patch is enough."""
    found = known(name=name, uid=uid, finalizers=finalizers, annotation="old" if drop_annotation else None)
    allocation = known(allocation=ALLOCATION).status.allocation
    return writes.allocate(found, allocation)


def annotate(text, name="c"):
    """An annotation to be set or taken off."""
    return writes.annotate(known(name=name), PENDING_ANNOTATION, text)


def deallocate(finalizers=(FINALIZER,), *, allocated=True):
    """The end of a claim."""
    return writes.deallocate(known(finalizers=finalizers, allocation=ALLOCATION if allocated else None))


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
        """Note an outcome."""
        self.outcomes.append(outcome)

    async def sleep(self, seconds):
        """Note a pause instead of taking it."""
        self.waits.append(seconds)
        await asyncio.sleep(0.001)

    async def results(self, count=1):
        """Wait for so many outcomes."""
        async with asyncio.timeout(60):
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
