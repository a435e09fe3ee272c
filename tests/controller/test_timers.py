"""The heap of timers: when time alone makes a cycle necessary."""

import pytest

from dra_operator.controller.timers import Timers, TokenBucket


@pytest.fixture
def timers():
    """No timer yet."""
    return Timers()


def test_the_first_timer_that_ends_is_next(timers):
    """Whatever was set first; without a timer there is none."""
    assert timers.next_due() is None
    timers.set("late", 20)
    timers.set("soon", 10)

    assert timers.next_due() == 10


@pytest.mark.parametrize(
    ("due", "following"), [(30, 20), (None, 20), (5, 5)], ids=["later", "stopped", "sooner"]
)
def test_a_task_has_one_timer(timers, due, following):
    """Setting it again moves it."""
    timers.set("moved", 10)
    timers.set("other", 20)
    timers.set("moved", due)

    assert timers.next_due() == following


def test_a_timer_that_is_moved_back_and_forth_takes_no_memory(timers):
    """Of a timer that is moved the earlier entries are dropped."""
    for number in range(10_000):
        timers.set("task", 1000 + number % 7)

    assert len(timers._heap) < 100


def test_a_bucket_gives_its_rate_and_then_waits_until_it_is_full(clock):
    """One wait for several tokens: a cycle for each would be too many."""
    bucket = TokenBucket(10, clock)
    for _ in range(10):
        assert bucket.has_one()
        bucket.take_one()

    assert not bucket.has_one()
    assert bucket.full_at() == clock.now + 1
    clock.now += 0.1
    assert bucket.has_one()
