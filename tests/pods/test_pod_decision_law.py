"""Random worlds: a gated pod gets the first node on which it fits by brute force. `python -m decisionfuzz` has more."""

import pytest

from decisionfuzz.judge import find_error
from decisionfuzz.world import make_world


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_decision_is_that_of_brute_force(first: int) -> None:
    """The pod fits exactly when all its claims fit on some node; it gets the first by name, and what it asks for."""
    errors = {number: find_error(make_world(f"1 {number}")) for number in range(first, first + 50)}

    assert {number: error for number, error in errors.items() if error} == {}
