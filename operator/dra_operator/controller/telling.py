"""Telling: what a person can read about a claim that waits.

Two places, one text: the annotation on the claim holds what is true now and is read by scripts and `kubectl
get`; an Event says when it changed and is read by `kubectl describe`. The reason decides when there is
something new to say: the numbers in the text move with every slice, and an Event for each of them would drown
the one that matters, so those reach the annotation alone, not more often than every few seconds, and all
claims together at a bounded rate: they count what is in the whole cluster, so one change makes the text of
every waiting claim another one.

A reason can flap as well: a driver that publishes its slices anew many times a second makes its pool incomplete each
time, and that is another reason for each claim. So the first few changes are told at once, and then one at a time,
later each time, until the reason has held for a while; what is told is how things are then.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.backoff import doubled
from dra_operator.cluster.events import shorten
from dra_operator.controller.claims import Key, annotation
from dra_operator.controller.reports import Notice, Reports, Subject

AT_ONCE = 3
"""So many changes of a reason in a row are told as they come."""
FLAPPING = (10.0, 60.0)
"""First and longest time, in seconds, from one change that is told to the next, where there are more."""
CALM = 120.0
"""A reason that has held for so long, in seconds, does not flap."""
REFUSED = 600.0
"""Longest pause, in seconds, of an annotation that the API server does not take."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a claim waits: a reason of docs/reasons.md, the request or right it is about, and one line of text."""

    reason: str
    about: str | None
    message: str


@dataclass(slots=True)
class _Told:
    """What is told of one claim, by its annotation and by Events.

    The annotation is `urgent` while it says nothing yet, or a reason that held for long and has just changed. It is
    `pending` while it is not right, and `settled` if it was found to be, and neither claim nor text has changed since.
    `refusals` is how often in a row the API server did not take it.
    `said_at` is when an Event told the reason; `hasty` how many in a row did so before the one before them was calm.
    """

    uid: str
    waiting: Waiting
    urgent: bool = True
    changed_at: float = float("-inf")
    written_at: float = float("-inf")
    refusals: int = 0
    pending: bool = False
    settled: bool = False
    said_at: float = float("-inf")
    hasty: int = 0

    @property
    def turn(self) -> float:
        """When an Event may tell another reason."""
        if self.hasty < AT_ONCE:
            return self.said_at
        return self.said_at + doubled(*FLAPPING, self.hasty - AT_ONCE)


