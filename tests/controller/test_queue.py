"""The scheduling queue: what is tried when, what backs off, and what is in flight."""

from dataclasses import replace

import pytest
from cycle_bench import FITS, event_reasons, said_by, writes
from cycle_bench import KEY as CLAIM_KEY

from cluster import FINALIZER, PENDING, allocation, claim
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import PreemptedError
from dra_operator.api.read import read_object
from dra_operator.cluster.writes import Denied, Stored
from dra_operator.cluster.writes import annotate as annotation_write
from dra_operator.controller import cycle
from dra_operator.controller.cycle import Tick
from dra_operator.controller.facts import EventRequest
from dra_operator.controller.queue import (
    ActiveQueue,
    Assumed,
    Backoff,
    InFlightWrites,
    Timers,
)

A, B, EVIL = ("default", "a"), ("default", "b"), ("evil", "c")


def begin(active):
    """Begin a cycle; return what is to be tried, by name."""
    return active.begin_cycle(lambda key: key, lambda key: key, lambda _: True)


@pytest.fixture
def active():
    """Two claims that are due."""
    active = ActiveQueue()
    active.add({A, B})
    return active


def test_who_had_a_turn_waits_for_the_others(active):
    """However often it is wanted meanwhile."""
    active.start(A)
    active.add({A, B})
    assert begin(active) == [B]
    assert not active.end_cycle()

    active.start(B)
    assert not active.end_cycle()
    assert begin(active) == [A]


@pytest.mark.parametrize(
    ("seconds", "passes_since", "order"),
    [
        pytest.param(1, 0, ["new good", "new evil", "old good", "old evil"], id="took a bit more"),
        pytest.param(10, 0, ["new good", "old good", "new evil", "old evil"], id="took long"),
        pytest.param(10, 20, ["new good", "new evil", "old good", "old evil"], id="took long before"),
    ],
)
def test_new_claims_come_first_unless_their_namespace_took_long_lately(active, seconds, passes_since, order):
    """Whoever took less time goes before the others, and in each namespace the new ones before the old."""
    active.charge(EVIL, seconds)
    for _ in range(passes_since):
        begin(active)
    claims = [f"{age} {namespace}" for age in ("old", "new") for namespace in ("evil", "good")]

    def place(name):
        age, namespace = name.split()
        return active.priority((namespace, name), is_new=age == "new")

    assert sorted(claims, key=place) == order


def test_changes_that_keep_coming_do_not_keep_the_youngest_waiting(bench, clock):
    """Where a pass has time for one claim, three passes decide three, the oldest first again after that."""

    def take_long():
        clock.now += cycle.BUDGET

    bench.allocator.takes = take_long
    bench.run(*(bench.delta(claim(name)) for name in "abc"))
    for _ in range(5):
        bench.run(Tick())

    assert "".join(bench.allocator.asked) == "abcabc"


def test_claims_of_one_namespace_that_take_long_do_not_keep_those_of_another_waiting(bench, clock):
    """Of claims of which nothing was said yet, those go first whose namespace has had the least time in this round."""

    def take_long():
        clock.now += cycle.BUDGET

    bench.allocator.takes = take_long
    bench.run(*(bench.delta(claim(name, namespace="evil")) for name in "abc"))
    bench.run(bench.delta(claim("z", namespace="good")))
    for _ in range(2):
        bench.run()

    assert "".join(bench.allocator.asked) == "azbc"


def test_what_was_decided_does_not_wait_for_a_claim_of_another_namespace_that_takes_long(bench, clock):
    """It is handed over before that one is decided."""
    handed = []

    def take_long():
        if bench.allocator.asked[-1] != "z":
            clock.now += cycle.BUDGET

    bench.allocator.takes = take_long
    bench.allocator.answers = {"z": FITS}
    bench.run(*(bench.delta(claim(name, namespace="evil")) for name in "abc"))
    came, at = bench.delta(claim("z", namespace="good")), clock.now
    bench.cycle.run([came], lambda effects: handed.extend([clock.now] * len(writes(effects))), lambda: False)

    assert (handed, clock.now - at) == ([at], cycle.BUDGET)


@pytest.fixture
def slow(bench, clock):
    """Claims of which an explanation takes 2.5 s, by name; and what is explained, in order: `name` or `name...`."""
    names, steps, explain, left = set(), [], bench.allocator.explain, {}

    def slowly(claims, decision, *, is_preempted):
        name = claims[0].metadata.name
        while name in names and left.setdefault(name, 2.5) > 0:
            if is_preempted():
                steps.append(f"{name}...")
                raise PreemptedError
            clock.now += 0.5
            left[name] -= 0.5
        left.pop(name, None)
        steps.append(name)
        return explain(claims, decision, is_preempted=is_preempted)

    bench.allocator.explain, bench.allocator.limits = slowly, Limits(seconds=10.0)
    return names, steps


