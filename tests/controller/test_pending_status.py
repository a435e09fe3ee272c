"""What a person can read about a claim that waits."""

import pytest

from dra_operator.api.core import Metadata
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.cluster.faults import UNCOUNTED
from dra_operator.controller.claims import ClaimStore
from dra_operator.controller.facts import Annotations, Facts, PendingReason, PendingStatus
from dra_operator.controller.queue import Backoff, InFlightWrites, Timers

IN_USE = PendingReason("DeviceInUse", "request gpu: 2 of 2 devices in use", "gpu")
FEWER = PendingReason("DeviceInUse", "request gpu: 1 of 1 devices in use", "gpu")
NONE = PendingReason("NoDevices", "request gpu: 0 devices published", "gpu")
KEY = ("team-a", "gpu")


class Pending(PendingStatus):
    """The status of claims that wait, with the claims and what was recorded and written beside it."""

    def __init__(self, clock):
        self.recorded, self.sent, timers = [], [], Timers()
        self.claims, self.in_flight = ClaimStore(), InFlightWrites(self.sent.append)
        self.backoff = Backoff("annotation", clock, timers)
        annotations = Annotations(
            PENDING_ANNOTATION, self.claims, self.in_flight, self.backoff, clock, UNCOUNTED
        )
        super().__init__(Facts(1200, clock, self.recorded.append), annotations, clock, lambda _event: None)

    def say(self, claim, why):
        """State why a claim waits, and return the reasons of the Events and the texts that are written."""
        self.recorded.clear()
        self.claims.put(claim)
        self.set(claim, why)
        return [event.reason for event in self.recorded], self.write()

    def write(self):
        """Return the texts that are written now; each is stored."""
        self.sent.clear()
        self.annotations.write()
        for write in self.sent:
            self.in_flight.finish(write)
            self.claims.put(claim(write.annotations[PENDING_ANNOTATION], name=write.key[1], uid=write.uid))
            self.annotations.observe(write.key)
        return [write.annotations[PENDING_ANNOTATION] for write in self.sent]


@pytest.fixture
def pending(clock):
    """Nothing reported yet."""
    return Pending(clock)


def claim(text=None, uid="uid-1", name="gpu"):
    """A claim, with or without our annotation."""
    annotations = {} if text is None else {PENDING_ANNOTATION: text}
    return ResourceClaim(Metadata(namespace="team-a", name=name, uid=uid, annotations=annotations))


def test_a_claim_that_begins_to_wait_gets_an_event_and_an_annotation(pending):
    """Both say the same."""
    assert pending.say(claim(), IN_USE) == (["DeviceInUse"], [IN_USE.message])
    assert pending.recorded[0].message == IN_USE.message


def test_other_numbers_are_no_event_and_reach_the_annotation_after_a_pause(pending, clock):
    """The reason is the same, so only the annotation follows, and not too often."""
    pending.say(claim(), IN_USE)

    assert pending.say(claim(IN_USE.message), FEWER) == ([], [])
    assert pending.annotations.write() == clock.now + 10
    clock.now += 10
    assert pending.write() == [FEWER.message]


def test_another_reason_is_an_event_at_once(pending, clock):
    """The annotation follows when its pause is over."""
    pending.say(claim(), IN_USE)

    assert pending.say(claim(IN_USE.message), NONE) == (["NoDevices"], [])
    clock.now += 10
    assert pending.write() == [NONE.message]


def test_an_annotation_that_backs_off_is_written_when_that_is_over(pending, clock):
    """Whoever took none hardly takes the next one at once."""
    pending.backoff.add(KEY, "uid-1", 20, 20)

    assert pending.say(claim(), IN_USE) == (["DeviceInUse"], [])
    clock.now += 20
    pending.backoff.pop_expired()
    assert pending.write() == [IN_USE.message]


def test_an_annotation_that_somebody_takes_off_comes_back(pending, clock):
    """It is looked at whenever the claim changes."""
    pending.say(claim(), IN_USE)
    pending.write()
    clock.now += 10
    pending.claims.put(claim())
    pending.annotations.observe(KEY)

    assert pending.write() == [IN_USE.message]


def test_a_claim_of_the_same_name_does_not_get_the_text_of_the_one_before(pending):
    """What was said was said of another object."""
    pending.say(claim(), IN_USE)
    pending.claims.put(claim(uid="uid-2"))
    pending.annotations.observe(KEY)

    assert pending.write() == []
    assert pending.say(claim(uid="uid-2"), IN_USE) == (["DeviceInUse"], [IN_USE.message])


def test_other_numbers_of_many_claims_go_out_at_a_bounded_rate(pending, clock):
    """However many claims wait, ten annotations a second follow the numbers; news do not wait for them."""
    names = [str(number) for number in range(100)]
    for name in names:
        assert pending.say(claim(name=name), IN_USE)[1] == [IN_USE.message]
    pending.write()
    clock.now += 10
    for name in names:
        pending.set(claim(IN_USE.message, name=name), FEWER)
    written = []
    for _ in range(10):
        written.append(len(pending.write()))
        clock.now += 1

    assert written == [10] * 10


def test_a_restart_tells_nothing_twice(pending):
    """A claim whose annotation already says so gets no second Event."""
    assert pending.say(claim(IN_USE.message), IN_USE) == ([], [])
