"""What a person can read about a claim that waits."""

import itertools

import pytest

from dra_operator.api.core import Metadata
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.api.types import ResourceClaim
from dra_operator.controller.reports import Reports
from dra_operator.controller.telling import Telling, Waiting, one_line

IN_USE = Waiting("DeviceInUse", "gpu", "request gpu: 2 of 2 devices in use")
NONE = Waiting("NoDevices", "gpu", "request gpu: 0 devices published")


@pytest.fixture
def telling(clock):
    """Nothing told yet; annotations at most every ten seconds."""
    return Telling(Reports(1200), clock, pause=10, rate=10)


def claim(text=None, uid="uid-1", name="gpu", version="1"):
    """A claim, with or without our annotation."""
    annotations = {} if text is None else {PENDING_ANNOTATION: text}
    return ResourceClaim(
        Metadata(namespace="team-a", name=name, uid=uid, annotations=annotations, resource_version=version)
    )


def test_a_claim_that_begins_to_wait_gets_an_event_and_an_annotation(telling):
    """Both say the same."""
    notice = telling.waits(claim(), IN_USE)

    assert (notice.type, notice.reason, notice.message) == ("Warning", "DeviceInUse", IN_USE.message)
    assert telling.annotation_due(claim()) == IN_USE.message


def test_other_numbers_are_no_event_and_reach_the_annotation_after_a_pause(telling, clock):
    """The reason is the same, so only the annotation follows, and not too often."""
    fewer = Waiting("DeviceInUse", "gpu", "request gpu: 1 of 1 devices in use")
    telling.waits(claim(), IN_USE)
    telling.written(("team-a", "gpu"))

    assert telling.waits(claim(IN_USE.message), fewer) is None
    assert telling.annotation_due(claim(IN_USE.message)) is None
    assert telling.next_due() == clock.now + 10
    clock.now += 10
    assert telling.annotation_due(claim(IN_USE.message)) == fewer.message


def test_another_reason_is_an_event_and_an_annotation_at_once(telling):
    """A change of the reason does not wait."""
    telling.waits(claim(), IN_USE)
    telling.written(("team-a", "gpu"))

    assert telling.waits(claim(IN_USE.message), NONE).reason == "NoDevices"
    assert telling.annotation_due(claim(IN_USE.message)) == NONE.message


def test_an_annotation_that_is_refused_is_tried_again_later_each_time(telling, clock):
    """Also with another reason: whoever takes no annotation hardly takes the next one."""
    telling.waits(claim(), IN_USE)
    waits = []
    for waiting in (NONE, IN_USE) * 5:
        telling.written(("team-a", "gpu"))
        telling.refused(("team-a", "gpu"))
        telling.waits(claim(), waiting)
        assert telling.annotation_due(claim()) is None
        waits.append(telling.next_due() - clock.now)
        clock.now = telling.next_due()
        assert telling.annotation_due(claim()) == waiting.message

    assert waits == [20, 40, 80, 160, 320, 600, 600, 600, 600, 600]


def test_an_annotation_that_was_taken_after_all_is_kept_as_any_other(telling, clock):
    """The pause is that of the others again."""
    telling.waits(claim(), IN_USE)
    telling.written(("team-a", "gpu"))
    telling.refused(("team-a", "gpu"))
    assert telling.annotation_due(claim(IN_USE.message)) is None
    telling.waits(claim(IN_USE.message), NONE)
    telling.written(("team-a", "gpu"))
    telling.waits(claim(NONE.message), Waiting("NoDevices", "gpu", "request gpu: 1 device published"))

    assert telling.annotation_due(claim(NONE.message)) is None
    assert telling.next_due() == clock.now + 10


