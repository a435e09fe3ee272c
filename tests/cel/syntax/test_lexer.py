"""Lexer: tokens told apart by what the parser can go on with."""

import pytest

from dra_operator.cel.environment import STORED
from dra_operator.cel.errors import CelError
from dra_operator.cel.syntax.nodes import Call, Literal, Select
from dra_operator.cel.syntax.parser import parse


@pytest.fixture
def tree():
    """Return a function that parses an expression."""
    return lambda text: parse(text, STORED)


def test_a_minus_before_a_value_is_its_sign(tree):
    """Where a value may start, `-1` is one number."""
    read = tree("-1")

    assert type(read) is Literal
    assert read.value == -1


def test_a_minus_after_a_value_is_an_operator(tree):
    """After a value, the same two characters are a minus and a one."""
    read = tree("2 -1")

    assert type(read) is Call
    assert (read.function, [part.value for part in read.args]) == ("_-_", [2, 1])


@pytest.mark.parametrize("name", ["in", "true", "null"])
def test_a_keyword_is_one_after_a_dot_too(tree, name):
    """Keywords cannot be names of fields, as in upstream's grammar."""
    with pytest.raises(CelError) as caught:
        tree(f"device.{name}")

    assert caught.value.position == len("device.")


@pytest.mark.parametrize("name", ["as", "package", "while", "include"])
def test_reserved_words_are_names_of_fields(tree, name):
    """Words that are only reserved may stand behind a dot."""
    read = tree(f"device.{name}")

    assert type(read) is Select
    assert read.field == name


@pytest.mark.parametrize("text", ["1 // one\n+ 2", "1\t+\n2", "\r\n1+2 // end"])
def test_blanks_and_comments_are_passed_over(tree, text):
    """Blanks, line ends and comments may stand between any two tokens."""
    assert [part.value for part in tree(text).args] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("1 + ?", "Syntax error: mismatched input '?'", 4),
        ("1 +", "Syntax error: mismatched input '<EOF>'", 3),
        ("1 § 2", "Syntax error: token recognition error at: '§'", 2),
        ("(1", "Syntax error: mismatched input '<EOF>'", 2),
    ],
)
def test_what_is_no_token_here_is_refused_at_its_place(tree, text, message, position):
    """An error names what was found and where it stands."""
    with pytest.raises(CelError) as caught:
        tree(text)

    assert (caught.value.message, caught.value.position) == (message, position)
