"""The Lease: of several operators at most one may write, whatever becomes of their requests."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.cluster.lease import Lease
from dra_operator.cluster.session import ApiError, ApiUnreachable

SECONDS = 15
RENEWALS = 10
"""Seconds after which an operator that cannot renew the Lease stops to write."""


class Turn:
    """Somebody else's turn: what awaits it goes on when the test says so."""

    def __await__(self):
        """Wait once."""
        yield


class Store:
    """The one Lease of an API server, changed as it changes it: only in the version that was sent."""

    def __init__(self):
        self.body = None
        self.versions = 0
        self.fault = None

    async def request(self, method, path, *, body=None, timeout):  # noqa: ASYNC109, ARG002 - as a session's
        """Answer after two turns: what was sent arrives after the first, the answer after the second."""
        await Turn()
        if self.fault == "refused":
            raise ApiUnreachable("nobody there")
        answer = self._answer(method, body)
        await Turn()
        if self.fault == "answer lost":
            raise ApiUnreachable("no answer in time")
        if isinstance(answer, int):
            raise ApiError(answer, "", "")
        return answer

    def _answer(self, method, body):
        if method == "POST":
            return 409 if self.body else self._keep(body)
        if self.body is None:
            return 404
        if method == "GET":
            return self.body
        same = body["metadata"]["resourceVersion"] == self.body["metadata"]["resourceVersion"]
        return self._keep(body) if same else 409

    def _keep(self, body):
        self.versions += 1
        self.body = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.versions)}}
        return self.body

    def delete(self):
        """Delete the Lease."""
        self.body = None


class Contender:
    """An operator that wants the Lease, takes it when it can, and keeps it while it can."""

    def __init__(self, store, clock, identity):
        self.lease = Lease(
            store,
            "ns",
            identity,
            seconds=SECONDS,
            clock=clock,
            wall=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock.now),
            sleep=self._sleep,
        )
        self.woken_at = 0.0
        self.ended = False
        self._clock = clock
        self._life = self._live()

    async def _sleep(self, seconds):
        self.woken_at = self._clock.now + seconds
        await Turn()

    async def _live(self):
        while True:
            try:
                if await self.lease.take():
                    break
            except (ApiError, ApiUnreachable):
                pass
            await self._sleep(self.lease.period)
        await self.lease.keep()

    def step(self):
        """Go on until the next wait."""
        if self.ended or self._clock.now < self.woken_at:
            return
        try:
            self._life.send(None)
        except StopIteration:
            self.ended = True

    def rest(self, seconds=SECONDS):
        """Go on until it has waited for so long, quickly answered."""
        until = self._clock.now + seconds
        while self._clock.now < until and not self.ended:
            self.step()
            self._clock.now += 0.05


class Clock:
    """Seconds that pass when a test says so."""

    now = 100.0

    def __call__(self):
        """Return the time."""
        return self.now


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
    return lambda identity: Contender(store, clock, identity)


_TURNS = st.tuples(
    st.integers(0, 2),
    st.sampled_from([1, 1, 2, 8]),
    st.sampled_from([None, None, None, "refused", "answer lost"]),
    st.sampled_from([0.0, 0.0, 0.1, 2.0, 6.0, 14.0]),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(_TURNS, min_size=20, max_size=300))
def test_at_most_one_may_write(turns):
    """Whatever is lost or late, and whoever is frozen for however long: no two operators may write at once."""
    store, clock = Store(), Clock()
    contenders = [Contender(store, clock, identity) for identity in ("a", "b", "c")]

    for number, steps, fault, seconds in turns:
        store.fault = fault
        for _ in range(steps):
            contenders[number].step()
        clock.now += seconds
        assert sum(each.lease.valid for each in contenders) <= 1

    store.fault = None
    for _ in range(600):
        for each in contenders:
            each.step()
        clock.now += 0.1
    assert sum(each.lease.valid for each in contenders) == 1 or all(each.ended for each in contenders)


def test_first_one_takes_it_at_once(contender, store):
    """Where there is no Lease yet, nobody waits for one to end."""
    first = contender("first")

    first.rest(0.2)

    assert first.lease.valid
    assert store.body["spec"] == {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:01:40.100000Z",
        "renewTime": "2026-01-01T00:01:40.100000Z",
        "leaseTransitions": 0,
    }


def test_second_one_waits_until_the_first_has_not_renewed_for_long_enough(contender, clock):
    """Fifteen seconds after the last renewal that it has seen, by its own clock."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    second.rest(10)
    first.rest(0.2)
    renewed = clock.now

    while not second.lease.won:
        second.rest(0.05)

    assert SECONDS <= clock.now - renewed < SECONDS + 3


def test_holder_that_renews_keeps_it(contender, clock, store):
    """However long another one waits."""
    first, second = contender("first"), contender("second")
    for _ in range(2000):
        first.step()
        second.step()
        clock.now += 0.05

    assert (first.lease.valid, second.lease.won, second.lease.holder) == (True, False, "first")
    assert store.body["spec"]["leaseTransitions"] == 0


def test_one_that_is_given_up_is_taken_within_a_period(contender, store, clock):
    """Whoever ends in order keeps nobody waiting."""
    first, second = contender("first"), contender("second")
    first.rest(0.2)
    second.rest(0.2)
    _finish(first.lease.give_up())
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
    store.fault = "refused"
    first.rest(RENEWALS + 1)
    assert (first.lease.valid, first.ended, first.lease.overdue > 0) == (False, False, True)
    clock.now += 3600

    store.fault = None
    first.rest(3)

    assert (first.lease.valid, first.lease.overdue) == (True, 0)


def test_holder_that_was_replaced_meanwhile_ends(contender, store, clock):
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
    store.delete()
    for _ in range(600):
        second.step()
        first.step()
        clock.now += 0.05

    assert (first.lease.valid, second.lease.won) == (True, False)


def test_holder_that_finds_it_deleted_after_its_time_ends(contender, store, clock):
    """Another one may have held it, and may have been deleted with it."""
    first = contender("first")
    first.rest(0.2)
    clock.now += RENEWALS + 1
    store.delete()

    first.rest(3)

    assert (first.ended, store.body) == (True, None)


def test_what_is_of_others_in_it_stays(contender, store, clock):
    """Labels, annotations and fields that are not ours are written back as they were."""
    store.body = {
        "metadata": {"resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"strategy": "x"},
        "kind": "Lease",
    }
    first = contender("first")

    first.rest(5)

    assert (store.body["metadata"]["labels"], store.body["spec"]["strategy"]) == ({"a": "b"}, "x")


def _finish(work):
    """Run a coroutine to its end, quickly answered."""
    try:
        while True:
            work.send(None)
    except StopIteration:
        pass
