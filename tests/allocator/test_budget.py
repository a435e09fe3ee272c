"""The budget of an attempt, and of what is asked aside."""

import pytest

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError


def test_an_aside_has_no_more_time_than_the_attempt() -> None:
    """However late it begins."""
    now = 0.0
    budget = Budget(Limits(seconds=10.0), lambda: now)
    now = 9.0
    aside = budget.limited(steps=5, tries=5)
    aside.check_time()
    now = 10.5

    with pytest.raises(AbortedError, match="10 s"):
        aside.check_time()


def test_an_aside_takes_no_steps_of_the_attempt() -> None:
    """It has its own, which are fewer."""
    budget = Budget(Limits(steps=5), lambda: 0.0)
    aside = budget.limited(steps=2, tries=5)
    aside.step()
    aside.step()

    with pytest.raises(AbortedError, match="2 steps"):
        aside.step()
    assert budget.steps == 0
