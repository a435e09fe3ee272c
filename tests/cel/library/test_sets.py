"""Lists as lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.library import lists
from dra_operator.cel.values.values import Uint, surely_equal

items = st.lists(
    st.one_of(st.integers(0, 5), st.integers(0, 5).map(float), st.integers(0, 5).map(Uint)), max_size=6
)


@given(items, items)
def test_sets_are_compared_by_equality_of_elements(left, right):
    """Order and repetition do not count, and numbers are equal across types."""
    one, other = tuple(left), tuple(right)
    within = all(any(surely_equal(a, b) for b in one) for a in other)
    around = all(any(surely_equal(a, b) for b in other) for a in one)

    assert lists.contains_all(one, other) is within
    assert lists.equivalent(one, other) is (within and around)
    assert lists.intersects(one, other) is any(surely_equal(a, b) for a in one for b in other)


@pytest.mark.parametrize(("left", "right", "expected"), [((True,), (1,), False), (((1,),), ((1.0,),), True)])
def test_a_truth_value_is_no_number(left, right, expected):
    """Python takes True for 1; these sets do not. Lists in lists are compared element by element."""
    assert lists.contains_all(left, right) is expected
