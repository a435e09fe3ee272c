"""Breakages: allocations whose devices cannot be used any more, told on their claims, whoever made them.

By an Event, and by an annotation that stays until the allocation is sound again or ended; at most ten annotations a
second, since one node may hold hundreds of claims. While nothing is heard of slices nothing is judged, and what lasts
begins to last anew.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from dra_operator.api.names import BROKEN_ANNOTATION, OPT_OUT_LABEL
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.writes import AnnotateWrite
from dra_operator.controller import messages
from dra_operator.controller.claims import Key, version_of
from dra_operator.controller.desk import Desk
from dra_operator.controller.problems import tell
from dra_operator.controller.reports import Notice
from dra_operator.controller.telling import one_line, subject_of
from dra_operator.inventory import Inventory
from dra_operator.ledger import BrokenAllocations, Cause

RATE = 10.0
"""How many annotations may be written in a second."""


UNHEARD_SECONDS = 1.0
"""How often it is asked whether slices are heard of again."""


class Breakages:
    """Keeps track of broken allocations. `hears` says whether slices are heard of now."""

    def __init__(self, desk: Desk, inventory: Inventory, hears: Callable[[], bool]) -> None:
        self._desk = desk
        self._hears = hears
        self._heard = True
        self._allocations = BrokenAllocations(inventory)
        self._seen: dict[Key, None] = {}
        """The claims that came in since the last look."""
        self._unknown: set[Key] = set()
        """The claims that could not be judged: what was told of them stays."""
        self._unsettled: dict[Key, None] = {}
        """The claims whose annotation may not be right, those first that wait for the longest."""
        self._tokens = RATE
        self._tokens_at = desk.clock()

    def observe(self, keys: Iterable[Key]) -> None:
        """Take in that claims came, or are gone."""
        self._seen.update(dict.fromkeys(keys))

    def report(self) -> None:
        """Judge what has changed, and tell it."""
        self._take_in()
        self._allocations.follow()
        heard, self._heard = self._heard, self._hears()
        if self._heard:
            if not heard:
                self._allocations.restart(self._desk.clock())
            self._allocations.refresh(self._desk.clock(), self._desk.wall().timestamp())
            for key in tuple(self._allocations.judged):
                self._tell(key, is_known=self._allocations.judged.pop(key))
        self._annotate()
        self._count()

    def next_due(self) -> float | None:
        """Return when time alone makes another look necessary, by the clock, or None."""
        due = self._allocations.next_due()
        if not self._heard:
            due = self._desk.clock() + UNHEARD_SECONDS if self._allocations.is_pending else None
        if not self._is_any_due():
            return due
        turn = self._desk.clock() + (RATE - self._left()) / RATE if self._left() < 1 else self._desk.clock()
        return turn if due is None else min(due, turn)

    def _take_in(self) -> None:
        while self._seen:
            key = next(iter(self._seen))
            # After a defect the others go on.
            del self._seen[key]
            claim = self._desk.book.get(key)
            allocation = None if claim is None else claim.status.allocation
            told = None if claim is None else annotation(claim)
            if self._allocations.put(key, allocation, was_broken=told is not None) and told is not None:
                self._unknown.add(key)
            if allocation is None:
                self._unknown.discard(key)
                self._desk.reports.clear(("broken", key))
            if claim is None:
                self._unsettled.pop(key, None)
            elif told is not None or key in self._allocations.found:
                self._unsettled[key] = None

    def _tell(self, key: Key, *, is_known: bool) -> None:
        """Tell what was found of a claim."""
        desk, claim = self._desk, self._desk.book.get(key)
        if not is_known:
            self._unknown.add(key)
            return
        self._unknown.discard(key)
        if claim is None:
            return
        fact, breakages = ("broken", key), self._allocations.found.get(key)
        if breakages is None:
            desk.reports.clear(fact)
        else:
            text = messages.broken(breakages)
            if annotation(claim) == one_line(text):
                # An operator that ran before this one has said so.
                notice = Notice(subject_of(claim), "Warning", messages.EVENT_BROKEN, one_line(text))
                desk.reports.known(fact, notice, breakages, desk.clock())
            tell(desk, fact, subject_of(claim), messages.EVENT_BROKEN, text, breakages)
        if breakages is not None or annotation(claim) is not None:
            self._unsettled[key] = None

    def _annotate(self) -> None:
        """Bring annotations up to date, as many as may be written now."""
        for key in tuple(self._unsettled):
            claim = self._desk.book.get(key)
            if claim is None or (text := self._text(key, claim)) == annotation(claim):
                del self._unsettled[key]
            elif self._may_write(key, claim):
                if self._left() < 1:
                    return
                self._tokens, self._tokens_at = self._left() - 1, self._desk.clock()
                self._desk.launch(
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
        claims = [(key, self._desk.book.get(key)) for key in self._unsettled]
        return any(claim is not None and self._may_write(key, claim) for key, claim in claims)

    def _may_write(self, key: Key, claim: ResourceClaim) -> bool:
        """Return whether nothing but the rate keeps an annotation from being written; an answer brings a pass."""
        namespace, name, uid, version = version_of(claim)
        return key not in self._desk.flights and not self._desk.lingering.waits(
            (namespace, name), uid, version
        )

    def _left(self) -> float:
        """Return how many annotations may be written now."""
        return min(RATE, self._tokens + (self._desk.clock() - self._tokens_at) * RATE)

    def _count(self) -> None:
        causes = Counter(
            cause for found in self._allocations.found.values() for cause in {item.cause for item in found}
        )
        for cause in Cause:
            self._desk.metrics.broken_allocations.labels(cause.value).set(causes[cause])


def annotation(claim: ResourceClaim) -> str | None:
    """Return what a claim says about its allocation being broken, or None if it says nothing."""
    return claim.metadata.annotations.get(BROKEN_ANNOTATION)
