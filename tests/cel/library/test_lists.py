"""Lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import Abort
from dra_operator.cel.library import lists
from dra_operator.cel.values import CelMap, Uint, surely_equal


@pytest.mark.parametrize(
    ("overload", "arguments", "message"),
    [
        ("list_int_sum_int", ((2**63 - 1, 1),), "integer overflow"),
        ("list_uint_sum_uint", ((Uint(2**64 - 1), Uint(1)),), "unsigned integer overflow"),
        ("list_int_sum_int", ((1, 1.5),), "no such overload"),
        ("list_int_is_sorted_bool", (((1,),),), "no such overload"),
        ("list_int_min_int", ((),), "min called on empty list"),
        ("list_int_max_int", ((),), "max called on empty list"),
        ("list_slice", ((1,), 0, 5), "cannot slice(0, 5), list is length 1"),
        ("list_slice", ((1,), -1, 0), "cannot slice(-1, 0), negative indexes not supported"),
        (
            "list_slice",
            ((1, 2), 2, 1),
            "cannot slice(2, 1), start index must be less than or equal to end index",
        ),
        ("list_flatten_int", ((), -1), "level must be non-negative"),
        ("lists_range", (-1,), "lists.range: size must be non-negative, got -1"),
    ],
)
def test_what_a_list_cannot_do_is_an_error(error, overload, arguments, message):
    """The error is in upstream's words."""
    assert error(overload, *arguments) == message


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_sorting_orders_and_keeps_the_elements(items):
    """A sorted list has the same elements and is sorted."""
    result = lists.sort(tuple(items))

    assert lists.is_sorted(result)
    assert sorted(items) == list(result)


@given(st.lists(st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=2)), max_size=20))
def test_no_two_distinct_elements_are_equal(items):
    """What `distinct` keeps differs from each other, and nothing else is lost."""
    kept = lists.distinct(tuple(items))

    assert not any(surely_equal(a, b) for i, a in enumerate(kept) for b in kept[:i])
    assert all(any(surely_equal(a, b) or a is b for b in kept) for a in items)


def test_comparing_each_with_each_has_a_limit():
    """Lists that only pairwise comparison can thin out may not be long."""
    with pytest.raises(Abort):
        lists.distinct(tuple(CelMap([("a", i)]) for i in range(2000)))
