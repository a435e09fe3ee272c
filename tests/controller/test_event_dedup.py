"""What people are told, once for each change and again before it is forgotten."""

import pytest

from dra_operator.controller.event_dedup import EventDeduplicator, EventRequest, Subject
from dra_operator.controller.timers import Timers

CLAIM = Subject("ResourceClaim", "team-a", "gpu", "uid-1")


def event(message="no device", subject=CLAIM):
    """A warning about the claim."""
    return EventRequest(subject, "Warning", "NoDevices", message)


class Events(EventDeduplicator):
    """Events that are refreshed after 100 seconds, and what was recorded."""

    def __init__(self, clock):
        self.clock, self.timers, self.recorded = clock, Timers(), []
        super().__init__(100, clock, self.timers, self.recorded.append)

    def state_at(self, now, key, event, dedup_key):
        """State a fact at a time."""
        self.clock.now = now
        return self.state(key, event, dedup_key)

    def refreshed_at(self, now):
        """Return what is recorded again at a time."""
        self.clock.now = now
        self.recorded.clear()
        self.refresh()
        return self.recorded


@pytest.fixture
def events(clock):
    """No fact yet, at the beginning of time."""
    clock.now = 0.0
    return Events(clock)


def test_a_fact_is_told_once(events):
    """Stating the same fact again is no news."""
    assert events.state_at(0, "key", event(), "NoDevices") == event()
    assert events.state_at(1, "key", event(), "NoDevices") is None


def test_a_change_of_the_message_alone_waits_for_the_refresh(events):
    """Numbers move; the reason has not."""
    events.state_at(0, "key", event("16 devices"), "NoDevices")

    assert events.state_at(1, "key", event("15 devices"), "NoDevices") is None
    assert events.refreshed_at(100) == [event("15 devices")]


def test_another_reason_is_news(events):
    """What makes a fact another one is told at once."""
    events.state_at(0, "key", event(), "NoDevices")

    assert events.state_at(1, "key", event(), "DeviceInUse") == event()


def test_a_recreated_object_is_told_anew(events):
    """Another uid is another object, whatever its name."""
    events.state_at(0, "key", event(), "NoDevices")
    again = event(subject=Subject("ResourceClaim", "team-a", "gpu", "uid-2"))

    assert events.state_at(1, "key", again, "NoDevices") == again


def test_a_fact_is_refreshed_while_it_holds(events):
    """An Event that is still true does not expire."""
    events.state_at(0, "key", event(), "NoDevices")

    assert events.refreshed_at(99) == []
    assert events.refreshed_at(100) == [event()]
    assert events.refreshed_at(101) == []
    assert events.timers.next_due() == 200


def test_a_fact_that_no_longer_holds_is_not_refreshed(events):
    """What was cleared is forgotten, and news if it comes back."""
    events.state_at(0, "key", event(), "NoDevices")
    events.clear("key")

    assert events.refreshed_at(1000) == []
    assert events.state_at(1000, "key", event(), "NoDevices") == event()


def test_what_an_earlier_operator_told_is_no_news(events):
    """A fact known from before is refreshed in time, and not told at once."""
    events.set_known("key", event(), "NoDevices")

    assert events.state_at(1, "key", event(), "NoDevices") is None
    assert events.refreshed_at(100) == [event()]
