"""Values: types, keys, equality and order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel import values
from dra_operator.cel.errors import CelError
from dra_operator.cel.library.quantities import parse_quantity

numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(values.Uint),
    st.floats(allow_nan=False),
    st.integers(-3, 3),
    st.integers(0, 3).map(values.Uint),
    st.integers(-3, 3).map(float),
)


@given(numbers, numbers)
def test_the_order_of_numbers_goes_with_equality(left, right):
    """Two numbers compare as 0 exactly if they are equal, and swapping them turns the sign."""
    assert (values.cel_compare(left, right) == 0) is values.cel_equal(left, right)
    assert values.cel_compare(left, right) == -values.cel_compare(right, left)


@pytest.mark.parametrize(
    ("left", "right"), [(1, "a"), (None, None), ((), ()), (True, 1), (parse_quantity("1"),) * 2]
)
def test_what_has_no_order_cannot_be_compared(left, right):
    """Only numbers, texts, bytes, truth values and times have an order."""
    with pytest.raises(CelError, match="no such overload"):
        values.cel_compare(left, right)
