"""The Lease: who may write, from when on and for how long."""

import asyncio
import copy

import pytest
from structlog.testing import capture_logs

from .leases import SECONDS, Clock, Contender, Store

RENEWALS = 10
"""Seconds after which an operator that cannot renew the Lease stops to write."""


@pytest.fixture
def clock():
    """A clock that stands still until it is told the time."""
    return Clock()


@pytest.fixture
def store():
    """An API server with no Lease yet."""
    return Store()


@pytest.fixture
def contender(store, clock):
    """Return operators by identity."""
    return lambda identity, **terms: Contender(store, clock, identity, **terms)


def seconds_until_won(waiting, clock):
    """Let an operator go on until it has the Lease, and return how long that took."""
    since = clock.now
    while not waiting.lease.won:
        waiting.rest(0.05)
    return clock.now - since


def test_first_one_takes_it_at_once(contender, store):
    """Where there is no Lease yet, nobody waits for one to end."""
    first = contender("first")

    first.rest(0.2)

    assert first.lease.valid
    assert store.body["spec"] == {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:01:40.050000Z",
        "renewTime": "2026-01-01T00:01:40.050000Z",
        "leaseTransitions": 0,
    }


def test_second_one_waits_until_the_first_has_not_renewed_for_long_enough(contender, clock):
    """Fifteen seconds after the last renewal that it has seen, by its own clock."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    second.rest(10)
    first.rest(0.2)

    assert SECONDS <= seconds_until_won(second, clock) < SECONDS + 3


def test_one_that_is_given_up_is_taken_within_a_period(contender, store):
    """Whoever ends in order keeps nobody waiting."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    second.rest(0.2)
    first.end()
    assert not first.lease.valid

    second.rest(2.3)

    assert (second.lease.valid, store.body["spec"]["leaseTransitions"]) == (True, 1)


def test_same_identity_takes_it_back_at_once(contender):
    """A container that was killed is started anew in its pod, and the one before it is dead."""
    contender("pod").rest(0.2)
    again = contender("pod")

    again.rest(0.2)

    assert again.lease.valid


def test_of_two_with_one_identity_the_first_ends(contender):
    """They tell themselves apart by when they took it."""
    first, second = contender("pod"), contender("pod")
    first.rest(0.2)
    second.rest(1)

    first.rest(3)

    assert first.ended
    assert second.lease.valid


def test_holder_that_cannot_renew_stops_to_write_and_goes_on_when_it_can(contender, store, clock):
    """As long as nobody else took the Lease nothing is lost by an API server that was away."""
    first = contender("first")
    first.rest(0.2)
    with capture_logs() as logs:
        store.fault = "refused"
        first.rest(RENEWALS - 2)
        assert (first.lease.error is None, logs) == (False, [])
        first.rest(12)
        assert (first.lease.valid, first.ended, first.lease.overdue > 0) == (False, False, True)
        clock.now += 3600

        store.fault = None
        first.rest(10)

    assert (first.lease.valid, first.lease.overdue, first.lease.error) == (True, 0, None)
    assert [line["event"] for line in logs] == [
        "lease not renewed, writes wait",
        "lease renewed, writes go on",
    ]


def test_holder_that_was_replaced_meanwhile_ends(contender):
    """It has decided on a state that another one has gone on from."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    second.rest(20)
    assert second.lease.valid

    first.rest(3)

    assert (first.ended, first.lease.won, first.lease.holder) == (True, False, "second")


def test_one_that_is_deleted_by_hand_stays_with_its_holder(contender, store, clock):
    """Who stands by waits as if it were still there, and its holder makes it anew."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    second.rest(0.2)
    store.body = None
    for _ in range(600):
        second.step()
        first.step()
        clock.now += 0.05

    assert (first.lease.valid, second.lease.won) == (True, False)


