"""Grammar: cel-python's file, changed where it must be, and the language that comes of it."""

from importlib import resources

import pytest

from dra_operator.cel import STORED, CelError, Environment
from dra_operator.cel.syntax.nodes import Call, Ident, ListExpr, Literal, MapExpr, Select, Struct
from dra_operator.cel.syntax.parser import GrammarChangedError, parse, patched


@pytest.fixture
def grammar() -> str:
    """Return the grammar of the installed cel-python."""
    return resources.files("celpy").joinpath("cel.lark").read_text()


def shape(expr):
    """Return a tree as nested tuples, without ids and positions."""
    match expr:
        case Literal():
            return expr.value
        case Ident():
            return expr.name
        case Select():
            return ("has" if expr.test_only else ".", shape(expr.operand), expr.field)
        case Call():
            target = () if expr.target is None else (shape(expr.target),)
            return (expr.function, *target, *map(shape, expr.args))
        case ListExpr():
            return [shape(element) for element in expr.elements]
        case MapExpr():
            return {shape(entry.key): shape(entry.value) for entry in expr.entries}
        case Struct():
            return (expr.type_name, {field.name: shape(field.value) for field in expr.fields})


def test_the_grammar_of_the_installed_cel_python_has_every_place_to_patch(grammar):
    """The installed release still has the texts that are replaced."""
    assert "QUOTED_IDENT" in patched(grammar)


def test_a_changed_grammar_is_refused(grammar):
    """A release whose grammar lost a place to patch fails loudly."""
    with pytest.raises(GrammarChangedError, match="NULL_LIT"):
        patched(grammar.replace("NULL_LIT       :", "NULL :"))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("1 + 2 * 3", ("_+_", 1, ("_*_", 2, 3))),
        ("a.b[c]", ("_[_]", (".", "a", "b"), "c")),
        ("a.?b[?0]", ("_[?_]", ("_?._", "a", "b"), 0)),
        ("a ? b : c ? d : e", ("_?_:_", "a", "b", ("_?_:_", "c", "d", "e"))),
        ("a && b && c", ("_&&_", ("_&&_", "a", "b"), "c")),
        ("a || b || c || d", ("_||_", ("_||_", "a", "b"), ("_||_", "c", "d"))),
        ("x in [1, 2,]", ("@in", "x", [1, 2])),
        ("{'a': 1, 'b': 2,}", {"a": 1, "b": 2}),
        ("a.`b-c/d`", (".", "a", "b-c/d")),
        (".a.b()", ("b", ".a")),
        ("T.x{f: 1}", ("T.x", {"f": 1})),
        ("a // comment\n + b", ("_+_", "a", "b")),
        ("trueish", "trueish"),
        ("inner", "inner"),
    ],
)
def test_text_becomes_this_tree(text, tree):
    """Precedence, chains, optional access, trailing commas and quoted fields are those of cel-go."""
    assert shape(parse(text, STORED)) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("-1", -1),
        ("- 1", -1),
        ("--1", 1),
        ("---1", ("-_", 1)),
        ("-(1)", ("-_", 1)),
        ("-x", ("-_", "x")),
        ("--x", "x"),
        ("!!x", "x"),
        ("-1.5", -1.5),
        ("1 -1", ("_-_", 1, 1)),
        ("-9223372036854775808", -(2**63)),
        ("--1.foo()", ("foo", 1)),
        ("-(-1)", ("-_", -1)),
    ],
)
def test_signs_belong_to_numbers_only_when_they_stand_alone(text, tree):
    """A sign is folded into a literal, and pairs of operators vanish, as in cel-go."""
    assert shape(parse(text, STORED)) == tree


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


@pytest.mark.parametrize(
    "text",
    ["'" + "(" * 300 + "'", '"""\'' + "[" * 300 + '"""', r"r'\' + '" + "(" * 300 + "'", "1 // " + "{" * 300],
)
def test_brackets_in_texts_and_comments_do_not_nest(text):
    """What stands in quotes or behind two slashes is no part of the expression's own form."""
    assert parse(text, STORED)


def test_brackets_beyond_the_limit_are_refused():
    """Beyond 250 levels upstream gives up, and so do we."""
    with pytest.raises(CelError, match="recursion limit"):
        parse("(" * 250 + "1" + ")" * 250, STORED)
