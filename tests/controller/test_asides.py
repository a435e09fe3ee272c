"""What a pass does beside deciding, and how it is tried again after a defect."""

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.faults import DefectLogger
from dra_operator.controller.asides import SideTask


class Work:
    """Work that counts how often it is done, and is broken as long as a test says so."""

    done, broken = 0, True

    def __call__(self):
        """Do it."""
        self.done += 1
        if self.broken:
            raise ZeroDivisionError


@pytest.fixture
def counted():
    """The defects that were logged."""
    return []


@pytest.fixture
def aside(clock, counted):
    """A side task that has met no defect."""
    return SideTask("work", clock, DefectLogger(counted.append))


def waits(aside, clock, work, count):
    """Do the work as often as it is due, and return how long it waited each time."""
    found = []
    for _ in range(count):
        aside.do(work)
        found.append(aside.next_due() - clock.now)
        clock.now = aside.next_due()
    return found


def test_each_defect_puts_it_off_for_longer_up_to_a_bound(aside, clock, counted):
    """However many there were; and each is counted."""
    with capture_logs():
        found = waits(aside, clock, Work(), 1100)

    assert found[:6] == [1, 2, 4, 8, 16, 30]
    assert set(found[6:]) == {30}
    assert len(counted) == 1100


def test_it_is_not_done_before_its_time(aside, clock):
    """Whatever else makes a pass necessary."""
    work = Work()
    aside.do(work)
    clock.now += 0.999
    aside.do(work)

    assert work.done == 1


def test_once_it_was_done_it_waits_for_nothing(aside, clock):
    """It is due when there is work, and the next defect is the first again."""
    work = Work()
    waits(aside, clock, work, 3)
    work.broken = False
    aside.do(work)

    assert aside.next_due() is None
    assert aside.next_due(5.0) == 5.0

    work.broken = True
    assert waits(aside, clock, work, 1) == [1]
