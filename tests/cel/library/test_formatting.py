"""`format`."""

import pytest

from dra_operator.cel.errors import Abort
from dra_operator.cel.library.formatting import FormatError, check_literal, format_text


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


@pytest.mark.parametrize(
    ("precision", "value", "expected"),
    [
        (255, 1.5, "1.5" + "0" * 254),
        (256, 1.5, "1.5"),
        (256, 1e20, "100,000,000,000,000,000,000"),
        (300, 1.0, "1." + "0" * 44),
        (300, 1e-320, "0." + "0" * 44),
        (300, -1234.5, "-1,234.5" + "0" * 43),
        (40_000, -1234.1, "-1,234.1" + "0" * 63),
        (65_536, 1.5, "2"),
        (65_792, 2.5, "2.5"),
        (10_000_009, float("nan"), "NaN"),
        (10_000_010, 1.5, "%!(NOVERB)"),
        (2**63 - 1, float("nan"), "%!(NOVERB)"),
    ],
)
def test_a_large_precision_is_cut_to_what_upstream_holds(precision, value, expected):
    """Digits to round to are 16 bits with a sign, zeros to fill up with 8 bits; beyond ten million, none is read."""
    assert format_text(f"%.{precision}f", (value,)) == expected


def test_shared_lists_do_not_explode():
    """A list that holds another one twice, forty levels deep, ends at the limit of texts."""
    nested = ("x",)
    for _ in range(40):
        nested = (nested, nested)

    with pytest.raises(Abort):
        format_text("%s", (nested,))
