"""Texts for people: quoted, shortened, printable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.text import cut, printable, quote


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ('a"b\\', '"a\\"b\\\\"'),
        ("\n\t", '"\\n\\t"'),
        ("\x00\x7f", '"\\x00\\x7f"'),
        ("\u00e9 \u200b \U000e0001", '"\u00e9 \\u200b \\U000e0001"'),
    ],
)
def test_a_text_is_quoted_as_go_quotes_it(text, quoted):
    """What prints stays, what does not is escaped."""
    assert quote(text) == quoted


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("värld 世界 🐅", "värld 世界 🐅", id="letters of all sorts"),
        pytest.param("two\nlines", r"two\nlines", id="an end of line"),
        pytest.param("\x1b[31mred", r"\x1b[31mred", id="an order to a terminal"),
        pytest.param("h100\u200b", r"h100\u200b", id="a blank that nobody sees"),
        pytest.param("a\u202eb", r"a\u202eb", id="a turn of direction"),
    ],
)
def test_what_does_not_print_is_written_as_in_a_literal(text: str, told: str) -> None:
    """A text stays one line, and shows what is in it."""
    assert printable(text) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x" * 45, "x" * 45),
        ("x" * 46, f"{'x' * 20} ... {'x' * 20}"),
        ("\u20ac" * 20, "\u20ac" * 6 + " ... " + "\u20ac" * 6),
        (f"{'x' * 17} {'y' * 30} {'z' * 17}", f"{'x' * 17} ... {'z' * 17}"),
        (f"{'x' * 16}, y{' y' * 30}; {'z' * 16}", f"{'x' * 16} ... {'z' * 16}"),
    ],
    ids=["just fits", "one too many", "between characters", "between words", "between items"],
)
def test_a_text_is_cut_in_its_middle(text: str, told: str) -> None:
    """Between items, between words, never inside a character."""
    assert cut(text, 45) == told


@given(st.text("a, ;\u00e9\u20ac\U0001f405", min_size=40))
def test_a_text_that_is_too_long_keeps_how_it_begins_and_how_it_ends(text: str) -> None:
    """There is something of each, and characters stay whole."""
    told = cut(text, 40)

    head, _, tail = told.partition(" ... ")
    assert len(told.encode()) <= 40
    assert told == text or (text.startswith(head) and text.endswith(tail))
    assert told == text or min(len(head.encode()), len(tail.encode())) >= 6
