"""Conversions between primitive types."""

import pytest

from dra_operator.cel.values import Uint

MAX, MIN, UMAX = 2**63 - 1, -(2**63), 2**64 - 1


@pytest.mark.parametrize(
    ("overload", "argument", "message"),
    [
        ("string_to_bool", "yes", "type conversion error from 'string' to 'bool'"),
        ("string_to_double", "abc", "type conversion error from 'string' to 'double'"),
        ("string_to_int64", "9223372036854775808", "type conversion error from 'string' to 'int'"),
        ("string_to_uint64", "-7", "type conversion error from 'string' to 'uint'"),
        ("string_to_uint64", "+7", "type conversion error from 'string' to 'uint'"),
        ("bytes_to_string", b"\xff", "invalid UTF-8 in bytes, cannot convert to string"),
        ("double_to_int64", float(MAX), "integer overflow"),
        ("double_to_int64", float(MIN), "integer overflow"),
        ("double_to_int64", float("nan"), "integer overflow"),
        ("double_to_uint64", -0.5, "unsigned integer overflow"),
        ("double_to_uint64", 2.0**64, "unsigned integer overflow"),
        ("int64_to_uint64", -1, "unsigned integer overflow"),
        ("uint64_to_int64", Uint(2**63), "integer overflow"),
    ],
)
def test_what_does_not_fit_is_an_error(error, overload, argument, message):
    """A value out of range, or a text of another form, is refused in upstream's words."""
    assert error(overload, argument) == message
