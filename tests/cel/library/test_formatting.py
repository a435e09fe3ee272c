"""`format`."""

import pytest

from dra_operator.cel.errors import Abort
from dra_operator.cel.library.formatting import FormatError, check_literal, format_text
from dra_operator.cel.library.quantities import parse_quantity
from dra_operator.cel.values import CelMap, Duration, Timestamp, TypeValue, Uint


@pytest.mark.parametrize(
    ("text", "arguments", "expected"),
    [
        ("%%%s%%", ("x",), "%x%"),
        ("%d %d", (-5, Uint(7)), "-5 7"),
        ("%.0f %.0f", (1.5, 2.5), "2 2"),
        ("%.3f", (1.2345,), "1.234"),
        ("%.2f", (2.675,), "2.67"),
        ("%.1f", (-0.0,), "0.0"),
        ("%f", (1234567.5,), "1,234,567.500000"),
        ("%f", (float("-inf"),), "-\u221e"),
        ("%e", (1052.032911275,), "1.052033\u00d710\u2070\u00b3"),
        ("%e", (0.00012,), "1.200000\u00d710\u207b\u2070\u2074"),
        ("%b %b", (-5, True), "-101 1"),
        ("%o", (11,), "13"),
        ("%x %X", (b"k", "z"), "6b 7A"),
        ("%X", (-255,), "-FF"),
        ("%s", (None,), "null"),
        ("%s", (1.0,), "1"),
        ("%s", (TypeValue("int"),), "int"),
        ("%s", (Timestamp(0),), "1970-01-01T00:00:00Z"),
        ("%s", (("a", 1.5, None, b"b", Duration(10**9)),), '["a", 1.500000, null, b"b", duration("1s")]'),
        ("%s", (CelMap([("b", 1), ("a", (float("nan"),))]),), '{"a":["NaN"], "b":1}'),
        ("%s", (CelMap([(True, 1), (2, 2)]),), "{2:2, true:1}"),
        ("%s", (("\u200b\x00",),), '["\\u200b\\x00"]'),
        ("%f", ("NaN",), "NaN"),
        ("%.14e", (1.5,), " 1.500000\u00d710\u2070\u2070"),
    ],
)
def test_a_clause_writes_its_argument(text, arguments, expected):
    """Each letter has its form; values within lists and maps are literals of CEL, maps sorted by key."""
    assert format_text(text, arguments) == expected


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (
            "%d",
            ("a",),
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("%s %s", ("a",), "index 1 out of range"),
        ("%", ("a",), "unexpected end of string"),
        (
            "%d %z",
            ("a", 1),
            "error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("%5d", (1,), 'could not parse formatting clause: unrecognized formatting clause "5"'),
    ],
)
def test_a_wrong_clause_is_an_error(error, text, arguments, message):
    """The error is in upstream's words."""
    assert error("string_format", text, arguments) == message


def test_a_precision_without_a_letter_is_an_error(error):
    """A clause ends with its letter."""
    assert error("string_format", "%.3", (1,)).endswith("could not find end of precision specifier")


def test_a_value_without_a_text_form_is_an_error(error):
    """Quantities, and maps by double, cannot be written."""
    assert "was given kubernetes.Quantity" in error("string_format", "%s", (parse_quantity("1"),))
    assert "map key of type double" in error("string_format", "%s", (CelMap([(1.5, 1)]),))


def test_a_literal_is_checked_by_types_alone():
    """What is wrong whatever the values are is found while compiling; dyn may be anything."""
    check_literal("%d %s %f", [["int"], ["dyn"], ["string"]])
    with pytest.raises(FormatError, match="fixed-point clause can only be used on doubles, was given int"):
        check_literal("%f", [["int"]])
    with pytest.raises(FormatError, match=r"was given kubernetes\.Quantity"):
        check_literal("%s", [["list", "int", "kubernetes.Quantity"]])
    with pytest.raises(
        FormatError, match=r"too many arguments supplied to string.format \(expected 1, got 2\)"
    ):
        check_literal("%d", [["int"], ["int"]])


@pytest.mark.parametrize("text", ["%.999999999f", "%.2000e"])
def test_a_precision_has_a_limit(text):
    """A text of a billion digits is not worth an allocation."""
    with pytest.raises(Abort):
        format_text(text, (1.5,))


def test_shared_lists_do_not_explode():
    """A list that holds another one twice, forty levels deep, ends at the limit of texts."""
    nested = ("x",)
    for _ in range(40):
        nested = (nested, nested)

    with pytest.raises(Abort):
        format_text("%s", (nested,))
