"""Reports: what people are told about objects, once for each change and again before it is forgotten.

A pending claim, a broken class and a device that two claims hold have one thing in common: something is true
of an object for a while. People learn of it by an Event when it becomes true or changes, and the Event must
not expire while it is still true (the API server forgets Events after an hour). So whoever finds a fact
states it here, as often as it likes; what comes out is what must be said now.
"""

from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event to be recorded: `type` is Normal or Warning, `reason` is CamelCase, `message` one sentence."""

    subject: Subject
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Fact:
    notice: Notice
    sameness: Hashable
    told_at: float


class Reports:
    """The facts that hold right now, by key. `refresh` is in seconds."""

    def __init__(self, refresh: float) -> None:
        self._refresh = refresh
        self._facts: dict[Hashable, _Fact] = {}

    def state(self, key: Hashable, notice: Notice, sameness: Hashable, now: float) -> Notice | None:
        """State a fact; return the notice if it is news: a new subject, or one whose `sameness` has changed.

        A change of the message alone is no news, but the next refresh carries it.
        """
        fact = self._facts.get(key)
        if fact is not None and (fact.sameness, fact.notice.subject.uid) == (sameness, notice.subject.uid):
            fact.notice = notice
            return None
        self._facts[key] = _Fact(notice, sameness, now)
        return notice

    def known(self, key: Hashable, notice: Notice, sameness: Hashable, now: float) -> None:
        """State a fact that people were told of before, by an operator that ran before this one."""
        self._facts.setdefault(key, _Fact(notice, sameness, now))

    def clear(self, key: Hashable) -> bool:
        """State that nothing holds for `key` any more; return whether something did."""
        return self._facts.pop(key, None) is not None

    def due(self, now: float) -> list[Notice]:
        """Return the notices that must be told again, and count them as told."""
        notices = []
        for fact in self._facts.values():
            if now >= fact.told_at + self._refresh:
                fact.told_at = now
                notices.append(fact.notice)
        return notices

    def next_due(self) -> float | None:
        """Return when the next notice must be told again, by the clock, or None if nothing holds."""
        oldest = min((fact.told_at for fact in self._facts.values()), default=None)
        return None if oldest is None else oldest + self._refresh
