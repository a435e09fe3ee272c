"""Strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import Abort
from dra_operator.cel.library import strings


@pytest.mark.parametrize(
    ("overload", "arguments", "message"),
    [
        ("string_char_at_int", ("ab", 3), "index out of range: 3"),
        ("string_char_at_int", ("ab", -1), "index out of range: -1"),
        ("string_index_of_string_int", ("ab", "a", -1), "index out of range: -1"),
        ("string_index_of_string_int", ("ab", "", -1), "index out of range: -1"),
        ("string_last_index_of_string_int", ("ab", "a", -1), "index out of range: -1"),
        ("string_substring_int", ("ab", 3), "index out of range: 3"),
        ("string_substring_int_int", ("ab", 2, 1), "invalid substring range. start: 2, end: 1"),
        ("string_substring_int_int", ("ab", 1, 9), "index out of range: 9"),
        ("list_join", (("a", 1),), "join: invalid input: 1"),
    ],
)
def test_a_position_out_of_range_is_an_error(error, overload, arguments, message):
    """The error names the position."""
    assert error(overload, *arguments) == message


@given(st.text(), st.text(min_size=1))
def test_splitting_and_joining_are_inverse(text, separator):
    """The parts of a text, joined again, are the text."""
    assert strings.join(strings.split(text, separator), separator) == text


@pytest.mark.parametrize(
    "grow",
    [
        lambda: strings.replace("a" * 10_000, "", "b" * 10_000),
        lambda: strings.join(("a" * 10_000,) * 200, ""),
        lambda: strings.quote("\n" * 900_000),
    ],
    ids=["replace", "join", "quote"],
)
def test_a_text_cannot_grow_without_end(grow):
    """What would outgrow the cost limit of an evaluation ends it, before memory is taken."""
    with pytest.raises(Abort, match="cost limit exceeded"):
        grow()
