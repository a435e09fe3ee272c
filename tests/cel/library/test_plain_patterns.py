"""Plain patterns: Python's `re` in the place of RE2, where nobody can tell."""

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.cel.library.plain_patterns import plain_pattern
from dra_operator.cel.library.regex import _OPTIONS

PARTS = st.sampled_from(
    [
        *(
            "a",
            "b",
            "1",
            ".",
            "^",
            "$",
            "|",
            "(",
            ")",
            "(?:",
            ")?",
            "[",
            "]",
            "*",
            "+",
            "?",
            "{2}",
            "{1,3}",
            "-",
        ),
        *("\\", "\\d", "\\D", "\\w", "[a-c]", "[^a]", "[a-c1-]", "(a|b)", "\\.", "h100", "[0-9]+", " "),
    ]
)
TEXTS = st.text(st.sampled_from("ab1h0.\n\r- \\é٤"), max_size=10)


@settings(max_examples=500)
@given(st.lists(PARTS, max_size=8).map("".join), st.lists(TEXTS, max_size=8))
def test_a_plain_pattern_matches_where_re2_matches(pattern, texts):
    """What counts as plain is a pattern for RE2 as well, and both agree on every text."""
    plain = plain_pattern(pattern)
    if plain is None:
        return
    search = plain.search

    compiled = re2.compile(pattern, _OPTIONS)

    assert [search(text) is not None for text in texts] == [
        compiled.search(text) is not None for text in texts
    ]


@pytest.mark.parametrize("pattern", ["^NVIDIA (H100|A100)", "^h[0-9]+$", "80GB$", "L40S?", r"^v\d\.\d+$"])
def test_what_people_write_is_plain(pattern):
    """Anchors, letters, classes and a choice need no RE2."""
    assert plain_pattern(pattern) is not None


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        ".*a.*",
        "a?" * 20 + "a" * 20,
        "(?i)a",
        r"\s",
        r"\bA",
        "é",
        "(a|b)" * 10,
        "[[:alpha:]]",
        "a{,3}",
    ],
)
def test_what_differs_or_may_take_long_is_left_to_re2(pattern):
    """Repetitions of groups, many choices, flags, and whatever the two read differently are not plain."""
    assert plain_pattern(pattern) is None
