"""Costs: the most that an expression can cost, and what it has cost."""

import pytest

from dra_operator.cel.cost.prices import UNBOUNDED, Range
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_program, compile_selector
from dra_operator.cel.run.meter import Meter


def test_an_evaluation_ends_at_its_limit(device):
    """Once more was spent than allowed, the evaluation is over, and nothing absorbs that."""
    program = compile_program("lists.range(1000).all(i, i < 1000) || true")

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        program.evaluate(device, Meter(500))


def test_an_expensive_selector_is_metered(device):
    """A selector whose worst case is near the limit is stopped there."""
    text = "lists.range(300).all(i, lists.range(300).all(j, lists.range(300).all(k, k < 300)))"
    selector = compile_selector(text)

    with pytest.raises(CelError, match="actual cost limit exceeded"):
        selector.match(device)


def test_ranges_stay_unbounded():
    """Sums and products never exceed the largest number there is."""
    unknown = Range(0, UNBOUNDED)

    assert unknown.plus(Range(1, 1)) == Range(1, UNBOUNDED)
    assert unknown.times(Range(2, 2)) == Range(0, UNBOUNDED)
    assert unknown.scaled(0.1).high == 1844674407370955264
