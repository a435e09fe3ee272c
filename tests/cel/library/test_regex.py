"""Regular expressions."""

import pytest

from dra_operator.cel.errors import Abort, CelError
from dra_operator.cel.library import regex


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


def test_patterns_of_one_expression_are_limited_together():
    """Each alone is fine; a pattern that is there twice counts once."""
    patterns = regex.Patterns()
    for number in [0] * 20 + list(range(8)):
        patterns.add(rf"\pL{{20}}{number}")

    with pytest.raises(CelError, match="expression too large"):
        patterns.add(r"\pL{20}8")
    with pytest.raises(CelError, match="expression too large"):
        patterns.add("a")
