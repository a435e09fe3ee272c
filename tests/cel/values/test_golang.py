"""How Go writes and reads plain values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.values.golang import (
    format_double,
    format_double_positional,
    parse_double,
    parse_integer,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (999999.5, "999999.5"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e21, "1e+21"),
        (1e100, "1e+100"),
        (5e-324, "5e-324"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_a_double_is_written_as_go_writes_it(value, text):
    """The shortest digits, with an exponent below -4 and from 6 on."""
    assert format_double(value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_double_reads_as_itself(value):
    """No digit that matters is lost, in either form, nor the sign of zero."""
    for text in (format_double(value), format_double_positional(value)):
        again = parse_double(text)
        assert again == value
        assert again is not None
        assert math.copysign(1, again) == math.copysign(1, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1.0),
        ("+.5", 0.5),
        ("5.", 5.0),
        ("1_0.5", 10.5),
        ("1e3", 1000.0),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("0x1p-2", 0.25),
        ("1e-999", 0.0),
    ],
)
def test_go_reads_these_as_doubles(text, value):
    """Underscores between digits, hexadecimal and infinities are numbers to Go."""
    assert parse_double(text) == value


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1__0", "_1", "1_", "1e400", "+nan", "0x1", "++1", "\u0661", "1" * 5000]
)
def test_go_reads_these_as_no_doubles(text):
    """White space, other scripts, stray underscores and numbers out of range are none."""
    assert parse_double(text) is None


@pytest.mark.parametrize("text", ["", "+", "1_0", "0x1", " 1", "1.0", "\u0661", "9" * 5000])
def test_go_reads_these_as_no_integers(text):
    """A whole number is a sign and ASCII digits."""
    assert parse_integer(text) is None
