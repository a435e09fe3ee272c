"""How Go holds what it reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.quantity import Family, Representation, parse_quantity, passed_through, representation


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", Representation(0, 0, Family.DECIMAL, "0")),
        ("00", Representation(0, 0, Family.DECIMAL)),
        ("8G", Representation(8, 9, Family.DECIMAL, "8G")),
        ("8000M", Representation(8000, 6, Family.DECIMAL)),
        ("+5", Representation(5, 0, Family.DECIMAL, "+5")),
        ("-1.5", Representation(-15, -1, Family.DECIMAL)),
        ("0.500", Representation(500, -3, Family.DECIMAL)),
        ("1.500", Representation(1500, -3, Family.DECIMAL, "1.500")),
        ("12e2", Representation(12, 2, Family.EXPONENT)),
        ("12e3", Representation(12, 3, Family.EXPONENT, "12e3")),
        ("8Gi", Representation(8 << 30, 0, Family.BINARY)),
        ("9Gi", Representation(9 << 30, 0, Family.BINARY, "9Gi")),
        ("99999Gi", Representation(99999 << 30, 0, Family.BINARY, "99999Gi")),
        ("100000Gi", None),
        ("99Ti", Representation(99 << 40, 0, Family.BINARY, "99Ti")),
        ("100Ti", None),
        ("1Pi", None),
        ("1.5Gi", None),
        ("999999999999999999", Representation(10**18 - 1, 0, Family.DECIMAL, "999999999999999999")),
        ("1000000000000000000", None),
        ("1n", Representation(1, -9, Family.DECIMAL, "1n")),
        ("0.1n", None),
    ],
)
def test_a_text_is_held_as_go_holds_it(text: str, expected: Representation | None) -> None:
    """Digits and scale as written, the text if it is canonical, and nothing for large and odd amounts."""
    assert representation(text) == expected


def test_what_is_not_a_quantity_is_not_held() -> None:
    """The same error as from reading it."""
    with pytest.raises(ValueError, match="not a quantity"):
        representation("12 GB")


@given(
    st.sampled_from(["", "-", "+"]),
    st.from_regex(r"[0-9]{1,20}(\.[0-9]{0,12})?", fullmatch=True),
    st.sampled_from(
        ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
    ),
)
def test_passing_through_keeps_the_amount(sign: str, number: str, suffix: str) -> None:
    """The text may change, and still stands for the amount that was read."""
    text = sign + number + suffix
    written = passed_through(text)

    assert written == parse_quantity(written.text) == parse_quantity(text)
