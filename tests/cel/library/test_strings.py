"""Strings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import Abort
from dra_operator.cel.library import strings


@pytest.mark.parametrize(
    ("overload", "arguments", "expected"),
    [
        ("string_char_at_int", ("\u00e9a", 1), "a"),
        ("string_char_at_int", ("ab", 2), ""),
        ("string_index_of_string_int", ("tacocat", "a", 3), 5),
        ("string_index_of_string_int", ("tacocat", "a", 30), -1),
        ("string_index_of_string_int", ("a", "", 99), 1),
        ("string_last_index_of_string_int", ("ab", "", 99), 2),
        ("string_last_index_of_string_int", ("ab", "", 1), 1),
        ("string_last_index_of_string", ("", "@@"), -1),
        ("string_last_index_of_string_int", ("bananananana", "nana", 7), 6),
        ("string_last_index_of_string_int", ("tacocat", "a", 7), -1),
        ("string_replace_string_string_int", ("hello", "", "_", 2), "_h_ello"),
        ("string_split_string_int", ("a b c", " ", 2), ("a", "b c")),
        ("string_split_string_int", ("abc", "", 2), ("a", "bc")),
        ("string_split_string_int", ("abc", "", 9), ("a", "b", "c")),
        ("string_split_string_int", ("a b", " ", 0), ()),
        ("string_split_string", ("", ","), ("",)),
        ("string_split_string", ("", ""), ()),
        ("string_lower_ascii", ("TacoC\u00c6t",), "tacoc\u00c6t"),
        ("string_upper_ascii", ("tacoc\u00e6\u00df",), "TACOC\u00e6\u00df"),
        ("string_trim", ("\u0085\u3000 x \u180e\u200b",), "x \u180e\u200b"),
        ("strings_quote", ('a"\n',), '"a\\"\\n"'),
        ("list_join_string", ((), "-"), ""),
        ("contains_string", ("abc", "bc"), True),
        ("starts_with_string", ("abc", "ab"), True),
        ("ends_with_string", ("abc", "ab"), False),
    ],
)
def test_positions_and_parts_count_characters(call, overload, arguments, expected):
    """A function of strings sees characters, not bytes, and treats the empty text as upstream does."""
    assert call(overload, *arguments) == expected


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