class Telling:
    """What is to be said, and was said, about waiting claims.

    A claim's first annotation is due at once, and so is a change of its reason, unless the one before is less
    than `pause` seconds old. Every other annotation waits until the last of its claim is `pause` seconds old,
    and for its turn: of these there are at most `rate` a second, those that were written longest ago first. One that is
    refused waits twice as long each time.
    """

    def __init__(
        self, reports: Reports, clock: Callable[[], float], pause: float = 10.0, rate: float = 10.0
    ) -> None:
        self.events_delivered_up_to: str | None = None
        """The version up to which an Event has told what annotations say; None: nobody knows of any that has not."""
        self._reports = reports
        self._clock = clock
        self._pause = pause
        self._rate = rate
        self._tokens = rate
        self._tokens_at = clock()
        self._told: dict[Key, _Told] = {}
        """In the order in which they were written last."""
        self._late: dict[Key, None] = {}
        """The claims whose reason may have changed since the Event that told it, and could not be told yet."""

    def waits(self, claim: ResourceClaim, waiting: Waiting) -> Notice | None:
        """State why a claim waits; return the Event if the reason is news, and need not wait for its turn."""
        key, uid = claim_key(claim), claim.metadata.uid
        now = self._clock()
        self._only(key, uid)
        told = self._told.get(key)
        first = told is None
        if told is None:
            told = self._told[key] = _Told(uid, waiting)
        else:
            if _sameness(told.waiting) != _sameness(waiting):
                told.urgent = told.urgent or now - told.changed_at >= self._pause
                told.changed_at = now
            told.waiting, told.settled = waiting, False
        if first and annotation(claim) == one_line(waiting.message):
            # An operator that ran before this one has said so, but maybe could not send the Event any more.
            told.urgent = False
            if not _is_newer(claim.metadata.resource_version, self.events_delivered_up_to):
                self._reports.known(("waiting", key), _notice(key, told), _sameness(waiting), now)
                return None
        return self._say(key, told)

    def late(self) -> list[Notice]:
        """Return the Events that had to wait for their turn and need no longer."""
        now = self._clock()
        due = [key for key in self._late if self._told[key].turn <= now]
        return [notice for key in due if (notice := self._say(key, self._told[key])) is not None]

    def once_more(self, key: Key) -> Notice | None:
        """Return the Event of a claim that waits, to be told after another one that is over; None if it does not."""
        told = self._told.get(key)
        return None if told is None else _notice(key, told)

    def waits_no_more(self, key: Key) -> None:
        """State that the claim has what it wants, is gone, or is no longer ours."""
        if self._told.pop(key, None) is not None:
            self._late.pop(key, None)
            self._reports.clear(("waiting", key))

    def under_way(self, key: Key, uid: str) -> None:
        """Note that devices are being written to a claim that waits; it waits until that has succeeded.

        Meanwhile nothing else can be written, and the write takes the annotation off.
        """
        self._only(key, uid)
        if told := self._told.get(key):
            told.urgent, told.pending = True, False

    def annotation_due(self, claim: ResourceClaim) -> str | None:
        """Return the text that the annotation must be set to now, or None if it is right or may still wait."""
        told = self._told.get(claim_key(claim))
        if told is None or told.uid != claim.metadata.uid:
            return None
        text = one_line(told.waiting.message)
        told.pending = annotation(claim) != text
        if not told.pending:
            told.urgent, told.settled, told.refusals = False, True, 0
            return None
        urgent = told.urgent and not told.refusals
        return text if urgent or self._due_at(told) <= self._clock() else None

    def written(self, key: Key) -> None:
        """Note that an annotation was sent."""
        told = self._told.pop(key, None)
        if told is None:
            return
        if not told.urgent:
            self._tokens, self._tokens_at = self._left() - 1, self._clock()
        told.urgent, told.pending, told.written_at = False, False, self._clock()
        self._told[key] = told

    def refused(self, key: Key) -> int:
        """Note that the API server did not take an annotation: it will hardly take the next one, whatever that says.

        Return how often in a row it did not.
        """
        if (told := self._told.get(key)) is None:
            return 0
        told.refusals += 1
        told.urgent = told.settled = False
        return told.refusals

    def accepted(self, key: Key) -> None:
        """Note that the API server took an annotation, also if another text is due by now."""
        if told := self._told.get(key):
            told.refusals = 0

    def next_due(self) -> float | None:
        """Return when an annotation or Event that has to wait may be written, by the clock; None if there is none."""
        annotations = [self._due_at(told) for told in self._told.values() if told.pending]
        return min([*annotations, *(self._told[key].turn for key in self._late)], default=None)

    def look_again(self, key: Key) -> None:
        """Note that a claim has changed, and its annotation perhaps."""
        if told := self._told.get(key):
            told.settled = False

    def give_up(self, key: Key) -> None:
        """Take an annotation for right until its claim or its text changes, since it cannot be kept."""
        if told := self._told.get(key):
            told.settled, told.pending = True, False

    def unsettled(self) -> list[Key]:
        """Return the claims whose annotation may not be right, those first of which it was written longest ago."""
        return [key for key, told in self._told.items() if not told.settled]

    def _only(self, key: Key, uid: str) -> None:
        """Forget why a claim of another uid waited, which was deleted, and made anew in the meantime."""
        told = self._told.get(key)
        if told is not None and told.uid != uid:
            self.waits_no_more(key)

    def _say(self, key: Key, told: _Told) -> Notice | None:
        """Return the Event of a reason that is news, unless reasons change so fast that it has to wait for its turn."""
        now = self._clock()
        self._late.pop(key, None)
        if now < told.turn:
            self._late[key] = None
            return None
        news = self._reports.state(("waiting", key), _notice(key, told), _sameness(told.waiting), now)
        if news is not None:
            told.hasty = told.hasty + 1 if now < told.said_at + CALM else 0
            told.said_at = now
        return news

    def _due_at(self, told: _Told) -> float:
        """Return when an annotation that is not urgent may be written."""
        now, left = self._clock(), self._left()
        # One wait for several turns: a pass for each would be ten a second.
        turn = now if left >= 1 else now + (self._rate - left) / self._rate
        pause = doubled(self._pause, max(REFUSED, self._pause), told.refusals)
        return max(told.written_at + pause, turn)

    def _left(self) -> float:
        """Return how many annotations may be written now."""
        return min(self._rate, self._tokens + (self._clock() - self._tokens_at) * self._rate)

    def reasons(self) -> Counter[str]:
        """Return how many claims wait for each reason."""
        return Counter([told.waiting.reason for told in self._told.values()])

    def reason(self, key: Key) -> str | None:
        """Return the reason for which a claim waits, or None if it does not, or nothing was said of it yet."""
        told = self._told.get(key)
        return None if told is None else told.waiting.reason


def _is_newer(version: str, than: str | None) -> bool:
    """Return whether a version is newer than another one; the API server compares them as numbers."""
    return than is not None and (len(version), version) > (len(than), than)


def _notice(key: Key, told: _Told) -> Notice:
    subject, waiting = Subject("ResourceClaim", *key, told.uid), told.waiting
    return Notice(subject, "Warning", waiting.reason, one_line(waiting.message))


def _sameness(waiting: Waiting) -> tuple[str, str | None]:
    """Return what makes a reason another one."""
    return waiting.reason, waiting.about


def subject_of(claim: ResourceClaim) -> Subject:
    """Return the claim as the subject of an Event."""
    metadata = claim.metadata
    return Subject("ResourceClaim", metadata.namespace, metadata.name, metadata.uid)


def one_line(text: str) -> str:
    """Return the text on one line, and short enough for an Event."""
    return shorten(" ".join(text.split()))