def test_a_reason_that_changes_again_soon_waits(telling, clock):
    """A reason that flaps has an Event each time, and an annotation every pause."""
    for waiting in (IN_USE, NONE):
        telling.waits(claim(), waiting)
        telling.written(("team-a", "gpu"))
    clock.now += 3

    assert telling.waits(claim(NONE.message), IN_USE).reason == "DeviceInUse"
    assert telling.annotation_due(claim(NONE.message)) is None
    assert telling.next_due() == clock.now + 7
    clock.now += 7
    assert telling.annotation_due(claim(NONE.message)) == IN_USE.message


def flap(telling, clock, seconds, step=0.5):
    """Let a reason change back and forth; return when Events told it, in seconds from the beginning."""
    begun, told = clock.now, []
    for number in range(int(seconds / step)):
        found = [telling.waits(claim(), (IN_USE, NONE)[number % 2]), *telling.late()]
        told += [clock.now - begun for notice in found if notice is not None]
        clock.now += step
    return told


def test_a_reason_that_flaps_is_told_later_each_time(telling, clock):
    """A driver that publishes its slices anew each second gets a few Events about each claim, not thousands."""
    told = flap(telling, clock, 300)

    assert told[:4] == [0, 0.5, 1, 1.5]
    assert [round(later - earlier) for earlier, later in itertools.pairwise(told[3:])] == [
        10,
        20,
        40,
        60,
        60,
        60,
    ]


def test_what_is_told_late_is_how_things_are_then(telling, clock):
    """Also if nothing is decided any more; and nothing, where the reason is again the one that was told."""
    flap(telling, clock, 2.5)
    assert telling.next_due() == clock.now + 9
    clock.now += 9
    assert [notice.reason for notice in telling.late()] == ["DeviceInUse"]
    telling.waits(claim(), NONE)
    telling.waits(claim(), IN_USE)

    clock.now = telling.next_due()
    assert (telling.late(), telling.next_due()) == ([], None)


def test_a_reason_that_has_held_for_long_is_told_at_once(telling, clock):
    """It flapped before, which says nothing about this change."""
    flap(telling, clock, 20)
    telling.waits(claim(), IN_USE)
    clock.now += 60
    telling.late()
    clock.now += 120

    assert telling.waits(claim(), NONE).reason == "NoDevices"


def test_nothing_is_told_late_of_a_claim_that_waits_no_more(telling, clock):
    """It has its devices."""
    flap(telling, clock, 5)
    telling.waits_no_more(("team-a", "gpu"))
    clock.now += 600

    assert (telling.late(), telling.next_due()) == ([], None)


def write_due(telling, claims):
    """Write what is due about claims, those first that were written longest ago; return their names."""
    written = []
    for key in telling.unsettled():
        if telling.annotation_due(claims[key[1]]) is not None:
            telling.written(key)
            written.append(key[1])
    return written


def test_nothing_is_told_late_of_a_claim_that_was_made_anew(telling, clock):
    """A copy brings the annotation of the one before it, and what was left to say of that one goes with it."""
    flap(telling, clock, 3)
    assert telling.next_due() > clock.now

    assert telling.waits(claim(NONE.message, uid="uid-2"), NONE) is None
    assert (telling.late(), telling.next_due()) == ([], None)
    clock.now += 3600
    assert telling.waits(claim(NONE.message, uid="uid-2"), NONE) is None


def test_what_is_told_again_of_a_claim_that_was_made_anew_names_that_one(clock):
    """An Event about the one before it would not be found by whoever looks at the claim."""
    reports = Reports(1200)
    telling = Telling(reports, clock)
    telling.waits(claim(), IN_USE)
    telling.waits(claim(IN_USE.message, uid="uid-2"), IN_USE)
    clock.now += 1200

    assert [notice.subject.uid for notice in reports.due(clock.now)] == ["uid-2"]


