"""Reallocation: an allocation of ours that can be used no more, and that no pod names, is taken back and decided anew.

That it is broken must be beyond doubt: its node is gone, its pool has been complete without the device for five
minutes, or a NoExecute taint is not tolerated any longer. Of one pool a quarter moves at once: a driver that errs about
all its devices must not move all claims before somebody sees it. Source: docs/operator.md, "What moves".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dra_operator.allocator.decision import claim_key
from dra_operator.api.names import OPT_OUT_LABEL
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import withdraw
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, text
from dra_operator.controller.context import Context
from dra_operator.controller.logs import get_logger
from dra_operator.inventory import PoolKey
from dra_operator.ledger import Breakage, BrokenAllocations, Cause
from dra_operator.ledger.broken import MISSING_SECONDS as REPORTED_SECONDS

MISSING_SECONDS: Final = 300.0
"""How long a pool must have been complete without a device, in seconds."""
BATCH_SECONDS: Final = 60.0
"""In so many seconds a quarter of a pool is moved."""
_PARTS: Final = 4

log = get_logger()


@dataclass(slots=True)
class _BrokenClaim:
    """A claim that is known to be broken without a break since some time, by the clock.

    `is_ours` says whether the allocation was ours when that was found: of devices that are gone nobody knows it later.
    """

    uid: str
    since: float
    is_ours: bool


@dataclass(slots=True)
class _Batch:
    """What was moved of a pool of late: the number of devices of each claim, and when its move began."""

    size: int = 0
    moves: dict[Key, tuple[float, int]] = field(default_factory=dict)

    def has_room(self, key: Key, devices: int, size: int, now: float) -> bool:
        """Return whether a claim may move now; one that has more than a quarter of the pool moves alone."""
        self.moves = {other: move for other, move in self.moves.items() if now < move[0] + BATCH_SECONDS}
        self.size = max(size, self.size) if self.moves else size
        begun = sum(count for other, (_, count) in self.moves.items() if other != key)
        return begun == 0 or begun + devices <= self.size // _PARTS

    def ends_at(self) -> float:
        """Return when the oldest move does not count any more."""
        return min(begun for begun, _ in self.moves.values()) + BATCH_SECONDS


@dataclass(slots=True)
class Reallocation:
    """Takes back what is broken; `find_broken` returns the claims whose allocation is broken for certain now."""

    context: Context
    allocations: BrokenAllocations
    find_broken: Callable[[], Mapping[Key, tuple[Breakage, ...]]]
    _broken: dict[Key, _BrokenClaim] = field(default_factory=dict)
    _batches: dict[PoolKey, _Batch] = field(default_factory=dict)

    def is_movable(self, claim: ResourceClaim) -> bool:
        """Return whether a broken claim is to get other devices: it is ours, and nobody names or reserves it."""
        metadata = claim.metadata
        return (
            claim.status.allocation is not None
            and metadata.deletion_timestamp is None
            and metadata.labels.get(OPT_OUT_LABEL) != "false"
            and self.context.claims.is_free(claim)
            and (self._know(claim).is_ours or self._is_all_gone(claim))
        )

    def _is_all_gone(self, claim: ResourceClaim) -> bool:
        """Return whether the node of a claim is gone, and all its pools with it.

        Nobody knows then whose its devices were. kube-scheduler's claims have ended with their pods, so that an
        allocation which nobody names or has reserved is most likely ours; and it is of no use to anybody.
        """
        breakages = self.allocations.found.get(claim_key(claim), ())
        published = self.context.inventory.pools
        return any(item.cause is Cause.NODE_GONE for item in breakages) and not any(
            pool in published for pool in _count_devices(claim)
        )

    def _know(self, claim: ResourceClaim) -> _BrokenClaim:
        """Return what is known of a broken claim."""
        key, uid = claim_key(claim), claim.metadata.uid
        known = self._broken.get(key)
        if known is None or known.uid != uid:
            known = self._broken[key] = _BrokenClaim(uid, self.context.clock(), self.context.is_ours(claim))
        return known

    def run(self) -> float | None:
        """Take back what is due, as much as may move at once; return when time alone makes more due."""
        now, found = self.context.clock(), self.find_broken()
        # What is not known to be broken for a moment begins anew.
        self._broken = {key: known for key, known in self._broken.items() if key in found}
        movable = [
            (self._know(claim).since, key, claim)
            for key in found
            if (claim := self.context.claims.get(key)) is not None and self.is_movable(claim)
        ]
        wake: list[float] = []
        for since, key, claim in sorted(movable, key=lambda each: each[:2]):
            due = _due_at(since, found[key])
            if due is None or not self.context.is_writable(claim):
                continue
            again = due if now < due else self._move(key, claim, found[key])
            if again is not None:
                wake.append(again)
        return min(wake, default=None)

    def _move(self, key: Key, claim: ResourceClaim, breakages: tuple[Breakage, ...]) -> float | None:
        """Take the allocation of a claim back; return when its pools have room for that, if they have none."""
        if not self.context.may_end(claim):
            return None
        now, devices = self.context.clock(), _count_devices(claim)
        batches = {pool: self._batches.setdefault(pool, _Batch()) for pool in devices}
        full = [
            batch
            for pool, batch in batches.items()
            if not batch.has_room(key, devices[pool], self.allocations.size_of(pool), now)
        ]
        if full:
            return max(batch.ends_at() for batch in full)
        for pool, batch in batches.items():
            batch.moves[key] = now, devices[pool]
        causes = sorted({item.cause.value for item in breakages})
        log.warning(
            messages.MOVING,
            claim=text(key),
            uid=claim.metadata.uid,
            why=messages.broken_unused(breakages, is_decided_anew=self.context.claims.scope.has_standalone),
        )
        for cause in causes:
            self.context.metrics.reallocations.labels(cause).inc()
        self.context.in_flight.submit(withdraw(claim))
        return None


def _due_at(since: float, breakages: tuple[Breakage, ...]) -> float | None:
    """Return from when a claim may move that is broken since some time, by the clock; None if it may not.

    A pool that lost a device without a new generation may be in the middle of a change, as no driver should let it.
    """
    if any(item.cause is not Cause.DEVICE_MISSING for item in breakages):
        return since
    if all(item.generation <= item.last_generation for item in breakages):
        return None
    return since + MISSING_SECONDS - REPORTED_SECONDS


def _count_devices(claim: ResourceClaim) -> dict[PoolKey, int]:
    """Return how many devices of each pool a claim has."""
    assert claim.status.allocation is not None
    found: dict[PoolKey, set[str]] = {}
    for result in claim.status.allocation.devices.results:
        found.setdefault((result.driver, result.pool), set()).add(result.device)
    return {pool: len(names) for pool, names in found.items()}
