"""When time alone makes a cycle necessary, and what is tried again after a defect."""

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.faults import DefectLogger
from dra_operator.controller.queue import BestEffortTask, Timers, TokenBucket


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


class Work:
    """Work that counts how often it is done, and is broken as long as a test says so."""

    done, broken, due = 0, True, None

    def __call__(self):
        """Do it, and return when it is due again."""
        self.done += 1
        if self.broken:
            raise ZeroDivisionError
        return self.due


@pytest.fixture
def counted():
    """The defects that were logged."""
    return []


@pytest.fixture
def task(clock, timers, counted):
    """A task that has met no defect."""
    return BestEffortTask("work", clock, timers, DefectLogger(counted.append))


@pytest.fixture
def waits(task, timers, clock):
    """Do the work as often as it is due, and return how long it waited each time."""

    def wait(work, count):
        found = []
        for _ in range(count):
            task.run(work)
            found.append(timers.next_due() - clock.now)
            clock.now = timers.next_due()
        return found

    return wait


def test_each_defect_puts_it_off_for_longer_up_to_a_bound(waits, counted):
    """However many there were; and each is counted."""
    with capture_logs():
        found = waits(Work(), 1100)

    assert found[:6] == [1, 2, 4, 8, 16, 30]
    assert set(found[6:]) == {30}
    assert len(counted) == 1100


def test_once_it_was_done_it_waits_for_nothing_but_its_own_time(task, timers, waits):
    """It is due when there is work, and the next defect is the first again."""
    work = Work()
    waits(work, 3)
    work.broken = False
    task.run(work)
    assert timers.next_due() is None
    work.due = 5.0
    task.run(work)
    assert timers.next_due() == 5.0
    work.broken = True
    assert waits(work, 1) == [1]
