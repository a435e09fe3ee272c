"""Telling: what a person can read about a claim that waits.

Two places, one text: the annotation on the claim holds what is true now and is read by scripts and `kubectl
get`; an Event says when it changed and is read by `kubectl describe`. The reason decides when there is
something new to say: the numbers in the text move with every slice, and an Event for each of them would drown
the one that matters, so those reach the annotation alone, and not more often than every few seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass

from dra_operator.api.types import ResourceClaim
from dra_operator.controller.claims import Key, annotation, key_of
from dra_operator.controller.reports import Notice, Reports, Subject

LONGEST = 1000
"""Characters of an explanation that are shown. An Event takes 1,024, an annotation much more."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a claim waits: a reason of docs/reasons.md, the request it is about, and one line of text."""

    reason: str
    request: str | None
    message: str


@dataclass(slots=True)
class _Told:
    uid: str
    waiting: Waiting
    written_at: float
    pending: bool = False


class Telling:
    """What is to be said, and was said, about waiting claims.

    `pause` is the least time between two annotations of one claim, in seconds, while its reason is the same.
    """

    def __init__(self, reports: Reports, clock: Callable[[], float], pause: float = 10.0) -> None:
        self._reports = reports
        self._clock = clock
        self._pause = pause
        self._told: dict[Key, _Told] = {}

    def waits(self, claim: ResourceClaim, waiting: Waiting) -> Notice | None:
        """State why a claim waits; return the Event if the reason is news."""
        key, uid = key_of(claim), claim.metadata.uid
        now = self._clock()
        told = self._told.get(key)
        first = told is None or told.uid != uid
        if told is None or told.uid != uid:
            self._told[key] = _Told(uid, waiting, float("-inf"))
        else:
            if (told.waiting.reason, told.waiting.request) != (waiting.reason, waiting.request):
                told.written_at, told.pending = float("-inf"), False
            told.waiting = waiting
        notice = Notice(subject_of(claim), "Warning", waiting.reason, shorten(waiting.message))
        sameness = (waiting.reason, waiting.request)
        if first and annotation(claim) == shorten(waiting.message):
            # An operator that ran before this one has said so.
            self._reports.known(("waiting", key), notice, sameness, now)
            return None
        return self._reports.state(("waiting", key), notice, sameness, now)

    def waits_no_more(self, key: Key) -> None:
        """State that the claim has what it wants, is gone, or is no longer ours."""
        if self._told.pop(key, None) is not None:
            self._reports.clear(("waiting", key))

    def reason(self, key: Key) -> str | None:
        """Return the reason why the claim waits, or None if it does not."""
        told = self._told.get(key)
        return told.waiting.reason if told is not None else None

    def annotation_due(self, claim: ResourceClaim) -> str | None:
        """Return the text that the annotation must be set to now, or None if it is right or may still wait."""
        told = self._told.get(key_of(claim))
        if told is None or told.uid != claim.metadata.uid:
            return None
        text = shorten(told.waiting.message)
        told.pending = annotation(claim) != text
        if not told.pending or self._clock() - told.written_at < self._pause:
            return None
        return text

    def written(self, key: Key) -> None:
        """Note that an annotation was sent."""
        told = self._told.get(key)
        if told is not None:
            told.written_at = self._clock()

    def next_due(self) -> float | None:
        """Return when an annotation that may not be written yet may be, by the clock; None if there is none."""
        waiting = (told.written_at + self._pause for told in self._told.values() if told.pending)
        return min(waiting, default=None)

    def claims(self) -> tuple[Key, ...]:
        """Return the claims that wait."""
        return tuple(self._told)

    def reasons(self) -> dict[str, int]:
        """Return how many claims wait, by reason."""
        counts: dict[str, int] = {}
        for told in self._told.values():
            counts[told.waiting.reason] = counts.get(told.waiting.reason, 0) + 1
        return counts


def subject_of(claim: ResourceClaim) -> Subject:
    """Return the claim as the subject of an Event."""
    metadata = claim.metadata
    return Subject(
        "ResourceClaim", metadata.namespace, metadata.name, metadata.uid, metadata.resource_version
    )


def shorten(text: str) -> str:
    """Return the text on one line, and short enough for an Event."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
