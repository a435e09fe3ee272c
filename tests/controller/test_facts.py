"""What people are told, once for each change and again before it is forgotten."""

import pytest

from dra_operator.cluster.events import Subject
from dra_operator.controller.facts import EventRequest, Facts

CLAIM = Subject("ResourceClaim", "team-a", "gpu", "uid-1")


def event(message="no device", subject=CLAIM):
    """A warning about the claim."""
    return EventRequest(subject, "Warning", "NoDevices", message)


class Events(Facts):
    """Events that are refreshed after 100 seconds, and what was recorded."""

    def __init__(self, clock):
        self.clock, self.recorded = clock, []
        super().__init__(100, clock, self.recorded.append)

    def stated_at(self, now, event, dedup_key, **how):
        """State a fact at a time, and return what is recorded at once."""
        self.clock.now = now
        self.recorded.clear()
        self.report("key", event, dedup_key, **how)
        return self.recorded[:]

    def told_at(self, now):
        """Return what is recorded later, at a time."""
        self.clock.now = now
        self.recorded.clear()
        self.record_due()
        return self.recorded[:]


@pytest.fixture
def events(clock):
    """No fact yet, at the beginning of time."""
    clock.now = 0.0
    return Events(clock)


def test_a_fact_is_told_once(events):
    """Stating the same fact again is no news."""
    assert events.stated_at(0, event(), "NoDevices") == [event()]
    assert events.stated_at(1, event(), "NoDevices") == []


def test_a_change_of_the_message_alone_waits_for_the_refresh(events):
    """Numbers move; the reason has not."""
    events.stated_at(0, event("16 devices"), "NoDevices")

    assert events.stated_at(1, event("15 devices"), "NoDevices") == []
    assert events.told_at(100) == [event("15 devices")]


def test_another_reason_is_news(events):
    """What makes a fact another one is told at once."""
    events.stated_at(0, event(), "NoDevices")

    assert events.stated_at(1, event(), "DeviceInUse") == [event()]


def test_a_recreated_object_is_told_anew(events):
    """Another uid is another object, whatever its name."""
    events.stated_at(0, event(), "NoDevices")
    again = event(subject=Subject("ResourceClaim", "team-a", "gpu", "uid-2"))

    assert events.stated_at(1, again, "NoDevices") == [again]


def test_a_fact_is_refreshed_while_it_holds(events):
    """An Event that is still true does not expire."""
    events.stated_at(0, event(), "NoDevices")

    assert events.told_at(99) == []
    assert events.told_at(100) == [event()]
    assert events.told_at(101) == []
    assert events.record_due() == 200


def test_a_fact_that_no_longer_holds_is_not_refreshed(events):
    """What was cleared is forgotten, and news if it comes back."""
    events.stated_at(0, event(), "NoDevices")
    events.clear("key")

    assert events.told_at(1000) == []
    assert events.stated_at(1000, event(), "NoDevices") == [event()]


def test_what_an_earlier_operator_told_is_no_news(events):
    """A fact known from before is refreshed in time, and not told at once."""
    events.set_known("key", event(), "NoDevices")

    assert events.stated_at(1, event(), "NoDevices") == []
    assert events.told_at(100) == [event()]


def test_a_fact_that_flaps_is_told_three_times_a_minute(events):
    """A driver that publishes its slices anew each second gets a few Events about each claim, not thousands."""
    told = [now for now in range(180) if events.stated_at(now, event(), now % 2) or events.told_at(now)]

    assert told == [0, 1, 2, 61, 62, 63, 122, 123, 124]


def test_what_is_told_late_is_how_things_are_then(events):
    """Also if nobody states it again; and nothing, where the fact is again the one that was told."""
    for now, news in enumerate(("a", "b", "c", "d", "e")):
        events.stated_at(now, event(news), news)
    assert events.record_due() == 60
    assert events.told_at(60) == [event("e")]
    events.stated_at(60, event("f"), "f")
    events.stated_at(60, event("g"), "g")
    events.stated_at(60, event("f"), "f")

    assert events.told_at(61) == [event("f")]
    assert events.told_at(62) == []


def test_paced_facts_are_told_at_a_bounded_rate(events):
    """However many pods wait, ten a second are told of, the first ones first; one that is cleared is not."""
    for number in range(100):
        events.report(number, event(str(number)), "NoDevices", is_paced=True)
    events.clear(0)
    told = [[found.message for found in events.told_at(now)] for now in range(10)]

    assert told[0] == [str(number) for number in range(1, 11)]
    assert [len(found) for found in told] == [10] * 9 + [9]


def test_all_that_is_found_of_a_topic_replaces_what_was_found_before(events):
    """What is not found any more is cleared, and nobody else's facts are."""
    events.report_problem("other", CLAIM, "NoDevices", "other")
    events.set_topic("pools", {name: (CLAIM, "Invalid", name, None) for name in ("a", "b")})
    events.set_topic("pools", {"b": (CLAIM, "Invalid", "b", None)})

    assert [events.clear(key) for key in ("a", "b", "other")] == [False, True, True]
    assert [found.message for found in events.recorded] == ["other", "a", "b"]
