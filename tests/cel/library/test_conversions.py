"""Conversions between primitive types."""

import pytest

from dra_operator.cel.values.values import Uint

MAX, MIN, UMAX = 2**63 - 1, -(2**63), 2**64 - 1


@pytest.mark.parametrize(
    ("overload", "argument", "expected"),
    [
        ("string_to_bool", "t", True),
        ("string_to_bool", "FALSE", False),
        ("string_to_bytes", "\u00ff", b"\xc3\xbf"),
        ("bytes_to_string", b"\xc3\xbf", "\u00ff"),
        ("int64_to_double", MAX, 2.0**63),
        ("string_to_double", "-987.654", -987.654),
        ("double_to_int64", -7.9, -7),
        ("string_to_int64", "-9223372036854775808", MIN),
        ("uint64_to_int64", Uint(MAX), MAX),
        ("double_to_uint64", 25.5, Uint(25)),
        ("int64_to_uint64", 5, Uint(5)),
        ("string_to_uint64", "18446744073709551615", Uint(UMAX)),
        ("bool_to_string", True, "true"),
        ("int64_to_string", -456, "-456"),
        ("uint64_to_string", Uint(9), "9"),
        ("double_to_string", 1e6, "1e+06"),
    ],
)
def test_a_conversion_keeps_the_value(call, overload, argument, expected):
    """The result has the target's type and the value of the argument, without its fraction."""
    result = call(overload, argument)

    assert (result, type(result)) == (expected, type(expected))


@pytest.mark.parametrize("letter", ["1", "t", "T", "true", "TRUE", "True"])
def test_a_truth_value_has_six_spellings(call, letter):
    """Go's ParseBool takes the digit, the letter in both cases and three ways to write the word, for both values."""
    opposite = {"1": "0", "t": "f", "T": "F", "true": "false", "TRUE": "FALSE", "True": "False"}[letter]

    assert call("string_to_bool", letter) is True
    assert call("string_to_bool", opposite) is False


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
