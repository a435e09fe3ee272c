"""Facts: what is true of an object for a while, told by an Event when it becomes true or changes, and refreshed.

The one reporter of whoever finds something, and states it as often as it likes. The API server deletes Events after an
hour, so one that is still true is recorded again before. A fact that flaps is told three times a minute: a driver that
publishes its slices many times a second makes its pool incomplete each time.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import Subject, shorten
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.timers import Timers, TokenBucket

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

    @property
    def next_at(self) -> float:
        """When it may be told again."""
        return float("-inf") if len(self.told_at) < AT_ONCE else self.told_at[0] + CALM


@dataclass(slots=True)
class Facts:
    """The facts that hold right now, by key. `record` has an Event recorded; `clock` is monotonic, in seconds."""

    refresh_seconds: float
    clock: Callable[[], float]
    timers: Timers
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
            self._wait(key, fact)
        elif is_paced:
            self._paced[key] = None
        else:
            self._record_or_wait(key, fact)

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
            fact = self._facts[key] = _Fact(event, None, state, state, (self.clock(),))
            self._wait(key, fact)

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
        self.timers.set(("event", key), None)
        self._paced.pop(key, None)
        return self._facts.pop(key, None) is not None

    def record_due(self) -> None:
        """Tell what had to wait, and again what is about to be deleted."""
        now = self.clock()
        for key, fact in self._facts.items():
            if not fact.told_at or key in self._paced:
                continue
            if fact.state != fact.told:
                self._record_or_wait(key, fact)
            elif now >= fact.told_at[-1] + self.refresh_seconds:
                self._record(key, fact)
        while self._paced and self._bucket.has_one():
            key = next(iter(self._paced))
            del self._paced[key]
            self._bucket.take_one()
            self._record_or_wait(key, self._facts[key])
        self.timers.set("paced events", self._bucket.full_at() if self._paced else None)

    def _record_or_wait(self, key: Hashable, fact: _Fact) -> None:
        if self.clock() < fact.next_at:
            self._wait(key, fact)
            return
        fact.told = fact.state
        self._record(key, fact)
        if fact.log is not None:
            fact.log(fact.event)

    def _record(self, key: Hashable, fact: _Fact) -> None:
        fact.told_at = (*fact.told_at[1 - AT_ONCE :], self.clock())
        self._wait(key, fact)
        self.record(fact.event)

    def _wait(self, key: Hashable, fact: _Fact) -> None:
        due = fact.told_at[-1] + self.refresh_seconds if fact.state == fact.told else fact.next_at
        self.timers.set(("event", key), due)


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
