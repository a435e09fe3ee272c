"""Long lists in one line."""

import pytest

from dra_operator.api.shortened import printable, shortened


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        pytest.param([], [], id="none"),
        pytest.param(["a", "b", "c"], ["a", "b", "c"], id="few"),
        pytest.param(["a", "b", "c", "d", "e"], ["a", "b", "c", "2 more"], id="many"),
    ],
)
def test_three_are_told_and_how_many_more(texts: list[str], told: list[str]) -> None:
    """None is left out without a word."""
    assert shortened(texts) == told


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
