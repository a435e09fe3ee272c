"""What a person can read about a claim that waits."""

import itertools

import pytest

from dra_operator.api.core import Metadata
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.controller.event_dedup import EventDeduplicator, one_line
from dra_operator.controller.pending_status import PendingReason, PendingStatus
from dra_operator.controller.timers import Timers

IN_USE = PendingReason("DeviceInUse", "gpu", "request gpu: 2 of 2 devices in use")
NONE = PendingReason("NoDevices", "gpu", "request gpu: 0 devices published")


class Pending(PendingStatus):
    """The status of claims that wait, with its timers and what was recorded beside it."""

    def __init__(self, clock):
        self.timers, self.recorded = Timers(), []
        self.events = EventDeduplicator(1200, clock, Timers(), self.recorded.append)
        super().__init__(self.events, clock, self.timers, pause=10, rate=10)

    def next_due(self):
        """Return when an annotation or Event that has to wait may be written."""
        self.set_timer()
        return self.timers.next_due()


@pytest.fixture
def pending(clock):
    """Nothing reported yet; annotations at most every ten seconds."""
    return Pending(clock)


def claim(text=None, uid="uid-1", name="gpu", version="1"):
    """A claim, with or without our annotation."""
    annotations = {} if text is None else {PENDING_ANNOTATION: text}
    return ResourceClaim(
        Metadata(namespace="team-a", name=name, uid=uid, annotations=annotations, resource_version=version)
    )


def test_a_claim_that_begins_to_wait_gets_an_event_and_an_annotation(pending):
    """Both say the same."""
    event = pending.set(claim(), IN_USE)

    assert (event.type, event.reason, event.message) == ("Warning", "DeviceInUse", IN_USE.message)
    assert pending.due_annotation(claim()) == IN_USE.message


def test_other_numbers_are_no_event_and_reach_the_annotation_after_a_pause(pending, clock):
    """The reason is the same, so only the annotation follows, and not too often."""
    fewer = PendingReason("DeviceInUse", "gpu", "request gpu: 1 of 1 devices in use")
    pending.set(claim(), IN_USE)
    pending.mark_written(("team-a", "gpu"))

    assert pending.set(claim(IN_USE.message), fewer) is None
    assert pending.due_annotation(claim(IN_USE.message)) is None
    assert pending.next_due() == clock.now + 10
    clock.now += 10
    assert pending.due_annotation(claim(IN_USE.message)) == fewer.message


def test_another_reason_is_an_event_and_an_annotation_at_once(pending):
    """A change of the reason does not wait."""
    pending.set(claim(), IN_USE)
    pending.mark_written(("team-a", "gpu"))

    assert pending.set(claim(IN_USE.message), NONE).reason == "NoDevices"
    assert pending.due_annotation(claim(IN_USE.message)) == NONE.message


def test_an_annotation_that_is_refused_is_tried_again_later_each_time(pending, clock):
    """Also with another reason: whoever takes no annotation hardly takes the next one."""
    pending.set(claim(), IN_USE)
    waits = []
    for waiting in (NONE, IN_USE) * 5:
        pending.mark_written(("team-a", "gpu"))
        pending.mark_refused(("team-a", "gpu"))
        pending.set(claim(), waiting)
        assert pending.due_annotation(claim()) is None
        waits.append(pending.next_due() - clock.now)
        clock.now = pending.next_due()
        assert pending.due_annotation(claim()) == waiting.message

    assert waits == [20, 40, 80, 160, 320, 600, 600, 600, 600, 600]


def flap(pending, clock, seconds, step=0.5):
    """Let a reason change back and forth; return when Events told it, in seconds from the beginning."""
    begun, told = clock.now, []
    for number in range(int(seconds / step)):
        found = [pending.set(claim(), (IN_USE, NONE)[number % 2]), *pending.pop_late()]
        told += [clock.now - begun for event in found if event is not None]
        clock.now += step
    return told


def test_a_reason_that_flaps_is_told_later_each_time(pending, clock):
    """A driver that publishes its slices anew each second gets a few Events about each claim, not thousands."""
    told = flap(pending, clock, 300)

    assert told[:4] == [0, 0.5, 1, 1.5]
    assert [round(later - earlier) for earlier, later in itertools.pairwise(told[3:])] == [
        10,
        20,
        40,
        60,
        60,
        60,
    ]


def test_what_is_told_late_is_how_things_are_then(pending, clock):
    """Also if nothing is decided any more; and nothing, where the reason is again the one that was told."""
    flap(pending, clock, 2.5)
    assert pending.next_due() == clock.now + 9
    clock.now += 9
    assert [event.reason for event in pending.pop_late()] == ["DeviceInUse"]
    pending.set(claim(), NONE)
    pending.set(claim(), IN_USE)

    clock.now = pending.next_due()
    assert (pending.pop_late(), pending.next_due()) == ([], None)


def write_due(pending, claims):
    """Write what is due about claims, those first that were written longest ago; return their names."""
    written = []
    for key in pending.unsettled():
        if pending.due_annotation(claims[key[1]]) is not None:
            pending.mark_written(key)
            written.append(key[1])
    return written


def test_an_annotation_that_is_right_is_left_alone_until_claim_or_text_changes(pending):
    """Whatever else changes in a cluster, nobody looks at all claims that wait."""
    key, fewer = ("team-a", "gpu"), PendingReason("DeviceInUse", "gpu", "request gpu: 1 of 1 devices in use")
    pending.set(claim(), IN_USE)
    found = [pending.unsettled()]
    pending.due_annotation(claim(IN_USE.message))
    found.append(pending.unsettled())
    pending.mark_changed(key)
    found.append(pending.unsettled())
    pending.due_annotation(claim(IN_USE.message))
    pending.set(claim(IN_USE.message), fewer)
    pending.due_annotation(claim(IN_USE.message))
    found.append(pending.unsettled())

    assert found == [[key], [], [key], [key]]


def test_other_numbers_of_many_claims_go_out_at_a_bounded_rate(pending, clock):
    """However many claims wait, ten annotations a second follow the numbers, the oldest first."""
    claims = {str(number): claim(IN_USE.message, name=str(number)) for number in range(1000)}
    for found in claims.values():
        pending.set(found, IN_USE)
    for seconds in range(20):
        for found in claims.values():
            pending.set(found, PendingReason("DeviceInUse", "gpu", f"request gpu: {seconds} devices in use"))
        assert write_due(pending, claims) == [str(seconds * 10 + number) for number in range(10)]
        assert pending.next_due() == clock.now + 1
        assert write_due(pending, claims) == []
        clock.now += 1


def test_a_restart_tells_nothing_twice(pending):
    """A claim whose annotation already says so gets no second Event."""
    assert pending.set(claim(IN_USE.message), IN_USE) is None
    assert pending.due_annotation(claim(IN_USE.message)) is None


def test_a_claim_that_waits_no_more_is_told_anew_when_it_waits_again(pending):
    """Pending, allocated, pending: two Events."""
    pending.set(claim(), IN_USE)
    pending.clear(("team-a", "gpu"))

    assert pending.counts() == {}
    assert pending.reason(("team-a", "gpu")) is None
    assert pending.set(claim(), IN_USE) is not None


def test_texts_are_one_line_and_bounded():
    """Whatever a message holds, somebody can read it."""
    assert one_line("a\n  b") == "a b"
    assert len(one_line("\u20ac" * 5000).encode()) <= 2048
