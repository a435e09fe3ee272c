"""Trials: decisions of edited situations, bounded in number and time."""

from dataclasses import dataclass, replace
from typing import Final

from dra_operator.allocator import Allocated, Decision, Failed
from dra_operator.pods.request_parts import find_parts, is_monotone
from dra_operator.pods.situation import LIMITS, Claims, Situation

_LEAST_SECONDS: Final = 0.01


class ExhaustedError(Exception):
    """No more decisions may be made."""


@dataclass(slots=True)
class Trials:
    """Decisions of edited situations, at most `left` of them until `deadline` by the allocator's clock.

    `is_complete`: each was made to its end, so that what did not fit does not.
    """

    situation: Situation
    left: int
    deadline: float
    is_complete: bool = True

    def decide(self, edited: Situation) -> Decision:
        """Decide an edited situation. Raises ExhaustedError if no more decisions may be made."""
        self.check_time()
        if self.left <= 0:
            self.is_complete = False
            raise ExhaustedError
        self.left -= 1
        left = max(self.deadline - self.situation.allocator.clock(), _LEAST_SECONDS)
        decision = edited.decide(replace(LIMITS, seconds=min(left, LIMITS.seconds or left)))
        if isinstance(decision, Failed) and decision.kind == "aborted":
            self.is_complete = False
        return decision

    def decide_claims(self, claims: Claims) -> Decision:
        """Decide the situation with other claims. Raises ExhaustedError."""
        return self.decide(replace(self.situation, claims=claims))

    def cannot_help(self, least: Claims) -> bool:
        """Return whether no edit of some kind helps, as claims do not fit that ask for less than any edit leaves.

        Nothing follows from an error: another edit may avoid it. Raises ExhaustedError.
        """
        decision = self.decide_claims(least)
        return not isinstance(decision, Allocated | Failed) and is_monotone(find_parts(least))

    def fit(self, claims: Claims) -> bool:
        """Return whether other claims fit. Raises ExhaustedError."""
        return isinstance(self.decide_claims(claims), Allocated)

    def check_time(self) -> None:
        """Raise ExhaustedError if the time is used up."""
        if self.situation.allocator.clock() > self.deadline:
            self.is_complete = False
            raise ExhaustedError
