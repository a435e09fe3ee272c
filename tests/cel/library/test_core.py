"""Operators: arithmetic within 64 bits, equality across types, order, membership."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import CelError
from dra_operator.cel.library import core
from dra_operator.cel.values import Duration, Timestamp, Uint

ints = st.integers(-(2**63), 2**63 - 1)


@given(ints, ints)
def test_division_and_remainder_belong_together(left, right):
    """Quotient * divisor + remainder is the dividend, and the remainder has its sign."""
    if right == 0 or (left, right) == (-(2**63), -1):
        return
    remainder = core.modulo(left, right)

    assert core.divide(left, right) * right + remainder == left
    assert remainder == 0 or (remainder < 0) == (left < 0)


@pytest.mark.parametrize(
    ("operation", "left", "right", "message"),
    [
        (core.add, 2**63 - 1, 1, "integer overflow"),
        (core.subtract, Uint(0), Uint(1), "unsigned integer overflow"),
        (core.multiply, 2**62, 2, "integer overflow"),
        (core.divide, -(2**63), -1, "integer overflow"),
        (core.divide, 1, 0, "division by zero"),
        (core.modulo, Uint(1), Uint(0), "modulus by zero"),
        (core.modulo, -(2**63), -1, "integer overflow"),
        (core.add, 1, Uint(1), "no such overload"),
        (core.add, True, True, "no such overload"),
        (core.less, 1, "a", "no such overload"),
        (core.less, float("nan"), 1.0, "NaN values cannot be ordered"),
        (core.contained, "a", "abc", "no such overload"),
        (core.add, Timestamp(253402300799 * 10**9), Duration(10**9), "timestamp overflow"),
    ],
)
def test_what_has_no_result_is_an_error(operation, left, right, message):
    """Overflow, division by zero and operands without a meaning raise with upstream's words."""
    with pytest.raises(CelError, match=message):
        operation(left, right)


@pytest.mark.parametrize("text", ["dyn(semver('1.0.0')) == 'a'", "quantity('1') == quantity('0').add(1)"])
def test_a_custom_type_refuses_to_be_compared_with_another(evaluate, text):
    """A version on the left of `==` and a text on the right is an error, not false."""
    with pytest.raises(CelError, match="no such overload"):
        evaluate(text)


def test_a_value_that_go_cannot_hash_ends_the_evaluation(evaluate):
    """Looking up bytes in a constant set is a panic upstream; nothing absorbs it."""
    with pytest.raises(CelError, match=r"unhashable type types\.Bytes"):
        evaluate("dyn(b'a') in ['a'] || true")


def test_a_failed_list_cannot_be_sorted_forgivingly(evaluate):
    """Upstream panics when it counts the cost of sorting what has failed; nothing absorbs that."""
    with pytest.raises(CelError, match="internal error"):
        evaluate("[device.attributes['dra.example.com'].nope > 1].sort() == [] || true")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("[null, null].sort()", "list elements must be comparable"),
        ("[1, 2].sortBy(x, dyn([x]))", "list elements must be comparable"),
        ("dyn(1).sort()", "no such overload: sort"),
        ("cel.bind(m, {1: 2}, dyn(m).sortBy(x, x))", "no such overload: @sortByAssociatedKeys"),
    ],
)
def test_what_cannot_be_sorted_is_told_in_upstreams_words(evaluate, text, message):
    """Whatever the types are said to be, sorting itself looks at the elements."""
    with pytest.raises(CelError) as caught:
        evaluate(text)

    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dyn('a').exists(x, true)", "got 'types.String', expected iterable type"),
        ("dyn(type(1)).exists(x, true)", "got '*types.Type', expected iterable type"),
        ("{1: 1}[dyn(1000000.0)]", "no such key: 1e+06"),
        ("{1: 1}[dyn(1.0 / 0.0)]", "no such key: +Inf"),
        ("[dyn(1e19)].map(x, [0][x])", "unsupported index value 1e+19 in list"),
        ("[dyn([1])].map(x, {0: 0}[x])", "invalid qualifier type: *types.baseList"),
        ("{0: 0}[dyn(quantity('1'))]", "invalid qualifier type: cel.Quantity"),
        (
            "dyn(format.uri()) in [1]",
            "internal error: runtime error: hash of unhashable type cel.Format",
        ),
        (
            "[duration('1s'), duration('1s')].transformMapEntry(i, x, {x: i})",
            "insert failed: key google.protobuf.Duration already exists",
        ),
    ],
)
def test_an_error_names_a_value_as_upstream_does(evaluate, text, message):
    """Numbers as Go writes them, types by the names they have in Go, nothing by its name in Python."""
    with pytest.raises(CelError) as caught:
        evaluate(text)

    assert caught.value.message == message
