"""Literals: numbers within 64 bits, strings with the escapes of the language."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel import STORED, CelError
from dra_operator.cel.syntax import builder
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.values.values import Uint


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("''", ""),
        ("'a\\n\\t\\\\\\'\\?\\`'", "a\n\t\\'?`"),
        ("'\\x41\\u00e9\\U0001F600\\101'", "A\u00e9\U0001f600A"),
        ("r'\\d'", "\\d"),
        ("'''a'b\n'''", "a'b\n"),
        ('"""x"y"""', 'x"y'),
        ("'''a\r\nb'''", "a\nb"),
        ("b'\\xff\\000'", b"\xff\x00"),
        ("b'\u00ff'", b"\xc3\xbf"),
        ("br'\\x'", b"\\x"),
        ("0x1F", 31),
        ("-0xA", -10),
        ("1u", Uint(1)),
        ("0xffu", Uint(255)),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("null", None),
        ("true", True),
    ],
)
def test_a_literal_has_this_value(text, value):
    """Each kind of literal is read as cel-go reads it, type included."""
    read = parse(text, STORED).value

    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "text", ["18446744073709551616u", "1e999", "-9223372036854775809", "0xffffffffffffffff"]
)
def test_numbers_out_of_range_are_refused(text):
    """A number that 64 bits cannot hold is an error of the expression."""
    with pytest.raises(CelError, match="invalid"):
        parse(text, STORED)


def test_two_signs_leave_the_smallest_int_without_its_own():
    """`--9223372036854775808` is two operators before a number that is no int."""
    with pytest.raises(CelError) as raised:
        parse("--9223372036854775808", STORED)

    assert raised.value.position == 2


def test_a_very_long_number_is_refused_quickly():
    """Digits by the thousand never become a number of Python."""
    with pytest.raises(CelError, match="invalid int literal"):
        builder.integer("9" * 9000, 0)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")))
def test_a_raw_triple_quoted_string_is_its_text(text):
    """What stands in a raw string is what it says, unless it ends the string."""
    if "'''" in text or text.endswith("'"):
        return
    assert parse(f"r'''{text}'''", STORED).value == text
