"""Quantities in expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.quantity import parse_quantity as parse_amount
from dra_operator.cel.errors import Abort, CelError
from dra_operator.cel.library.quantities import add, as_integer, is_integer, parse_quantity, sub, sub_int
from dra_operator.cel.values.values import cel_equal

texts = st.from_regex(
    r"[+-]?[0-9]{1,22}(\.[0-9]{0,12})?(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})?", fullmatch=True
)


@given(texts)
def test_both_readers_agree_on_the_amount(text):
    """An expression reads the amount that a slice publishes."""
    assert parse_quantity(text).nano == parse_amount(text).nano


@pytest.mark.parametrize(("text", "left"), [("3", -(2**63) + 3), ("0", -(2**63)), ("-3", 2**63 - 3)])
def test_subtracting_the_smallest_int_wraps_as_in_go(text, left):
    """Go adds the opposite, which is the same number; only where that overflows does it compute exactly."""
    assert sub_int(parse_quantity(text), -(2**63)).nano == left * 10**9


@pytest.mark.parametrize(("text", "held"), [("3", True), ("0", True), ("-3", False)])
def test_what_left_64_bits_on_the_way_is_no_integer_any_more(text, held):
    """Go holds it as a decimal from then on, although the difference would fit."""
    assert is_integer(sub_int(parse_quantity(text), -(2**63))) is held


@given(texts, texts)
def test_subtracting_undoes_adding(left, right):
    """Arithmetic is exact, whatever form the amounts are held in."""
    a, b = parse_quantity(left), parse_quantity(right)

    assert sub(add(a, b), b).nano == a.nano


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1k", True),
        ("1E", True),
        ("999999999999999999", True),
        ("1000m", False),
        ("1.5Ki", False),
        ("1Ei", False),
        ("9223372036854775807", False),
        ("10E", False),
        (".", True),
        ("0.0000000000", False),
    ],
)
def test_is_integer_tells_how_go_holds_an_amount(text, expected):
    """Not the value decides, but whether it fits 64 bits as it is written."""
    assert is_integer(parse_quantity(text)) is expected


def test_an_amount_that_left_64_bits_stays_a_decimal():
    """A sum beyond 64 bits is no integer any more, nor what is subtracted from it."""
    large, one = parse_quantity("9E"), parse_quantity("1")
    within = add(large, one)
    beyond = add(within, large)

    assert as_integer(within) == 9 * 10**18 + 1
    assert not is_integer(beyond)
    assert not is_integer(sub(beyond, large))


def test_a_computed_amount_may_not_stand_on_the_right():
    """Upstream returns a pointer from `add`, which its own comparison does not know."""
    one, two = parse_quantity("1"), parse_quantity("2")

    assert cel_equal(add(one, one), two)
    with pytest.raises(CelError, match="no such overload"):
        cel_equal(two, add(one, one))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("200K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1i5", "unable to parse quantity's suffix"),
        ("10Mo", "quantities must match the regular expression"),
        ("", "quantities must match the regular expression"),
        (" 1", "quantities must match the regular expression"),
        ("1KI", "quantities must match the regular expression"),
        ("-Pi", "unable to parse numeric part of quantity"),
    ],
)
def test_the_error_says_whether_the_suffix_or_the_form_is_wrong(error, text, message):
    """There are two complaints about a text that is no quantity."""
    assert error("string_to_quantity", text).startswith(message)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("50.703k", 50703.0),
        ("0.1", 0.1),
        ("1n", 1e-9),
        ("1Gi", 1073741824.0),
        ("1e400", float("inf")),
        ("100Ei", 2.0**63),
    ],
)
def test_the_float_is_rounded_as_go_rounds(call, text, value):
    """The coefficient times the power of ten."""
    assert call("quantity_get_float", parse_quantity(text)) == value


def test_huge_exponents_are_bounded():
    """Up to 1e100000 amounts are exact; beyond, the evaluation ends instead of computing for minutes."""
    assert str(parse_quantity("1e100000")) == "10e99999"
    with pytest.raises(Abort):
        parse_quantity("1e100001")


@pytest.mark.parametrize(
    ("text", "shown"),
    [("1.5G", "1500M"), ("1024Mi", "1Gi"), ("3e3", "3e3"), ("0.1n", "1n"), ("012", "012"), ("1E3", "1E3")],
)
def test_a_quantity_is_shown_as_go_shows_it(text, shown):
    """In the canonical form of its family, unless Go keeps the text it read."""
    assert str(parse_quantity(text)) == shown


def test_a_sum_is_shown_in_the_canonical_form():
    """Go keeps no text for what it has computed."""
    assert str(add(parse_quantity("012"), parse_quantity("1E3"))) == "1012"


def test_a_zero_of_any_scale_is_zero():
    """Zero finer than nano is equal to zero, stays cheap, and changes nothing but the rounding of a float."""
    zero = parse_quantity("0e-999999999")
    total = add(parse_quantity("29G"), zero)

    assert (zero.nano, total.nano) == (0, 29 * 10**18)
    assert not is_integer(total)
