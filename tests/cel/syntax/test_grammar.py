"""Grammar: cel-python's file, changed where it must be, and the language that comes of it."""

from importlib import resources

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.syntax.parser import GrammarChangedError, parse, patched
from dra_operator.cel.types.environment import STORED, Environment


@pytest.fixture
def grammar() -> str:
    """Return the grammar of the installed cel-python."""
    return resources.files("celpy").joinpath("cel.lark").read_text()


def test_the_grammar_of_the_installed_cel_python_has_every_place_to_patch(grammar):
    """The installed release still has the texts that are replaced."""
    assert "QUOTED_IDENT" in patched(grammar)


def test_a_changed_grammar_is_refused(grammar):
    """A release whose grammar lost a place to patch fails loudly."""
    with pytest.raises(GrammarChangedError, match="NULL_LIT"):
        patched(grammar.replace("NULL_LIT       :", "NULL :"))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("1.", 2),
        ("a.in", 2),
        ("if", 0),
        ("-!a", 1),
        ("'\\q'", 0),
        ('"\\"', 0),
        ("'\\400'", 0),
        ("9223372036854775808", 0),
        ("1e400", 0),
        ("(1", 2),
        ("a and b", 2),
        ("'\\ud800'", 0),
        ("b'\\u00ff'", 0),
        ("", 0),
        ("f(1,)", 4),
    ],
)
def test_what_is_not_the_language_is_refused_at_its_place(text, position):
    """A syntax error says where it is."""
    with pytest.raises(CelError) as caught:
        parse(text, STORED)

    assert (caught.value.kind, caught.value.position) == ("compile", position)


def test_quoted_fields_came_with_1_37():
    """Kubernetes 1.36 refuses a field in back quotes."""
    with pytest.raises(CelError, match="unsupported syntax"):
        parse("a.`b`", Environment("1.36"))


@pytest.mark.parametrize("text", ["(" * 249 + "1" + ")" * 249, "[" * 120 + "]" * 120])
def test_deep_brackets_are_read(text):
    """Brackets may nest as deep as upstream lets them."""
    assert parse(text, STORED)


def test_brackets_beyond_the_limit_are_refused():
    """Beyond 250 levels upstream gives up, and so do we."""
    with pytest.raises(CelError, match="recursion limit"):
        parse("(" * 250 + "1" + ")" * 250, STORED)
