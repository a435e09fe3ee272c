"""How Go writes and reads plain values."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.values import (
    format_double,
    format_double_positional,
    parse_double,
)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_double_reads_as_itself(value):
    """No digit that matters is lost, in either form, nor the sign of zero."""
    for text in (format_double(value), format_double_positional(value)):
        again = parse_double(text)
        assert again == value
        assert again is not None
        assert math.copysign(1, again) == math.copysign(1, value)


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1__0", "_1", "1_", "1e400", "+nan", "0x1", "++1", "\u0661", "1" * 5000]
)
def test_go_reads_these_as_no_doubles(text):
    """White space, other scripts, stray underscores and numbers out of range are none."""
    assert parse_double(text) is None
