"""Quantities: their value, their order, how amounts are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.quantity import (
    MAX_INT64,
    NANO,
    Family,
    Representation,
    format_amount,
    parse_quantity,
    passed_through,
    representation,
)


@pytest.mark.parametrize(
    ("text", "nano"),
    [
        ("1", NANO),
        ("+1", NANO),
        ("-1.5", -1_500_000_000),
        ("500m", 500_000_000),
        ("1u", 1000),
        ("1k", 1000 * NANO),
        ("1Ki", 1024 * NANO),
        ("1.5Ki", 1536 * NANO),
        ("2e3", 2000 * NANO),
        ("2E3", 2000 * NANO),
        ("2E", 2 * 10**18 * NANO),
        ("1E-3", 1_000_000),
        ("0001", NANO),
        ("1.", NANO),
        (".5", 500_000_000),
    ],
)
def test_a_quantity_is_worth_what_it_says(text, nano):
    """A quantity's value is its number times the suffix or exponent."""
    assert parse_quantity(text).nano == nano


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12 GB",
        "1ki",
        "1K",
        "1e",
        "1e+",
        "1 ",
        " 1",
        "1\n",
        "1Kii",
        "\u0661",
        "\uff11",
        "1_0",
        "--1",
        "0x1",
        "1.2.3",
    ],
)
def test_other_text_is_no_quantity(text):
    """Text of another form is refused with its value in the message."""
    with pytest.raises(ValueError, match="is not a quantity such as 16Gi or 500m"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("text", "nano"), [("0.1n", 1), ("-0.1n", -1), ("1.0000000001", NANO + 1), ("1e-300", 1)]
)
def test_digits_finer_than_nano_round_away_from_zero(text, nano):
    """What is asked for is never less than what was written."""
    assert parse_quantity(text).nano == nano


@pytest.mark.parametrize(
    ("text", "amount"), [("8Ei", MAX_INT64), ("-9Ei", -MAX_INT64), ("10E", 10**19), ("7Ei", 7 * 2**60)]
)
def test_only_binary_amounts_are_capped(text, amount):
    """A binary amount ends at 2**63-1; a decimal one does not."""
    assert parse_quantity(text).nano == amount * NANO


@pytest.mark.parametrize("text", ["1e401", "1e100000000", "1E+999999999999", "1" * 5000])
def test_an_amount_beyond_every_use_is_refused_at_once(text):
    """A hostile exponent or length is an error, not a number that fills memory."""
    with pytest.raises(ValueError, match=r"too large|too long"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("nano", "written", "text"),
    [
        (3000 * NANO, Family.DECIMAL, "3k"),
        (3000 * NANO, Family.EXPONENT, "3e3"),
        (2 * 2**30 * NANO, Family.BINARY, "2Gi"),
        (1_500_000_000, Family.BINARY, "1500m"),
        (1_024_500_000_000, Family.BINARY, "1024500m"),
        (1000 * NANO, Family.BINARY, "1k"),
        (1500 * NANO, Family.BINARY, "1500"),
        (-1024 * NANO, Family.BINARY, "-1Ki"),
        (100_000 * NANO, Family.EXPONENT, "100e3"),
        (0, Family.BINARY, "0"),
        (5, Family.DECIMAL, "5n"),
        (5, Family.EXPONENT, "5e-9"),
        (10**21 * NANO, Family.DECIMAL, "1e21"),
    ],
)
def test_an_amount_is_written_in_its_family(nano, written, text):
    """Each family has its suffixes; binary gives way where it would round."""
    assert format_amount(nano, written) == text


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