def test_an_explanation_is_cut_off_for_what_has_arrived_and_goes_on_later(bench, slow):
    """After a second; what waits is taken in before the rest of it."""
    names, steps = slow
    names.add("a")
    bench.cycle.has_arrivals = lambda: True
    bench.run(bench.delta(claim("a")))
    came = bench.run(bench.delta(claim("b", namespace="other")))
    told = bench.run()

    assert steps == ["a...", "b", "a...", "a"]
    assert [event_reasons(effects) for effects in (came, told)] == [["DeviceInUse"]] * 2


def test_claims_whose_explanations_take_long_wait_for_those_of_other_namespaces(bench, slow):
    """However many they are, and although they came first."""
    names, steps = slow
    names.update("abc")
    bench.cycle.has_arrivals = lambda: True
    bench.run(*(bench.delta(claim(name)) for name in "abc"))
    bench.run(*(bench.delta(claim(name, namespace="other")) for name in "xyz"))
    while "c" not in steps:
        bench.run()

    assert steps == ["a...", "x", "y", "z", "a...", "a", "b...", "b...", "b", "c...", "c...", "c"]


def test_an_explanation_that_was_cut_off_for_as_long_as_a_claim_may_take_is_given_up(bench, slow):
    """It is told, and the next of its namespace has its turn."""
    names, steps = slow
    names.add("a")
    bench.allocator.limits = Limits(seconds=2.0)
    bench.cycle.has_arrivals = lambda: True
    bench.run(bench.delta(claim("a")))
    effects = bench.run()

    assert steps == ["a...", "a..."]
    assert [event.message for event in effects if isinstance(event, EventRequest)] == [
        "it fits on no node; the cause was not found, as the search was given up after 2 s"
    ]


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


def test_a_wait_for_a_version_ends_with_it(backoff):
    """What lost a race is tried again as soon as the version that won is here."""
    backoff.add(KEY, "uid", 10, 10, version="1")

    assert backoff.holds(KEY, "uid", "1")
    assert not backoff.holds(KEY, "uid", "2")


def test_a_write_that_fails_time_and_again_is_tried_later_each_time(bench, write, clock):
    """Also as it is told on the claim, and taken off it by the next attempt, which makes new versions of it."""
    waited = []
    for _ in range(12):
        effects = bench.run(bench.delta(claim()), Denied(write, "failed calling webhook"))
        begun = clock.now
        while not (found := writes(effects, "allocate")):
            if told := writes(effects, "annotate"):
                said = bench.delta(claim(annotations={PENDING: said_by(told[0])}))
                effects = bench.run(said, Stored(told[0], {}))
                continue
            clock.now += 0.25
            effects = bench.run()
        (write,) = found
        waited.append(clock.now - begun)

    assert waited == sorted(waited)
    assert waited[-2:] == [120.0, 120.0]


@pytest.fixture
def stubborn(bench):
    """A claim that has its devices, and keeps our annotation by a policy."""
    told = {"finalizers": [FINALIZER], "annotations": {PENDING: "waits"}}
    (annotate,) = writes(bench.run(bench.delta(claim(**told), allocation=allocation())), "annotate")
    assert writes(bench.run(Denied(annotate, "policy")), "annotate") == []
    return told


def test_a_claim_whose_annotation_cannot_be_taken_off_is_let_go_at_once(bench, stubborn):
    """Whoever deletes it does not wait for a text."""
    deleted = claim(**stubborn, deletionTimestamp="2026-01-01T00:00:00Z")

    assert len(writes(bench.run(bench.delta(deleted, allocation=allocation())), "deallocate")) == 1


def test_an_annotation_that_cannot_be_taken_off_is_tried_less_and_less_often(bench, stubborn, clock):
    """Also when the claim changes, and until it is gone."""
    for seconds in (1, 2, 4):
        clock.now += seconds - 0.5
        again = bench.delta(claim(**stubborn), allocation=allocation())
        assert writes(bench.run(again), "annotate") == []
        assert bench.wake_at == clock.now + 0.5
        clock.now += 0.5
        (annotate,) = writes(bench.run(), "annotate")
        bench.run(Denied(annotate, "policy"))

    clock.now += 80
    (annotate,) = writes(bench.run(), "annotate")
    bench.run(Stored(annotate, {}))
    assert CLAIM_KEY not in bench.cycle._queue.annotation_backoff, "what was in vain is over"

    bench.run(replace(again, body=None))
    assert CLAIM_KEY not in bench.cycle._queue.annotation_backoff


WAITING = read_object(claim(KEY[1], namespace=KEY[0], uid="uid", resourceVersion="1"), "ResourceClaim")
DECIDED = Assumed("uid", FITS.results[0], "node-1", None)


@pytest.fixture
def annotate():
    """A write of our annotation."""
    return annotation_write(WAITING, PENDING, "waits")


@pytest.fixture
def sent():
    """The writes that went out."""
    return []


@pytest.fixture
def in_flight(sent):
    """No write in flight."""
    return InFlightWrites(sent.append)


def test_a_claim_has_one_write_in_flight(in_flight, sent, annotate):
    """A second would fail, since the first changes the version it was decided on."""
    in_flight.submit(annotate)
    in_flight.allocate(WAITING, DECIDED)

    assert sent == [annotate]
    assert in_flight.is_allocating(KEY)
