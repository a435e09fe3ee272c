"""What the tests of the controller share: a clock that only a test moves."""

import pytest


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture
def clock():
    """A clock that stands still until `clock.now` is set."""
    return Clock()
