"""What people are told, once for each change and again before it is forgotten."""

import pytest

from dra_operator.controller.reports import Notice, Reports, Subject

CLAIM = Subject("ResourceClaim", "team-a", "gpu", "uid-1")


def notice(message="no device", subject=CLAIM):
    """A warning about the claim."""
    return Notice(subject, "Warning", "NoDevices", message)


@pytest.fixture
def reports():
    """Reports that are refreshed after 100 seconds."""
    return Reports(100)


def test_a_fact_is_told_once(reports):
    """Stating the same fact again is no news."""
    assert reports.state("key", notice(), "NoDevices", 0) == notice()
    assert reports.state("key", notice(), "NoDevices", 1) is None


def test_a_change_of_the_message_alone_waits_for_the_refresh(reports):
    """Numbers move; the reason has not."""
    reports.state("key", notice("16 devices"), "NoDevices", 0)

    assert reports.state("key", notice("15 devices"), "NoDevices", 1) is None
    assert reports.due(100) == [notice("15 devices")]


def test_another_reason_is_news(reports):
    """What makes a fact another one is told at once."""
    reports.state("key", notice(), "NoDevices", 0)

    assert reports.state("key", notice(), "DeviceInUse", 1) == notice()


def test_a_recreated_object_is_told_anew(reports):
    """Another uid is another object, whatever its name."""
    reports.state("key", notice(), "NoDevices", 0)
    again = notice(subject=Subject("ResourceClaim", "team-a", "gpu", "uid-2"))

    assert reports.state("key", again, "NoDevices", 1) == again


def test_a_fact_is_refreshed_while_it_holds(reports):
    """An Event that is still true does not expire."""
    reports.state("key", notice(), "NoDevices", 0)

    assert reports.due(99) == []
    assert reports.due(100) == [notice()]
    assert reports.due(101) == []
    assert reports.next_due() == 200


def test_a_fact_is_refreshed_when_it_was_said_to_be(reports):
    """Whatever the sum of both times is rounded to: else passes follow each other until the clock has moved on."""
    for number in range(1000):
        reports.state("key", notice(), number, number / 7)

        assert reports.due(reports.next_due()) == [notice()]


def test_a_fact_that_no_longer_holds_is_not_refreshed(reports):
    """What was cleared is forgotten, and news if it comes back."""
    reports.state("key", notice(), "NoDevices", 0)
    reports.clear("key")

    assert reports.due(1000) == []
    assert reports.state("key", notice(), "NoDevices", 1000) == notice()


def test_what_an_earlier_operator_told_is_no_news(reports):
    """A fact known from before is refreshed in time, and not told at once."""
    reports.known("key", notice(), "NoDevices", 0)

    assert reports.state("key", notice(), "NoDevices", 1) is None
    assert reports.due(100) == [notice()]


def test_the_fact_that_was_told_first_is_due_first(reports):
    """Where nothing holds, nobody has to be woken."""
    assert reports.next_due() is None
    reports.state("one", notice(), "NoDevices", 10)
    reports.state("two", notice(), "NoDevices", 20)

    assert reports.next_due() == 110
