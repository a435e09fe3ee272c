"""Warnings of selectors that fail on devices which the search of an allocated claim did not reach.

kube-scheduler would have refused the claim, and here the next one like it waits once the devices before those are in
use. Claims are checked after decisions are handed over, for a tenth of the time at most, as nobody waits for it.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from dra_operator.allocator import Allocator, Reason
from dra_operator.controller import messages
from dra_operator.controller.claims import ClaimStore, Key
from dra_operator.controller.event_dedup import EventDeduplicator, subject_of, warning

SECONDS = 0.02
"""How long a cycle looks at claims; one of them may take longer."""
MOST_STORED = 4096
"""Of more claims that were allocated at once the first ones are not looked at any further."""
PAUSE = 10
"""How many times as long as it took nothing is looked at afterwards."""


@dataclass(slots=True)
class SelectorWarnings:
    """Has an Event recorded for each claim whose allocation was just stored and whose selectors fail on a device."""

    claims: ClaimStore
    events: EventDeduplicator
    allocator: Allocator
    clock: Callable[[], float]
    _stored: deque[tuple[Key, str]] = field(default_factory=lambda: deque(maxlen=MOST_STORED))
    _again_at: float = float("-inf")

    def add(self, key: Key, uid: str) -> None:
        """Have the selectors of a claim looked at whose allocation was just stored."""
        self._stored.append((key, uid))

    def report(self) -> float | None:
        """Look at some of the claims; return when the next one is to be looked at."""
        started = self.clock()
        if self._stored and started >= self._again_at:
            now = started
            while self._stored and now < started + SECONDS:
                self._check(*self._stored.popleft())
                now = self.clock()
            self._again_at = now + PAUSE * (now - started)
        return max(self._again_at, self.clock()) if self._stored else None

    def _check(self, key: Key, uid: str) -> None:
        claim = self.claims.get(key)
        if claim is not None and claim.metadata.uid == uid:
            for text in self.allocator.find_failing(claim):
                message = f"{text}; {messages.NOT_REACHED}"
                self.events.record(warning(subject_of(claim), Reason.SELECTOR_FAILED.value, message))
