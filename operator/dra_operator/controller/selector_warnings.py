"""Warnings of selectors that fail on devices which the search of an allocated claim did not reach.

kube-scheduler would have refused the claim, and here the next one like it waits once the devices before those are in
use: whoever wrote the selector should know now. Claims are looked at after decisions are handed over, one at least and
then for a tenth of the time at most, as nobody waits for it.
"""

from collections.abc import Callable

from dra_operator.allocator import Allocator, Reason
from dra_operator.controller import messages
from dra_operator.controller.desk import Desk
from dra_operator.controller.reports import Notice
from dra_operator.controller.telling import one_line, subject_of

SECONDS = 0.02
"""How long a pass looks at claims; one of them may take longer."""
PAUSE = 10
"""How many times as long as it took nothing is looked at afterwards."""


class SelectorWarnings:
    """Has an Event recorded for each claim whose allocation was just stored and whose selectors fail on a device."""

    def __init__(self, desk: Desk, allocator: Allocator, clock: Callable[[], float]) -> None:
        self._desk = desk
        self._allocator = allocator
        self._clock = clock
        self._again_at = float("-inf")

    def report(self) -> None:
        """Look at some of the claims."""
        stored, started = self._desk.stored, self._clock()
        if not stored or started < self._again_at:
            return
        now = started
        while stored and now < started + SECONDS:
            key, uid = stored.popleft()
            claim = self._desk.book.get(key)
            if claim is not None and claim.metadata.uid == uid:
                for text in self._allocator.find_failing(claim):
                    message = one_line(f"{text}; {messages.NOT_REACHED}")
                    reason = Reason.SELECTOR_FAILED.value
                    self._desk.say(Notice(subject_of(claim), "Warning", reason, message))
            now = self._clock()
        self._again_at = now + PAUSE * (now - started)

    def next_due(self) -> float | None:
        """Return when the next claim is to be looked at, by the clock; None if there is none."""
        return max(self._again_at, self._clock()) if self._desk.stored else None
