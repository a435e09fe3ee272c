"""What the log says of Events that have to wait, or are not permitted."""

from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from dra_operator.cluster.session import ApiError
from dra_operator.controller.watch_health import RETRY_SECONDS, EventDelivery

DENIED = ApiError(403, "Forbidden", "no", verb="create", resource="events")


@dataclass
class Recorder:
    """A recorder of Events, as far as it is asked."""

    forbidden: ApiError | None = None
    trouble: str = ""
    troubles: int = 0
    pending: int = 0
    tries: int = 0

    def try_again(self):
        """Count how often it is tried whether Events are permitted."""
        self.tries += 1


class Night:
    """A recorder, a look at it every two seconds, and the lines that they lead to."""

    def __init__(self, clock):
        self.clock, self.recorder = clock, Recorder()
        self.delivery = EventDelivery(self.recorder, clock)

    def fail(self, why="503"):
        """Have an Event wait."""
        self.recorder.trouble = why
        self.recorder.troubles += 1
        self.recorder.pending = 7

    def lines(self, times=1):
        """Look, every two seconds, and return what was logged."""
        with capture_logs() as logs:
            for _ in range(times):
                self.clock.now += 2.0
                self.delivery.check()
        return logs

    def look(self, times=1):
        """Look, and return of what was logged the level, and why and how many, or how long it was."""
        logs = self.lines(times)
        return [
            (line["log_level"], *((line["why"], line["events"]) if "why" in line else (line["seconds"],)))
            for line in logs
        ]


@pytest.fixture
def night(clock):
    """All is well."""
    return Night(clock)


def test_an_api_server_that_fails_now_and_then_gives_a_line_when_it_begins(night):
    """And none for each Event."""
    told = []
    for _ in range(30):
        night.fail()
        told += night.look(5)

    assert told == [("warning", "503", 7)]


def test_as_long_as_it_lasts_it_is_told_every_ten_minutes(night):
    """With what it is by then."""
    night.fail()
    assert night.look() == [("warning", "503", 7)]
    told = []
    for _ in range(41):
        night.fail("cut")
        told += night.look(15)

    assert told == [("warning", "cut", 7)] * 2


def test_that_events_are_not_permitted_is_told_once_and_so_is_the_grant(night):
    """What is denied after that is told anew."""
    told = []
    for forbidden in (DENIED, None, DENIED):
        night.recorder.forbidden = forbidden
        told += night.lines(10)

    assert [(line["event"], line["verb"], line["resource"]) for line in told] == [
        ("forbidden", "create", "events"),
        ("permitted again", "create", "events"),
        ("forbidden", "create", "events"),
    ]


def test_whether_events_are_permitted_is_tried_every_half_minute(night):
    """Not with each look, and no longer than it is denied."""
    night.recorder.forbidden = DENIED
    night.lines()
    tries = []
    for _ in range(3):
        night.lines(int(RETRY_SECONDS / 2) - 1)
        tries.append(night.recorder.tries)
        night.lines()
    assert tries == [0, 1, 2]

    night.recorder.forbidden = None
    night.lines(100)
    assert night.recorder.tries == 3