def test_who_could_not_look_does_not_count_the_time(contender, store):
    """After an API server was away for everybody, the one that decided goes on."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    second.rest(0.2)
    store.fault = "refused"
    first.rest(SECONDS)
    second.rest(SECONDS)
    store.fault = None
    second.rest(3)
    assert not second.lease.won

    first.rest(3)

    assert first.lease.valid


def test_one_that_is_older_than_it_was_ends_its_holder(contender, store):
    """Etcd was restored from a backup: the holder writes nothing more, whatever it has seen since, and gives it up."""
    first = contender("first")
    first.rest(0.2)
    backup = copy.deepcopy(store.body)
    first.rest(10)
    store.body = backup

    first.rest(3)
    assert (first.ended, first.lease.valid, first.lease.went_back) == (True, False, True)
    assert store.body == backup
    first.ended = False
    first.end()
    assert store.body["spec"]["holderIdentity"] is None


def test_renewals_that_were_stored_without_an_answer_do_not_make_it_older(contender, store):
    """The holder finds a newer one than it knows, and goes on."""
    first = contender("first")
    first.rest(0.2)
    store.fault = "no answer"
    first.rest(8)
    store.fault = None

    first.rest(3)
    assert (first.ended, first.lease.valid, first.lease.went_back) == (False, True, False)


def test_stop_during_a_renewal_gives_it_up(contender, store):
    """The renewal was stored, though its answer is lost with the task that waited for it."""
    first = contender("first")
    first.rest(0.2)
    while not store.under_way:
        first.clock.now += 0.05
        first._life.send(None)
    store.arrive(store.under_way.pop())
    first.end()

    assert store.body["spec"].get("holderIdentity") is None
    assert store.body["spec"]["leaseDurationSeconds"] == 1


def test_renewal_sets_the_duration_right(contender, store):
    """Others must not take it sooner than its holder believes, whoever changed the duration."""
    first = contender("first")
    first.rest(0.2)
    store.edit(leaseDurationSeconds=1)

    first.rest(3)

    assert store.body["spec"]["leaseDurationSeconds"] == SECONDS


def test_time_counts_from_when_a_request_was_sent(contender, store, clock):
    """Not from its answer: others may have seen what it stored all that time ago."""
    first = contender("first", quick=False)

    def answer(seconds):
        first.step()
        clock.now += seconds
        store.work()
        first.step()

    answer(4)
    answer(4)
    assert first.lease.valid
    clock.now += 2
    assert not first.lease.valid
    answer(4)
    assert first.lease.valid
    clock.now += 6
    assert not first.lease.valid


def test_page_of_a_proxy_is_no_missing_lease(contender, store):
    """Only the API server can say that there is none."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    store.fault = "page"
    second.rest(3)
    store.fault = None

    assert (second.asked[-1][0], second.lease.error.status) == ("GET", 404)


def test_what_is_of_others_in_it_stays(contender, store):
    """Labels, annotations and fields that are not ours are written back as they were."""
    store.body = {
        "metadata": {"resourceVersion": "7", "uid": "u", "labels": {"a": "b"}, "annotations": {"a": "c"}},
        "spec": {"strategy": "x"},
        "kind": "Lease",
    }
    first = contender("first")

    first.rest(5)

    assert (store.body["metadata"]["labels"], store.body["spec"]["strategy"]) == ({"a": "b"}, "x")
    assert store.body["metadata"]["annotations"]["a"] == "c"


async def test_writes_wait_while_the_lease_may_be_another_s(contender, clock):
    """All of them, and go on when it is renewed; never when it is lost."""
    first, second = contender("first"), contender("second")
    first.rest(1)
    await asyncio.wait_for(first.lease.may_write(), 60)

    clock.now += RENEWALS
    writes = [asyncio.create_task(first.lease.may_write()) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert [write.done() for write in writes] == [False, False]
    first.rest(3)
    await asyncio.wait_for(asyncio.gather(*writes), 60)

    second.rest(1)
    clock.now += SECONDS
    second.rest(1)
    first.rest(3)
    late = asyncio.create_task(first.lease.may_write())
    await asyncio.sleep(0.01)
    assert (second.lease.valid, late.done()) == (True, False)
    late.cancel()


def test_holder_that_cannot_read_what_others_wrote_does_not_end(contender, store, monkeypatch):
    """Somebody edited the Lease, and the API server is in trouble: that says nothing of who holds it."""
    first = contender("first")
    first.rest(1)
    store.edit(leaseTransitions=7)
    do = store._do
    monkeypatch.setattr(store, "_do", lambda method, body: 500 if method == "GET" else do(method, body))
    first.rest(RENEWALS + 2)
    assert (first.lease.valid, first.ended) == (False, False)

    monkeypatch.undo()
    first.rest(3)
    assert first.lease.valid
