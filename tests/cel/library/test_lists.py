"""Lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import Abort
from dra_operator.cel.library import lists
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values.values import CelMap, Duration, Timestamp, Uint, surely_equal

NAN = float("nan")


@pytest.mark.parametrize(
    ("overload", "arguments", "expected"),
    [
        ("list_int_is_sorted_bool", ((1, 1, 2),), True),
        ("list_string_is_sorted_bool", (("b", "a"),), False),
        ("list_int_is_sorted_bool", ((1, "a", 2),), True),
        ("list_double_is_sorted_bool", ((2.0, NAN, 1.0),), True),
        ("list_int_sum_int", ((),), 0),
        ("list_uint_sum_uint", ((Uint(1), Uint(2)),), Uint(3)),
        ("list_duration_sum_duration", ((Duration(1), Duration(2)),), Duration(3)),
        ("list_timestamp_min_timestamp", ((Timestamp(2), Timestamp(1)),), Timestamp(1)),
        ("list_double_max_double", ((1.0, NAN, 2.0),), 2.0),
        ("list_a_index_of_int", ((1, 2, 2), 2.0), 1),
        ("list_a_last_index_of_int", ((1, 2, 2), Uint(2)), 2),
        ("list_a_index_of_int", ((parse_quantity("1"),), "1"), -1),
        ("list_includes_dyn_dyn", ((1, "a"), "a"), True),
        ("list_includes_dyn_dyn", (1, 1.0), True),
        ("list_includes_dyn_dyn", (parse_quantity("1"), "1"), False),
        ("list_slice", ((1, 2, 3, 4), 1, 3), (2, 3)),
        ("list_flatten", ((1, (2, (3,))),), (1, 2, (3,))),
        ("list_flatten_int", ((1, (2, (3,))), 9), (1, 2, 3)),
        ("list_flatten_int", (((1,),), 0), ((1,),)),
        ("list_distinct", ((1, 2, 1),), (1, 2)),
        ("list_distinct", ((1, 1.0, True, Uint(1), "1"),), (1, True, "1")),
        ("list_distinct", ((NAN, NAN),), (NAN, NAN)),
        ("list_reverse", ((1, 2),), (2, 1)),
        ("lists_range", (3,), (0, 1, 2)),
    ],
)
def test_a_list_function_answers(call, overload, arguments, expected):
    """Each function gives what upstream's gives; numbers are equal across types, errors are not equal."""
    result = call(overload, *arguments)

    assert repr(result) == repr(expected)


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


def test_a_range_has_a_limit(error):
    """A million elements are too many."""
    assert error("lists_range", 1_000_001) == "lists.range: size 1000001 exceeds maximum allowed (1000000)"


def test_comparing_each_with_each_has_a_limit():
    """Lists that only pairwise comparison can thin out may not be long."""
    with pytest.raises(Abort):
        lists.distinct(tuple(CelMap([("a", i)]) for i in range(2000)))
