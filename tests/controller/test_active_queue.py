"""Who is to be decided, and in which round."""

import pytest
from cycle_bench import FITS, writes

from cluster import claim
from dra_operator.api.names import PENDING_ANNOTATION
from dra_operator.controller import cycle
from dra_operator.controller.cycle import Tick
from dra_operator.controller.queue import ActiveQueue

A, B, EVIL = ("default", "a"), ("default", "b"), ("evil", "c")


@pytest.fixture
def queue():
    """Two claims that are due."""
    queue = ActiveQueue()
    queue.add({A, B})
    return queue


def test_who_had_a_turn_waits_for_the_others(queue):
    """However often it is wanted meanwhile."""
    queue.start(A)
    queue.add({A, B})
    assert queue.begin_cycle() == (B,)
    assert not queue.end_cycle()

    queue.start(B)
    assert not queue.end_cycle()
    assert queue.begin_cycle() == (A,)


def test_a_round_ends_when_all_have_had_a_turn_or_need_none(queue):
    """Then each of them may be due at once."""
    queue.start(A)
    queue.remove(B)
    assert queue.end_cycle()
    queue.add({A})

    assert queue.begin_cycle() == (A,)


def test_who_was_passed_over_may_be_due_again_in_the_same_round(queue):
    """It has had no turn."""
    queue.start(A)
    queue.remove(B)
    queue.add({B})

    assert queue.begin_cycle() == (B,)


def test_a_round_ends_for_each_namespace_by_itself(queue):
    """Who has claims that others do not is decided again while they are still at it, and once for each change."""
    queue.add({EVIL})
    for key in (A, B):
        queue.start(key)
    queue.add({A})
    assert set(queue.begin_cycle()) == {A, EVIL}

    queue.add({A})
    queue.start(A)
    queue.start(EVIL)
    assert queue.end_cycle()


@pytest.mark.parametrize(
    ("seconds", "passes_since", "order"),
    [
        pytest.param(1, 0, ["new good", "new evil", "old good", "old evil"], id="took a bit more"),
        pytest.param(10, 0, ["new good", "old good", "new evil", "old evil"], id="took long"),
        pytest.param(10, 20, ["new good", "new evil", "old good", "old evil"], id="took long before"),
    ],
)
def test_new_claims_come_first_unless_their_namespace_took_long_lately(queue, seconds, passes_since, order):
    """Whoever took less time goes before the others, and in each namespace the new ones before the old."""
    queue.charge(EVIL, seconds)
    for _ in range(passes_since):
        queue.begin_cycle()
    claims = [f"{age} {namespace}" for age in ("old", "new") for namespace in ("evil", "good")]

    def place(name):
        age, namespace = name.split()
        return queue.priority((namespace, name), is_new=age == "new")

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


@pytest.fixture
def waiting():
    """Three claims that say why they wait, as an operator has written that runs no more."""
    told = {PENDING_ANNOTATION: "request gpu: ..."}
    return [claim(name, annotations=told) for name in "abc"]


def test_who_comes_while_a_round_takes_longer_than_a_pass_goes_before_those_that_wait_already(
    bench, clock, waiting
):
    """Of three claims that are tried again one a pass, the last two are after the one that came meanwhile."""

    def take_long():
        clock.now += cycle.BUDGET

    bench.allocator.takes = take_long
    bench.run(*(bench.delta(body) for body in waiting))
    bench.run(bench.delta(claim("z")))
    for _ in range(2):
        bench.run()

    assert "".join(bench.allocator.asked) == "azbc"


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


def test_claims_that_take_long_and_come_without_end_do_not_keep_those_that_wait_from_their_turns(
    bench, clock, waiting
):
    """Those of another namespace are tried again with each change, pass after pass, as if they were alone."""

    def take_long():
        if bench.allocator.asked[-1].startswith("evil"):
            clock.now += 10 * cycle.BUDGET

    bench.allocator.takes = take_long
    for number in range(6):
        evil = [bench.delta(claim(f"evil-{number}-{one}", namespace="evil")) for one in range(3)]
        bench.run(*evil, *(bench.delta(body) for body in waiting if not number), Tick())
    asked = bench.allocator.asked

    assert [asked.count(name) for name in "abc"] == [6, 6, 6]


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


def test_who_comes_with_a_change_goes_behind_those_that_wait_already(bench, waiting):
    """What has become free is for the oldest, where a pass has time for all."""
    bench.run(*(bench.delta(body) for body in (*waiting, claim("z"))))

    assert "".join(bench.allocator.asked) == "abcz"


def test_changes_that_take_all_the_time_of_a_pass_do_not_keep_claims_waiting(bench, clock):
    """A driver that publishes all its slices anew costs as much to take in, pass after pass."""

    def slowly(*items):
        clock.now += cycle.BUDGET
        yield from items

    bench.cycle.run(slowly(bench.delta(claim("a")), bench.delta(claim("b"))), print, lambda: False)

    assert bench.allocator.asked == ["a", "b"]


@pytest.fixture
def explained(bench, clock):
    """The names of the claims that are explained, where a pass has time for one of them."""
    explain, names = bench.allocator.explain, []

    def slowly(claims, decision):
        clock.now += cycle.EXPLAINING
        names.append(claims[0].metadata.name)
        return explain(claims, decision)

    bench.allocator.explain = slowly
    return names


def test_changes_that_keep_coming_do_not_keep_the_youngest_from_being_told(bench, explained):
    """Three passes explain three, though each decides all of them anew."""
    bench.run(*(bench.delta(claim(name)) for name in "abc"))
    for _ in range(5):
        bench.run(Tick())

    assert "".join(explained) == "abcabc"


def test_claims_that_take_no_annotation_do_not_keep_others_from_being_told(bench, explained, waiting):
    """What was found of them by now is said by Events at least."""
    bench.run(*(bench.delta(body) for body in waiting), bench.delta(claim("y")), bench.delta(claim("z")))
    for _ in range(4):
        bench.run(Tick())

    assert "".join(explained) == "yzabc"


def test_who_comes_while_others_are_explained_anew_is_explained_before_them(bench, explained, waiting):
    """What is said of the others may be a bit old, but of this one nothing was said."""
    bench.run(*(bench.delta(body) for body in waiting))
    bench.run(bench.delta(claim("z")))

    assert "".join(explained) == "az"
