"""The status of claims that wait: their annotation `dra-operator.io/pending`, and Events, each with the same text.

An Event is recorded when the reason changes; the numbers in the text move with every slice, and reach the annotation
alone.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.controller.annotations import Annotations
from dra_operator.controller.claims import Key
from dra_operator.controller.facts import Facts, LogEvent, subject_of, warning

PAUSE = 10.0
"""Seconds between two annotations of one claim."""


@dataclass(frozen=True, slots=True)
class PendingReason:
    """Why a claim waits: a reason of docs/reasons.md, the request or right it is about, and one line of text."""

    reason: str
    about: str | None
    message: str

    @property
    def dedup_key(self) -> tuple[str, str | None]:
        """What makes it another reason."""
        return self.reason, self.about


@dataclass(slots=True)
class PendingStatus:
    """What is said of claims that wait, and since when they do. `log_event` logs a reason when it is told."""

    facts: Facts
    annotations: Annotations
    clock: Callable[[], float]
    log_event: LogEvent
    _reasons: dict[Key, PendingReason] = field(default_factory=dict)
    _since: dict[Key, float] = field(default_factory=dict)
    """When each claim that waits began to, by the clock, in that order."""

    def begin(self, key: Key) -> None:
        """State that a claim waits, since now unless it did before."""
        self._since.setdefault(key, self.clock())

    def end(self, key: Key) -> float:
        """State that a claim waits no more; return for how many seconds it did."""
        now = self.clock()
        return now - self._since.pop(key, now)

    def counts(self) -> dict[str, tuple[int, float | None]]:
        """Return how many claims wait for each reason, and when the first of them began to, by the clock."""
        counts = Counter([why.reason for why in self._reasons.values()])
        since = dict[str, float]()
        for key, begun in self._since.items():
            if len(since) == len(counts):
                break
            if (reason := self.reason(key)) is not None:
                since.setdefault(reason, begun)
        return {reason: (count, since.get(reason)) for reason, count in counts.items()}

    def reason(self, key: Key) -> str | None:
        """Return the reason for which a claim waits, or None if it does not, or nothing was said of it yet."""
        why = self._reasons.get(key)
        return None if why is None else why.reason

    def find_text(self, key: Key) -> tuple[str, str]:
        """Return why a claim waits, as reason and text; empty if it does not, or nothing was said of it yet."""
        why = self._reasons.get(key)
        return ("", "") if why is None else (why.reason, why.message)

    def set(self, claim: ResourceClaim, why: PendingReason, *, is_urgent: bool = False) -> None:
        """State why a claim waits; `is_urgent` if a write of ours may have taken off what it said."""
        key, before = claim_key(claim), self._reasons.get(claim_key(claim))
        self._reasons[key] = why
        fact, event = ("waiting", key), warning(subject_of(claim), why.reason, why.message)
        if before is None and self.annotations.stated(claim) == event.message:
            # An operator that ran before this one has said so.
            self.facts.set_known(fact, event, why.dedup_key)
        else:
            self.facts.report(fact, event, why.dedup_key, log_event=self.log_event)
        is_news = before is None or before.dedup_key != why.dedup_key
        self.annotations.set(claim, event.message, pause=PAUSE, is_urgent=is_urgent or is_news)

    def clear(self, key: Key) -> None:
        """State that the claim has what it wants, is gone, or is no longer ours."""
        if self._reasons.pop(key, None) is not None:
            self.facts.clear(("waiting", key))
