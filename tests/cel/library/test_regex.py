"""Regular expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.cel.errors import Abort, CelError
from dra_operator.cel.library import regex


@pytest.mark.parametrize(
    ("text", "expression", "expected"),
    [
        ("hubba", "ubb", True),
        ("hubba", "^ubb", False),
        ("\u00e9", "^.$", True),
        ("a\nb", "a.b", False),
        ("", "", True),
    ],
)
def test_a_pattern_matches_a_part(text, expression, expected):
    """A match is anywhere in the text; a point is a character, and no line end."""
    assert regex.matches(text, expression) is expected
    assert regex.matches(text, expression) is expected  # remembered


@pytest.mark.parametrize(
    ("text", "expression", "limit", "expected"),
    [
        ("aab", "a*", -1, ("aa", "")),
        ("abc", "", -1, ("", "", "", "")),
        ("abc", "x*", -1, ("", "", "", "")),
        ("\u00e91\u00e92", "[0-9]", -1, ("1", "2")),
        ("1 2 3", "[0-9]", 2, ("1", "2")),
        ("1 2 3", "[0-9]", 0, ()),
        ("ab ab", r"\bab", -1, ("ab", "ab")),
    ],
)
def test_all_matches_are_those_of_go(text, expression, limit, expected):
    """An empty match right behind another one does not count."""
    assert regex.find_all(text, expression, limit) == expected


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("(", "missing closing ): `(`"),
        ("[", "missing closing ]: `[`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        (")", "unexpected ): `)`"),
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
        (r"(\w)\1", r"invalid escape sequence: `\1`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"\C", r"invalid escape sequence: `\C`"),
    ],
)
def test_a_wrong_pattern_is_refused_in_gos_words(error, expression, words):
    """What RE2 says is told as Go's parser tells it."""
    assert error("matches", "a", expression) == f"error parsing regexp: {words}"


def test_the_functions_of_kubernetes_call_a_wrong_pattern_illegal(error):
    """`find` and `findAll` put two words before the error."""
    assert (
        error("string_find_string", "a", "(") == "Illegal regex: error parsing regexp: missing closing ): `(`"
    )


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("x" * 20_000, "((a?){100}){9}"),
        ("a" * 100_000, "a{1000}b"),
        ("", "(((a{30}){30}){30}){30}"),
        ("", "a" * 20_000),
    ],
)
def test_a_hostile_pattern_ends_early(text, expression):
    """Too large a program, or too much work for it, is an error and not a delay."""
    with pytest.raises((Abort, Exception), match=r"cost limit exceeded|too large|repeat count"):
        regex.find_all(text, expression)


@given(st.lists(st.text(max_size=4), max_size=30))
def test_remembered_answers_are_right(texts):
    """A pattern answers the same with its table as without."""
    pattern = regex.Pattern("^[a-m]*$")

    for text in texts + texts:
        assert pattern.matches(text) is regex.Pattern("^[a-m]*$").matches(text)


def test_the_table_of_answers_is_bounded():
    """Ever new texts do not fill memory."""
    pattern = regex.Pattern("a")
    for i in range(10_000):
        pattern.matches(str(i))
    pattern.matches("a" * 1000)

    assert len(pattern._answers) <= 4096
    assert "a" * 1000 not in pattern._answers


def test_what_is_wrong_with_a_pattern_is_found_out_once():
    """Each error is a new one, since an error gets a place in an expression; the pattern is not read again."""
    regex._known.cache_clear()
    errors = []
    for _ in range(3):
        with pytest.raises(CelError, match="missing closing") as caught:
            regex.pattern("(a")
        errors.append(caught.value)

    assert len(set(map(id, errors))) == 3
    assert regex._known.cache_info().misses == 1


def test_patterns_of_one_expression_are_limited_together():
    """Each alone is fine; a pattern that is there twice counts once."""
    patterns = regex.Patterns()
    for number in [0] * 20 + list(range(8)):
        patterns.add(rf"\pL{{20}}{number}")

    with pytest.raises(CelError, match="expression too large"):
        patterns.add(r"\pL{20}8")
    with pytest.raises(CelError, match="expression too large"):
        patterns.add("a")
