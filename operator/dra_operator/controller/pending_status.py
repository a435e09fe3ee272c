"""The status of claims that wait: their annotation `dra-operator.io/pending`, and Events, each with the same text.

An Event is recorded when the reason changes; the numbers in the text move with every slice, and reach the annotation
alone, rate-limited by a token bucket. A reason that flaps is recorded with exponential back-off until it has held for a
while: a driver that publishes its slices many times a second makes its pool incomplete each time.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field

from dra_operator.allocator.decision import claim_key
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.backoff import doubled
from dra_operator.controller.claims import Key, annotation
from dra_operator.controller.event_dedup import EventDeduplicator, EventRequest, Subject, one_line, warning
from dra_operator.controller.timers import Timers, TokenBucket

AT_ONCE = 3
"""So many changes of a reason in a row are recorded as they come."""
FLAPPING = (10.0, 60.0)
"""First and longest time, in seconds, from one change that is recorded to the next, where there are more."""
CALM = 120.0
"""A reason that has held for so long, in seconds, does not flap."""
REFUSED = 600.0
"""Longest pause, in seconds, of an annotation that the API server does not accept."""


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
class _ClaimStatus:
    """What is said of one claim, by its annotation and by Events.

    The annotation is `urgent` while it says nothing yet, or a reason that held for long and has just changed. It is
    `pending` while it is not right, and `settled` if it was found to be, and neither claim nor text has changed since.
    `refusals` is how often in a row the API server did not accept it.
    `recorded_at` is when an Event had the reason; `rapid_changes` how many in a row came before the last was calm.
    """

    uid: str
    why: PendingReason
    urgent: bool = True
    changed_at: float = float("-inf")
    written_at: float = float("-inf")
    refusals: int = 0
    pending: bool = False
    settled: bool = False
    recorded_at: float = float("-inf")
    rapid_changes: int = 0

    @property
    def next_event_at(self) -> float:
        """When an Event may have another reason."""
        if self.rapid_changes < AT_ONCE:
            return self.recorded_at
        return self.recorded_at + doubled(*FLAPPING, self.rapid_changes - AT_ONCE)


@dataclass(slots=True)
class PendingStatus:
    """What is to be said, and was said, about waiting claims.

    A claim's first annotation is due at once, and so is a change of its reason, unless the one before is less
    than `pause` seconds old. Every other annotation waits until the last of its claim is `pause` seconds old,
    and for its turn: of these there are at most `rate` a second, those that were written longest ago first. One that is
    refused waits twice as long each time.
    """

    events: EventDeduplicator
    clock: Callable[[], float]
    timers: Timers
    pause: float = 10.0
    rate: InitVar[float] = 10.0
    _bucket: TokenBucket = field(init=False)
    _claims: dict[Key, _ClaimStatus] = field(default_factory=dict)
    """In the order in which they were written last."""
    _late: dict[Key, None] = field(default_factory=dict)
    """The claims whose reason may have changed since their last Event, and could not be recorded yet."""
    _since: dict[Key, float] = field(default_factory=dict)
    """When each claim that waits began to, by the clock, in that order."""

    def __post_init__(self, rate: float) -> None:
        self._bucket = TokenBucket(rate, self.clock)

    # --- since when

    def begin(self, key: Key) -> None:
        """State that a claim waits, since now unless it did before."""
        self._since.setdefault(key, self.clock())

    def end(self, key: Key) -> float:
        """State that a claim waits no more; return for how many seconds it did."""
        now = self.clock()
        return now - self._since.pop(key, now)

    def counts(self) -> dict[str, tuple[int, float | None]]:
        """Return how many claims wait for each reason, and when the first of them began to, by the clock."""
        counts = Counter([status.why.reason for status in self._claims.values()])
        since = dict[str, float]()
        for key, begun in self._since.items():
            if len(since) == len(counts):
                break
            if (reason := self.reason(key)) is not None:
                since.setdefault(reason, begun)
        return {reason: (count, since.get(reason)) for reason, count in counts.items()}

    def reason(self, key: Key) -> str | None:
        """Return the reason for which a claim waits, or None if it does not, or nothing was said of it yet."""
        status = self._claims.get(key)
        return None if status is None else status.why.reason

    # --- Events

    def set(self, claim: ResourceClaim, why: PendingReason) -> EventRequest | None:
        """State why a claim waits; return the Event if the reason is news, and need not wait for its turn."""
        key, uid = claim_key(claim), claim.metadata.uid
        now = self.clock()
        self._drop_other(key, uid)
        status = self._claims.get(key)
        is_first = status is None
        if status is None:
            status = self._claims[key] = _ClaimStatus(uid, why)
        else:
            if status.why.dedup_key != why.dedup_key:
                status.urgent = status.urgent or now - status.changed_at >= self.pause
                status.changed_at = now
            status.why, status.settled = why, False
        if is_first and annotation(claim) == one_line(why.message):
            # An operator that ran before this one has said so.
            status.urgent = False
            self.events.set_known(("waiting", key), _event(key, status), why.dedup_key)
            return None
        return self._news(key, status)

    def pop_late(self) -> list[EventRequest]:
        """Return the Events that had to wait for their turn and need no longer."""
        now = self.clock()
        due = [key for key in self._late if self._claims[key].next_event_at <= now]
        return [event for key in due if (event := self._news(key, self._claims[key])) is not None]

    def repeat(self, key: Key) -> None:
        """Record the Event of a claim that waits once more, after another one that is over."""
        if status := self._claims.get(key):
            self.events.record(_event(key, status))

    def clear(self, key: Key) -> None:
        """State that the claim has what it wants, is gone, or is no longer ours."""
        if self._claims.pop(key, None) is not None:
            self._set_late(key, None)
            self.events.clear(("waiting", key))

    # --- the annotation

    def start_allocation(self, key: Key, uid: str) -> None:
        """State that devices are being written to a claim that waits; it waits until that has succeeded.

        Meanwhile nothing else can be written, and the write takes the annotation off.
        """
        self._drop_other(key, uid)
        if status := self._claims.get(key):
            status.urgent, status.pending = True, False

    def due_annotation(self, claim: ResourceClaim) -> str | None:
        """Return the text that the annotation must be set to now, or None if it is right or may still wait."""
        status = self._claims.get(claim_key(claim))
        if status is None or status.uid != claim.metadata.uid:
            return None
        text = one_line(status.why.message)
        status.pending = annotation(claim) != text
        if not status.pending:
            status.urgent, status.settled, status.refusals = False, True, 0
            return None
        is_urgent = status.urgent and not status.refusals
        return text if is_urgent or self._due_at(status) <= self.clock() else None

    def mark_written(self, key: Key) -> None:
        """Take in that an annotation was sent."""
        status = self._claims.pop(key, None)
        if status is None:
            return
        if not status.urgent:
            self._bucket.take_one()
        status.urgent, status.pending, status.written_at = False, False, self.clock()
        self._claims[key] = status

    def mark_refused(self, key: Key) -> int:
        """Take in that the API server did not accept an annotation: it will hardly accept the next one.

        Return how often in a row it did not.
        """
        if (status := self._claims.get(key)) is None:
            return 0
        status.refusals += 1
        status.urgent = status.settled = False
        return status.refusals

    def mark_accepted(self, key: Key) -> None:
        """Take in that the API server accepted an annotation, also if another text is due by now."""
        if status := self._claims.get(key):
            status.refusals = 0

    def mark_changed(self, key: Key) -> None:
        """Take in that a claim has changed, and its annotation perhaps."""
        if status := self._claims.get(key):
            status.settled = False

    def give_up(self, key: Key) -> None:
        """Take an annotation for right until its claim or its text changes, since it cannot be kept."""
        if status := self._claims.get(key):
            status.settled, status.pending = True, False

    def unsettled(self) -> list[Key]:
        """Return the claims whose annotation may not be right, those first of which it was written longest ago."""
        return [key for key, status in self._claims.items() if not status.settled]

    def set_timer(self) -> None:
        """Have a cycle run when the next annotation may be written."""
        due = [self._due_at(status) for status in self._claims.values() if status.pending]
        self.timers.set("annotations", min(due, default=None))

    def _due_at(self, status: _ClaimStatus) -> float:
        """Return when an annotation that is not urgent may be written."""
        pause = doubled(self.pause, max(REFUSED, self.pause), status.refusals)
        # One wait for several turns: a cycle for each would be ten a second.
        return max(status.written_at + pause, self._bucket.full_at())

    def _drop_other(self, key: Key, uid: str) -> None:
        """Forget why a claim of another uid waited, which was deleted, and created again in the meantime."""
        status = self._claims.get(key)
        if status is not None and status.uid != uid:
            self.clear(key)

    def _news(self, key: Key, status: _ClaimStatus) -> EventRequest | None:
        """Return the Event of a reason that is news, unless reasons change so fast that it has to wait for its turn."""
        now = self.clock()
        if now < status.next_event_at:
            self._set_late(key, status)
            return None
        self._set_late(key, None)
        news = self.events.state(("waiting", key), _event(key, status), status.why.dedup_key)
        if news is not None:
            status.rapid_changes = status.rapid_changes + 1 if now < status.recorded_at + CALM else 0
            status.recorded_at = now
        return news

    def _set_late(self, key: Key, status: _ClaimStatus | None) -> None:
        self._late.pop(key, None)
        if status is not None:
            self._late[key] = None
        self.timers.set(("late event", key), None if status is None else status.next_event_at)


def _event(key: Key, status: _ClaimStatus) -> EventRequest:
    return warning(Subject("ResourceClaim", *key, status.uid), status.why.reason, status.why.message)
