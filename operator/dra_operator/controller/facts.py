"""Facts: what is true of an object for a while, told by an Event when it becomes true or changes, and refreshed.

The one reporter of whoever finds something, and states it as often as it likes. The API server deletes Events after an
hour, so one that is still true is recorded again before. A fact that flaps is told three times a minute: a driver that
publishes its slices many times a second makes its pool incomplete each time.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import Subject, shorten
from dra_operator.cluster.faults import Defect, DefectLogger
from dra_operator.cluster.writes import annotate
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key, text
from dra_operator.controller.logs import get_logger
from dra_operator.controller.queue import Backoff, InFlightWrites, TokenBucket

AT_ONCE = 3
"""So many changes of a fact are told as they come,"""
CALM = 60.0
"""in so many seconds; more of them wait."""
RATE = 10.0
"""How many Events of paced facts are recorded in a second."""

log = get_logger()


@dataclass(frozen=True, slots=True)
class EventRequest:
    """An Event to be recorded: `type` is Normal or Warning, `reason` is CamelCase, `message` one sentence."""

    subject: Subject
    type: str
    reason: str
    message: str


LogEvent: TypeAlias = Callable[[EventRequest], None]
Problem: TypeAlias = tuple[Subject, str, str, Hashable]
"""What is wrong with an object: it, reason, message, and what makes it news, None for reason and message."""


@dataclass(slots=True)
class _Fact:
    """`state` is what makes it news: what is stated now, and what the last Event said."""

    event: EventRequest
    log: LogEvent | None
    state: Hashable
    told: Hashable = None
    told_at: tuple[float, ...] = ()
    """When it was told the last times."""

    def due_at(self, refresh_seconds: float) -> float:
        """Return when it is told again: as news, as soon as it may be, else so long after the last time."""
        if self.state == self.told:
            return self.told_at[-1] + refresh_seconds
        return float("-inf") if len(self.told_at) < AT_ONCE else self.told_at[0] + CALM


@dataclass(slots=True)
class Facts:
    """The facts that hold right now, by key. `record` has an Event recorded; `clock` is monotonic, in seconds."""

    refresh_seconds: float
    clock: Callable[[], float]
    record: Callable[[EventRequest], None]
    _facts: dict[Hashable, _Fact] = field(default_factory=dict)
    _paced: dict[Hashable, None] = field(default_factory=dict)
    """The paced facts that are not told yet."""
    _of_topic: dict[str, set[Hashable]] = field(default_factory=dict)
    _bucket: TokenBucket = field(init=False)

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(RATE, self.clock)

    def report(
        self,
        key: Hashable,
        event: EventRequest,
        dedup_key: Hashable,
        *,
        log_event: LogEvent | None = None,
        is_paced: bool = False,
    ) -> None:
        """State a fact, and tell it if it is news: a new subject, or one whose `dedup_key` has changed.

        A change of the message alone is no news, but the next refresh carries it. `log_event` logs it when it is told.
        A paced one is told by `record_due` when it is its turn.
        """
        state, fact = (dedup_key, event.subject.uid), self._facts.get(key)
        if fact is None:
            fact = self._facts[key] = _Fact(event, log_event, state)
        fact.event, fact.log, fact.state = event, log_event, state
        if fact.state == fact.told:
            self._paced.pop(key, None)
        elif is_paced:
            self._paced[key] = None
        else:
            self._tell_if_due(fact)

    def report_problem(
        self,
        key: Hashable,
        subject: Subject,
        reason: str,
        message: str,
        dedup_key: Hashable = None,
        *,
        is_paced: bool = False,
    ) -> None:
        """Report and log what is wrong with an object; news is another `dedup_key`, or else reason or message."""
        event, news = warning(subject, reason, message), (reason, message) if dedup_key is None else dedup_key
        self.report(key, event, news, log_event=_log_problem, is_paced=is_paced)

    def set_known(self, key: Hashable, event: EventRequest, dedup_key: Hashable) -> None:
        """State a fact that an operator before this one has told."""
        if key not in self._facts:
            state = (dedup_key, event.subject.uid)
            self._facts[key] = _Fact(event, None, state, state, (self.clock(),))

    def set_topic(self, topic: str, found: Mapping[Hashable, Problem]) -> None:
        """State all the problems of a topic, by key: those stated before hold no more."""
        for key, problem in found.items():
            # At once: after a defect further down it is still known what is to be cleared.
            self._of_topic.setdefault(topic, set()).add(key)
            self.report_problem(key, *problem)
        for key in self._of_topic.pop(topic, set()) - found.keys():
            self.clear(key)
        if found:
            self._of_topic[topic] = set(found)

    def clear(self, key: Hashable) -> bool:
        """State that nothing holds for `key` any more; return whether something did."""
        self._paced.pop(key, None)
        return self._facts.pop(key, None) is not None

    def record_due(self) -> float | None:
        """Tell what had to wait, and again what is about to be deleted; return when time alone makes more of it due."""
        next_at = float("inf")
        for key, fact in self._facts.items():
            if key not in self._paced:
                next_at = min(next_at, self._tell_if_due(fact))
        while self._paced and self._bucket.has_one():
            key = next(iter(self._paced))
            del self._paced[key]
            self._bucket.take_one()
            next_at = min(next_at, self._tell_if_due(self._facts[key]))
        if self._paced:
            next_at = min(next_at, self._bucket.full_at())
        return next_at if self._facts else None

    def _tell_if_due(self, fact: _Fact) -> float:
        """Tell a fact if that is due; return when it is due again."""
        due_at = fact.due_at(self.refresh_seconds)
        if self.clock() < due_at:
            return due_at
        is_news, fact.told = fact.state != fact.told, fact.state
        fact.told_at = (*fact.told_at[1 - AT_ONCE :], self.clock())
        self.record(fact.event)
        if is_news and fact.log is not None:
            fact.log(fact.event)
        return fact.due_at(self.refresh_seconds)


def _log_problem(event: EventRequest) -> None:
    subject = event.subject
    name = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    log.warning(messages.PROBLEM, kind=subject.kind, object=name, reason=event.reason, why=event.message)


def warning(subject: Subject, reason: str, message: str) -> EventRequest:
    """Return a warning, its message on one line."""
    return EventRequest(subject, "Warning", reason, one_line(message))


def subject_of(claim: ResourceClaim) -> Subject:
    """Return the claim as the subject of an Event."""
    metadata = claim.metadata
    return Subject("ResourceClaim", metadata.namespace, metadata.name, metadata.uid)


def one_line(text: str) -> str:
    """Return the text on one line, and short enough for an Event."""
    return shorten(" ".join(text.split()))


# --- Annotations of claims: what one of ours is to say on each claim, and the writes that bring it there.
# Where the reason has changed it is written at once, else at a bounded rate; one that is not accepted backs off. It
# is looked at until the claim has it: a write may meet a conflict, and somebody may take it off.


"""How many annotations that are not urgent may be written in a second."""


@dataclass(slots=True)
class _Text:
    """What a claim of this uid is to say, and how long after the last time."""

    uid: str
    text: str | None
    pause: float = 0.0
    is_urgent: bool = False
    written_at: float = float("-inf")


@dataclass(slots=True)
class Annotations:
    """Keeps the annotation `name` of claims as it should be; claims of which nothing was said are left as they are.

    `backoff` is that of writes that were not accepted; its timers, and the answers to writes, bring the next cycle.
    """

    name: str
    claims: ClaimStore
    in_flight: InFlightWrites
    backoff: Backoff
    clock: Callable[[], float]
    defect_logger: DefectLogger
    _texts: dict[Key, _Text] = field(default_factory=dict)
    _unsettled: dict[Key, None] = field(default_factory=dict)
    """The claims whose annotation may not be right, those first that wait for the longest."""
    _bucket: TokenBucket = field(init=False)

    def __post_init__(self) -> None:
        self._bucket = TokenBucket(RATE, self.clock)

    def set(
        self, claim: ResourceClaim, said: str | None, *, pause: float = 0.0, is_urgent: bool = False
    ) -> None:
        """State what a claim is to say, None for nothing; one text comes `pause` seconds after the last at least."""
        key, uid = claim_key(claim), claim.metadata.uid
        known = self._texts.get(key)
        if known is None or known.uid != uid:
            known = self._texts[key] = _Text(uid, said)
        known.is_urgent = is_urgent or (known.is_urgent and said == known.text)
        known.text, known.pause = said, pause
        self._unsettled[key] = None

    def take_off(self, claim: ResourceClaim) -> None:
        """State that a claim is to say nothing."""
        if claim_key(claim) in self._texts or self.stated(claim) is not None:
            self.set(claim, None)

    def observe(self, key: Key) -> None:
        """Take in that a claim has changed, and its annotation perhaps."""
        if key in self._texts:
            self._unsettled[key] = None

    def forget(self, key: Key) -> None:
        """Forget what a claim was to say that is gone."""
        self._texts.pop(key, None)
        self._unsettled.pop(key, None)

    def stated(self, claim: ResourceClaim) -> str | None:
        """Return what a claim says now."""
        return claim.metadata.annotations.get(self.name)

    def write(self) -> float | None:
        """Have written what may be written now; return when time alone allows more."""
        due = list[float]()
        for key in tuple(self._unsettled):
            try:
                next_at = self._write(key)
            except Exception:
                # One claim must not keep the others from it; it is looked at again when it changes.
                self.defect_logger.exception(Defect.TIDYING, claim=text(key))
                self._unsettled.pop(key, None)
                continue
            if next_at is not None:
                due.append(next_at)
        return min(due, default=None)

    def _write(self, key: Key) -> float | None:
        claim, wanted = self.claims.get(key), self._texts[key]
        if claim is None or claim.metadata.uid != wanted.uid or claim.metadata.deletion_timestamp is not None:
            del self._texts[key], self._unsettled[key]
            return None
        current = self.stated(claim)
        if current == wanted.text:
            del self._unsettled[key]
            wanted.is_urgent = False
            if current is None:
                del self._texts[key]
            return None
        if key in self.in_flight or self.backoff.holds_claim(claim):
            return None
        # A write of ours may have taken it off.
        is_missing = wanted.is_urgent and current is None
        if wanted.text is not None and not is_missing and self.clock() < wanted.written_at + wanted.pause:
            return wanted.written_at + wanted.pause
        if not wanted.is_urgent:
            if not self._bucket.has_one():
                return self._bucket.full_at()
            self._bucket.take_one()
        del self._unsettled[key]
        wanted.is_urgent = False
        if wanted.text is not None:
            # After one that is only taken off, as after a restart, the next need not wait.
            wanted.written_at = self.clock()
        self.in_flight.submit(annotate(claim, self.name, wanted.text))
        return None


# --- The status of claims that wait: their annotation `dra-operator.io/pending`, and Events, each with the same text.
# An Event is recorded when the reason changes; the numbers in the text move with every slice, and reach the annotation
# alone.

PAUSE = 10.0
"""Seconds between two annotations of one claim."""


@dataclass(frozen=True, slots=True)
class PendingReason:
    """Why a claim or a pod waits: a reason of docs/reasons.md, one line of text, and the request or right, if any."""

    reason: str
    message: str
    about: str | None = None

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