def test_an_annotation_that_is_right_is_left_alone_until_claim_or_text_changes(telling):
    """Whatever else changes in a cluster, nobody looks at all claims that wait."""
    key, fewer = ("team-a", "gpu"), Waiting("DeviceInUse", "gpu", "request gpu: 1 of 1 devices in use")
    telling.waits(claim(), IN_USE)
    found = [telling.unsettled()]
    telling.annotation_due(claim(IN_USE.message))
    found.append(telling.unsettled())
    telling.look_again(key)
    found.append(telling.unsettled())
    telling.annotation_due(claim(IN_USE.message))
    telling.waits(claim(IN_USE.message), fewer)
    telling.annotation_due(claim(IN_USE.message))
    found.append(telling.unsettled())

    assert found == [[key], [], [key], [key]]


def test_the_first_annotations_of_many_claims_are_due_at_once(telling):
    """A thousand claims that begin to wait say so without a queue."""
    claims = {str(number): claim(name=str(number)) for number in range(1000)}
    for found in claims.values():
        telling.waits(found, IN_USE)

    assert len(write_due(telling, claims)) == 1000


def test_other_numbers_of_many_claims_go_out_at_a_bounded_rate(telling, clock):
    """However many claims wait, ten annotations a second follow the numbers, the oldest first."""
    claims = {str(number): claim(IN_USE.message, name=str(number)) for number in range(1000)}
    for found in claims.values():
        telling.waits(found, IN_USE)
    for seconds in range(20):
        for found in claims.values():
            telling.waits(found, Waiting("DeviceInUse", "gpu", f"request gpu: {seconds} devices in use"))
        assert write_due(telling, claims) == [str(seconds * 10 + number) for number in range(10)]
        assert telling.next_due() == clock.now + 1
        assert write_due(telling, claims) == []
        clock.now += 1


def test_a_restart_tells_nothing_twice(telling):
    """A claim whose annotation already says so gets no second Event."""
    assert telling.waits(claim(IN_USE.message), IN_USE) is None
    assert telling.annotation_due(claim(IN_USE.message)) is None


def test_a_claim_that_waits_no_more_is_told_anew_when_it_waits_again(telling):
    """Pending, allocated, pending: two Events."""
    telling.waits(claim(), IN_USE)
    telling.waits_no_more(("team-a", "gpu"))

    assert telling.reasons() == {}
    assert telling.reason(("team-a", "gpu")) is None
    assert telling.waits(claim(), IN_USE) is not None


def test_nothing_is_due_when_nothing_waits(telling):
    """A claim that is not told of needs no annotation from us."""
    assert telling.annotation_due(claim("stale")) is None
    assert telling.next_due() is None


def test_each_claim_that_waits_is_told_with_its_reason(telling):
    """The gauges of waiting claims go by reason."""
    telling.waits(claim(), IN_USE)

    assert telling.reasons() == {"DeviceInUse": 1}
    assert telling.reason(("team-a", "gpu")) == "DeviceInUse"


def test_texts_are_one_line_and_bounded():
    """Whatever a message holds, somebody can read it."""
    assert one_line("a\n  b") == "a b"
    assert len(one_line("\u20ac" * 5000).encode()) <= 2048


def test_after_one_that_was_taken_annotations_wait_no_longer_than_ever(telling, clock):
    """Also where another text is due by the time the answer is here."""
    telling.waits(claim(), IN_USE)
    for _ in range(5):
        telling.refused(("team-a", "gpu"))
    telling.written(("team-a", "gpu"))
    telling.accepted(("team-a", "gpu"))
    telling.waits(claim(IN_USE.message), NONE)
    telling.annotation_due(claim(IN_USE.message))

    assert telling.next_due() == clock.now + 10


@pytest.mark.parametrize(("version", "is_told"), [("9", False), ("10", False), ("11", True), ("100", True)])
def test_what_an_operator_before_wrote_and_had_no_time_to_tell_is_told(telling, version, is_told):
    """It is newer than all that it had told, by number."""
    telling.events_delivered_up_to = "10"

    assert (telling.waits(claim(IN_USE.message, version=version), IN_USE) is not None) == is_told
    assert telling.waits(claim(IN_USE.message, version=version), IN_USE) is None
