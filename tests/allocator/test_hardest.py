"""The search that begins with the hardest against the plain one, on tight claims (see `stepfuzz.hard`)."""

from random import Random

import pytest

from dra_operator.allocator import Allocated, Limits, Searching
from stepfuzz.hard import Case, decide_twice


@pytest.mark.parametrize("seed", range(8))
def test_it_decides_as_the_plain_search(seed: int) -> None:
    """Each no is one by trying everything, and each yes is the same devices."""
    for number in range(40):
        case = Case(Random(f"test {seed} {number}"), most=6)  # noqa: S311 - a seed makes a run repeatable
        ours, plain = decide_twice(case)
        if plain is not None:
            assert ours == plain, number


def test_a_tight_claim_is_decided_within_few_tries() -> None:
    """Of 32 devices and claims that nearly take all, one at a time, with hardly any budget."""
    decided = 0
    for number in range(40):
        case = Case(Random(f"large {number}"), most=32)  # noqa: S311 - a seed makes a run repeatable
        decision = case.allocator(Searching.COUNTING, Limits(tries=300)).allocate(case.claims)
        decided += isinstance(decision, Allocated) or getattr(decision, "kind", "") != "aborted"

    assert decided == 40
