"""Claims that must not be tried again just yet."""

import pytest
from passbench import writes

from cluster import PENDING, claim
from dra_operator.cluster.writes import AllocateWrite, AnnotateWrite, Unaccepted, Written
from dra_operator.controller.putoff import PutOffs

KEY = ("team-a", "gpu")


@pytest.fixture
def putoffs(clock):
    """Nothing put off yet."""
    return PutOffs(clock)


def test_each_wait_is_twice_as_long_up_to_the_longest(putoffs):
    """The back-off doubles and is bounded."""
    waits = [putoffs.for_time(KEY, "uid", 1, 5) for _ in range(5)]

    assert waits == [1, 2, 4, 5, 5]


def test_waits_go_on_however_often_it_was_in_vain(putoffs):
    """A webhook that is away for a night is asked a thousand times, each half minute; no number grows too large."""
    waits = [putoffs.for_time(KEY, "uid", 0.05, 30) for _ in range(1100)]

    assert waits[-1] == 30


def test_a_wait_for_time_outlasts_new_versions(putoffs, clock):
    """Our own annotation makes a new version; it must not end the wait."""
    putoffs.for_time(KEY, "uid", 10, 10)

    assert putoffs.waits(KEY, "uid", "2")
    clock.now += 10
    putoffs.over()
    assert not putoffs.waits(KEY, "uid", "2")


def test_a_wait_for_a_version_ends_with_it(putoffs):
    """What lost a race is tried again as soon as the version that won is here."""
    putoffs.for_version(KEY, "uid", "1", 10, 10)

    assert putoffs.waits(KEY, "uid", "1")
    assert not putoffs.waits(KEY, "uid", "2")


def test_another_claim_of_the_same_name_does_not_wait(putoffs):
    """A claim that was deleted and created anew starts afresh."""
    putoffs.for_time(KEY, "uid", 10, 100)

    assert not putoffs.waits(KEY, "other", "1")
    assert putoffs.for_time(KEY, "other", 10, 100) == 10


def test_the_end_of_a_wait_is_reported_once(putoffs, clock):
    """A claim whose time is over is tried once for it, not in every pass from then on."""
    putoffs.for_time(KEY, "uid", 10, 10)
    assert putoffs.next_end() == clock.now + 10
    assert putoffs.over() == set()

    clock.now += 10
    assert putoffs.over() == {KEY}
    assert putoffs.over() == set()
    assert putoffs.next_end() is None


def test_a_wait_whose_time_is_over_goes_on_until_somebody_looks(putoffs, clock):
    """In the middle of a pass it does not end, and so it is not forgotten either."""
    putoffs.for_time(KEY, "uid", 10, 10)
    clock.now += 11

    assert putoffs.waits(KEY, "uid", "1")
    assert putoffs.next_end() == clock.now - 1


def test_a_claim_whose_wait_ends_during_a_pass_is_tried_in_the_next(bench, write, clock):
    """That pass comes at once, although nothing else needs it."""

    def takes():
        clock.now += 1

    bench.allocator.takes = takes
    bench.run(Unaccepted(write, None, "failed calling webhook"), bench.delta(claim("other")))
    assert bench.wake_at < clock.now
    bench.run()

    assert bench.allocator.asked == ["claim", "other", "claim"]


def test_a_wait_can_be_ended_and_the_next_is_longer_all_the_same(putoffs):
    """What the claim waited for is there; of others that do not wait nothing is known."""
    putoffs.for_time(KEY, "uid", 8, 60)
    putoffs.end([KEY, ("default", "another")])

    assert putoffs.over() == {KEY}
    assert putoffs.for_time(KEY, "uid", 8, 60) == 16


def test_the_first_wait_that_ends_is_the_next(putoffs, clock):
    """A claim that is put off for ten minutes holds up none that waits for a moment."""
    putoffs.for_time(KEY, "uid", 600, 600)
    putoffs.for_time(("team-a", "other"), "uid", 1, 600)

    assert putoffs.next_end() == clock.now + 1


def test_what_is_forgotten_starts_with_the_first_wait_again(putoffs):
    """Success ends the row of failures."""
    putoffs.for_time(KEY, "uid", 1, 100)
    putoffs.forget(KEY)

    assert putoffs.for_time(KEY, "uid", 1, 100) == 1


def test_a_write_that_fails_time_and_again_is_tried_later_each_time(bench, write, clock):
    """Also as it is told on the claim, and taken off it by the next attempt, which makes new versions of it."""
    waited = []
    for _ in range(12):
        effects = bench.run(bench.delta(claim()), Unaccepted(write, None, "failed calling webhook"))
        for told in writes(effects, AnnotateWrite):
            effects = bench.run(bench.delta(claim(annotations={PENDING: told.text})), Written(told, {}))
        begun = clock.now
        while not (found := writes(effects, AllocateWrite)):
            clock.now += 0.25
            effects = bench.run()
        (write,) = found
        waited.append(clock.now - begun)

    assert waited == sorted(waited)
    assert waited[-2:] == [30.0, 30.0]


def refuse(putoffs, *names):
    """The API server refuses a write of each of some claims."""
    for name in names:
        putoffs.for_time(("team-a", name), "uid", 60, 60)
        putoffs.refused(("team-a", name))


def test_a_claim_that_was_never_refused_ends_no_wait_of_others(putoffs):
    """A policy may be about others only; what it was put off for was another thing."""
    refuse(putoffs, "refused")
    putoffs.for_time(KEY, "uid", 60, 60)

    putoffs.accepted(KEY)

    assert putoffs.over() == set()


def test_waits_of_refused_claims_are_ended_seldom(putoffs, clock):
    """A webhook that takes few of many writes is not asked for all others again each time."""
    refuse(putoffs, "first", "second", "third")
    putoffs.accepted(("team-a", "first"))
    putoffs.over()
    refuse(putoffs, "second", "third")
    putoffs.accepted(("team-a", "second"))
    assert putoffs.over() == set()

    clock.now += 30
    refuse(putoffs, "second", "third")
    putoffs.accepted(("team-a", "second"))
    assert putoffs.over() == {("team-a", "third")}


def test_an_accepted_claim_ends_only_waits_of_refusals_since_the_last_one(putoffs, clock):
    """What has been let go once and is put off for another reason since waits for that."""
    refuse(putoffs, "first", "second", "third")
    putoffs.accepted(("team-a", "first"))
    assert len(putoffs.over()) == 2
    clock.now += 30
    putoffs.for_time(("team-a", "third"), "uid", 60, 60)

    putoffs.accepted(("team-a", "second"))

    assert putoffs.over() == set()
