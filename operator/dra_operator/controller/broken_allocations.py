"""Allocations whose devices cannot be used any more, reported on their claims, whoever made them.

By an Event, and by an annotation that stays until the allocation is sound again or ended; the annotations are
rate-limited, since one node may hold hundreds of claims. While nothing is heard of slices nothing is judged.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import InitVar, dataclass, field
from datetime import datetime

from dra_operator.api.names import BROKEN_ANNOTATION, OPT_OUT_LABEL
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import AnnotateWrite
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, version_of
from dra_operator.controller.event_dedup import EventDeduplicator, one_line, subject_of, warning
from dra_operator.controller.metrics import Metrics
from dra_operator.controller.queue import Backoff
from dra_operator.controller.state import InFlightWrites
from dra_operator.controller.timers import TokenBucket
from dra_operator.inventory import Inventory
from dra_operator.ledger import BrokenAllocations, Cause

RATE = 10.0
"""How many annotations may be written in a second."""


UNHEARD_SECONDS = 1.0
"""How often it is asked whether slices are heard of again."""


@dataclass(slots=True)
class BrokenAllocationReporter:
    """Keeps track of broken allocations. `hears` says whether a kind is heard of now."""

    inventory: InitVar[Inventory]
    claims: ClaimStore
    in_flight: InFlightWrites
    backoff: Backoff
    events: EventDeduplicator
    metrics: Metrics
    clock: Callable[[], float]
    wall: Callable[[], datetime]
    hears: Callable[[str], bool]
    _heard: bool = True
    _allocations: BrokenAllocations = field(init=False)
    _seen: dict[Key, None] = field(default_factory=dict)
    """The claims that came in since the last look."""
    _unknown: set[Key] = field(default_factory=set)
    """The claims that could not be judged: what was reported of them stays."""
    _unsettled: dict[Key, None] = field(default_factory=dict)
    """The claims whose annotation may not be right, those first that wait for the longest."""
    _bucket: TokenBucket = field(init=False)

    def __post_init__(self, inventory: Inventory) -> None:
        self._allocations = BrokenAllocations(inventory)
        self._bucket = TokenBucket(RATE, self.clock)

    def observe(self, keys: Iterable[Key]) -> None:
        """Take in that claims came, or are gone."""
        self._seen.update(dict.fromkeys(keys))

    def report(self) -> float | None:
        """Judge what has changed, and report it; return when time alone makes that necessary again."""
        self._collect()
        self._allocations.follow()
        was_heard, self._heard = self._heard, self.hears("ResourceSlice") and self.hears("Node")
        if self._heard:
            if not was_heard:
                self._allocations.restart(self.clock())
            self._allocations.refresh(self.clock(), self.wall().timestamp())
            for key in tuple(self._allocations.judged):
                self._report_claim(key, is_known=self._allocations.judged.pop(key))
        self._annotate()
        self._count()
        return self._next_due()

    def _next_due(self) -> float | None:
        due = self._allocations.next_due()
        if not self._heard:
            due = self.clock() + UNHEARD_SECONDS if self._allocations.is_pending else None
        if not self._is_any_due():
            return due
        turn = self._bucket.full_at()
        return turn if due is None else min(due, turn)

    def _collect(self) -> None:
        while self._seen:
            key = next(iter(self._seen))
            # After a defect the others go on.
            del self._seen[key]
            claim = self.claims.get(key)
            allocation = None if claim is None else claim.status.allocation
            stated = None if claim is None else annotation(claim)
            if self._allocations.put(key, allocation, was_broken=stated is not None) and stated is not None:
                self._unknown.add(key)
            if allocation is None:
                self._unknown.discard(key)
                self.events.clear(("broken", key))
            if claim is None:
                self._unsettled.pop(key, None)
            elif stated is not None or key in self._allocations.found:
                self._unsettled[key] = None

    def _report_claim(self, key: Key, *, is_known: bool) -> None:
        """Report what was found of a claim."""
        claim = self.claims.get(key)
        if not is_known:
            self._unknown.add(key)
            return
        self._unknown.discard(key)
        if claim is None:
            return
        fact, breakages = ("broken", key), self._allocations.found.get(key)
        if breakages is None:
            self.events.clear(fact)
        else:
            text = messages.broken(breakages)
            if annotation(claim) == one_line(text):
                # An operator that ran before this one has said so.
                event = warning(subject_of(claim), messages.EVENT_BROKEN, text)
                self.events.set_known(fact, event, breakages)
            self.events.report_problem(fact, subject_of(claim), messages.EVENT_BROKEN, text, breakages)
        if breakages is not None or annotation(claim) is not None:
            self._unsettled[key] = None

    def _annotate(self) -> None:
        """Bring annotations up to date, as many as may be written now."""
        for key in tuple(self._unsettled):
            claim = self.claims.get(key)
            if claim is None or (text := self._text(key, claim)) == annotation(claim):
                del self._unsettled[key]
            elif self._may_write(key, claim):
                if not self._bucket.has_one():
                    return
                self._bucket.take_one()
                self.in_flight.submit(
                    AnnotateWrite(
                        *version_of(claim), annotation=BROKEN_ANNOTATION, current=annotation(claim), text=text
                    )
                )

    def _text(self, key: Key, claim: ResourceClaim) -> str | None:
        """Return what the annotation of a claim should say; None if it should not be there."""
        metadata = claim.metadata
        opted_out = metadata.labels.get(OPT_OUT_LABEL) == "false"
        if opted_out or metadata.deletion_timestamp is not None or key in self._unknown:
            return annotation(claim)
        breakages = self._allocations.found.get(key)
        return None if breakages is None else one_line(messages.broken(breakages))

    def _is_any_due(self) -> bool:
        claims = [(key, self.claims.get(key)) for key in self._unsettled]
        return any(claim is not None and self._may_write(key, claim) for key, claim in claims)

    def _may_write(self, key: Key, claim: ResourceClaim) -> bool:
        """Return whether nothing but the rate keeps an annotation from being written; an answer brings a cycle."""
        return key not in self.in_flight and not self.backoff.holds_claim(claim)

    def _count(self) -> None:
        causes = Counter(
            cause for found in self._allocations.found.values() for cause in {item.cause for item in found}
        )
        for cause in Cause:
            self.metrics.broken_allocations.labels(cause.value).set(causes[cause])


def annotation(claim: ResourceClaim) -> str | None:
    """Return what a claim says about its allocation being broken, or None if it says nothing."""
    return claim.metadata.annotations.get(BROKEN_ANNOTATION)
