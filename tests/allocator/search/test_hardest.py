"""The search that begins with the hardest against the exhaustive one, on tight claims (see `stepfuzz.hard`)."""

from bisect import bisect_left
from random import Random

import pytest

from dra_operator.allocator.budget import Limits
from dra_operator.allocator.decision import Allocated, Decision, Failed, Unsatisfied
from dra_operator.allocator.search.chain import SearchMode
from stepfuzz.hard import Case, ListedCase, LooseCase, OddCase, WholeCase, decide_twice


@pytest.mark.parametrize("make", [Case, OddCase, ListedCase, LooseCase, WholeCase])
@pytest.mark.parametrize("seed", range(8))
def test_it_decides_as_the_plain_search(make: type[Case], seed: int) -> None:
    """Each no is one by trying everything, and each yes is the same devices."""
    for number in range(40):
        case = make(Random(f"test {seed} {number}"), most=6)  # noqa: S311 - a seed makes a run repeatable
        ours, plain = decide_twice(case)
        if plain is not None:
            assert ours == plain, number


def test_a_tight_claim_is_decided_within_few_tries() -> None:
    """Of 32 devices and claims that nearly take all, one at a time, with hardly any budget."""
    decided = 0
    for number in range(40):
        case = Case(Random(f"large {number}"), most=32)  # noqa: S311 - a seed makes a run repeatable
        decision = case.allocator(SearchMode.COUNTING, Limits(tries=300)).allocate(case.claims)
        decided += isinstance(decision, Allocated) or getattr(decision, "kind", "") != "aborted"

    assert decided == 40


def test_a_claim_that_takes_too_many_tries_is_given_up() -> None:
    """That is not a no."""
    case = Case(Random("large 100"), most=32)  # noqa: S311 - a seed makes a run repeatable

    def decide(tries: int) -> Decision:
        return case.allocator(SearchMode.COUNTING, Limits(tries=tries)).allocate(case.claims)

    tries = bisect_left(range(1000), True, key=lambda number: decide(number) == Unsatisfied())
    given_up = decide(tries - 1)

    assert tries
    assert isinstance(given_up, Failed)
    assert given_up.kind == "aborted"
