"""Events about what is true of an object for a while: recorded when it becomes true or changes, and refreshed.

The API server deletes Events after an hour, so one that is still true is recorded again before. Whoever finds a fact
states it as often as it likes.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.events import shorten
from dra_operator.controller import messages
from dra_operator.controller.logs import get_logger
from dra_operator.controller.timers import Timers

log = get_logger()


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class EventRequest:
    """An Event to be recorded: `type` is Normal or Warning, `reason` is CamelCase, `message` one sentence."""

    subject: Subject
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Fact:
    event: EventRequest
    dedup_key: Hashable
    recorded_at: float


@dataclass(slots=True)
class EventDeduplicator:
    """The facts that hold right now, by key. `record` has an Event recorded."""

    refresh_seconds: float
    clock: Callable[[], float]
    timers: Timers
    record: Callable[[EventRequest], None]
    _facts: dict[Hashable, _Fact] = field(default_factory=dict)

    def state(self, key: Hashable, event: EventRequest, dedup_key: Hashable) -> EventRequest | None:
        """State a fact; return its Event if it is news: a new subject, or one whose `dedup_key` has changed.

        A change of the message alone is no news, but the next refresh carries it.
        """
        fact = self._facts.get(key)
        if fact is not None and (fact.dedup_key, fact.event.subject.uid) == (dedup_key, event.subject.uid):
            fact.event = event
            return None
        self._set(key, _Fact(event, dedup_key, self.clock()))
        return event

    def report(self, key: Hashable, event: EventRequest, dedup_key: Hashable) -> EventRequest | None:
        """State a fact, and record its Event if it is news; return that."""
        if (news := self.state(key, event, dedup_key)) is not None:
            self.record(news)
        return news

    def report_problem(
        self, key: Hashable, subject: Subject, reason: str, message: str, dedup_key: Hashable = None
    ) -> None:
        """Report and log what is wrong with an object; news is another `dedup_key`, or else reason or message."""
        event = warning(subject, reason, message)
        news = self.report(key, event, (reason, message) if dedup_key is None else dedup_key)
        if news is not None:
            name = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
            log.warning(messages.PROBLEM, kind=subject.kind, object=name, reason=reason, why=news.message)

    def set_known(self, key: Hashable, event: EventRequest, dedup_key: Hashable) -> None:
        """State a fact that an operator before this one has recorded."""
        if key not in self._facts:
            self._set(key, _Fact(event, dedup_key, self.clock()))

    def clear(self, key: Hashable) -> bool:
        """State that nothing holds for `key` any more; return whether something did."""
        self.timers.set(("event", key), None)
        return self._facts.pop(key, None) is not None

    def refresh(self) -> None:
        """Record the Events again that are about to expire."""
        now = self.clock()
        for key, fact in self._facts.items():
            if now >= fact.recorded_at + self.refresh_seconds:
                fact.recorded_at = now
                self._set(key, fact)
                self.record(fact.event)

    def _set(self, key: Hashable, fact: _Fact) -> None:
        self._facts[key] = fact
        self.timers.set(("event", key), fact.recorded_at + self.refresh_seconds)


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
