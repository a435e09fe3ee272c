"""Claims that must not be tried again just yet."""

import pytest
from cycle_bench import writes

from cluster import PENDING, claim
from dra_operator.cluster.writes import AllocateWrite, AnnotateWrite, Unaccepted, Written
from dra_operator.controller.queue import Backoff
from dra_operator.controller.timers import Timers

KEY = ("team-a", "gpu")


@pytest.fixture
def timers():
    """No timer yet."""
    return Timers()


@pytest.fixture
def backoff(clock, timers):
    """Nothing backs off yet."""
    return Backoff("claim", clock, timers)


def test_each_wait_is_twice_as_long_up_to_the_longest(backoff):
    """The back-off doubles and is bounded."""
    waits = [backoff.add(KEY, "uid", 1, 5) for _ in range(5)]

    assert waits == [1, 2, 4, 5, 5]


def test_waits_go_on_however_often_it_was_in_vain(backoff):
    """A webhook that is away for a night is asked a thousand times, each half minute; no number grows too large."""
    waits = [backoff.add(KEY, "uid", 0.05, 30) for _ in range(1100)]

    assert waits[-1] == 30


def test_a_wait_for_time_outlasts_new_versions(backoff, clock):
    """Our own annotation makes a new version; it must not end the wait."""
    backoff.add(KEY, "uid", 10, 10)

    assert backoff.holds(KEY, "uid", "2")
    clock.now += 10
    backoff.pop_expired()
    assert not backoff.holds(KEY, "uid", "2")


def test_a_wait_for_a_version_ends_with_it(backoff):
    """What lost a race is tried again as soon as the version that won is here."""
    backoff.add(KEY, "uid", 10, 10, version="1")

    assert backoff.holds(KEY, "uid", "1")
    assert not backoff.holds(KEY, "uid", "2")


def test_another_claim_of_the_same_name_does_not_wait(backoff):
    """A claim that was deleted and created anew starts afresh."""
    backoff.add(KEY, "uid", 10, 100)

    assert not backoff.holds(KEY, "other", "1")
    assert backoff.add(KEY, "other", 10, 100) == 10


def test_the_end_of_a_wait_is_reported_once(backoff, timers, clock):
    """A claim whose time is over is tried once for it, not in every pass from then on."""
    backoff.add(KEY, "uid", 10, 10)
    assert timers.next_due() == clock.now + 10
    assert backoff.pop_expired() == set()

    clock.now += 10
    assert backoff.pop_expired() == {KEY}
    assert backoff.pop_expired() == set()
    assert timers.next_due() is None


def test_a_wait_whose_time_is_over_goes_on_until_somebody_looks(backoff, timers, clock):
    """In the middle of a pass it does not end, and so it is not forgotten either."""
    backoff.add(KEY, "uid", 10, 10)
    clock.now += 11

    assert backoff.holds(KEY, "uid", "1")
    assert timers.next_due() == clock.now - 1


def test_a_claim_whose_wait_ends_during_a_pass_is_tried_in_the_next(bench, write, clock):
    """That pass comes at once, although nothing else needs it."""

    def takes():
        clock.now += 1

    bench.allocator.takes = takes
    bench.run(Unaccepted(write, None, "failed calling webhook"), bench.delta(claim("other")))
    assert bench.wake_at < clock.now
    bench.run()

    assert bench.allocator.asked == ["claim", "other", "claim"]


def test_a_wait_can_be_ended_and_the_next_is_longer_all_the_same(backoff):
    """What the claim waited for is there; of others that do not wait nothing is known."""
    backoff.add(KEY, "uid", 8, 60)
    backoff.expire([KEY, ("default", "another")])

    assert backoff.pop_expired() == {KEY}
    assert backoff.add(KEY, "uid", 8, 60) == 16


def test_the_first_wait_that_ends_is_the_next(backoff, timers, clock):
    """A claim that is put off for ten minutes holds up none that waits for a moment."""
    backoff.add(KEY, "uid", 600, 600)
    backoff.add(("team-a", "other"), "uid", 1, 600)

    assert timers.next_due() == clock.now + 1


def test_what_is_forgotten_starts_with_the_first_wait_again(backoff):
    """Success ends the row of failures."""
    backoff.add(KEY, "uid", 1, 100)
    backoff.remove(KEY)

    assert backoff.add(KEY, "uid", 1, 100) == 1


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


def refuse(backoff, *names):
    """The API server refuses a write of each of some claims."""
    for name in names:
        backoff.add(("team-a", name), "uid", 60, 60)
        backoff.count_refusal(("team-a", name))


def test_a_claim_that_was_never_refused_ends_no_wait_of_others(backoff):
    """A policy may be about others only; what it was put off for was another thing."""
    refuse(backoff, "refused")
    backoff.add(KEY, "uid", 60, 60)

    backoff.accept(KEY)

    assert backoff.pop_expired() == set()


def test_waits_of_refused_claims_are_ended_seldom(backoff, clock):
    """A webhook that takes few of many writes is not asked for all others again each time."""
    refuse(backoff, "first", "second", "third")
    backoff.accept(("team-a", "first"))
    backoff.pop_expired()
    refuse(backoff, "second", "third")
    backoff.accept(("team-a", "second"))
    assert backoff.pop_expired() == set()

    clock.now += 30
    refuse(backoff, "second", "third")
    backoff.accept(("team-a", "second"))
    assert backoff.pop_expired() == {("team-a", "third")}


def test_an_accepted_claim_ends_only_waits_of_refusals_since_the_last_one(backoff, clock):
    """What has been let go once and is put off for another reason since waits for that."""
    refuse(backoff, "first", "second", "third")
    backoff.accept(("team-a", "first"))
    assert len(backoff.pop_expired()) == 2
    clock.now += 30
    backoff.add(("team-a", "third"), "uid", 60, 60)

    backoff.accept(("team-a", "second"))

    assert backoff.pop_expired() == set()
