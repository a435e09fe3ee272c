"""Macros: what stands for a fold, a test or a binding."""

import pytest

from dra_operator.cel import STORED, CelError
from dra_operator.cel.syntax.macros import _MACROS
from dra_operator.cel.syntax.nodes import Call, Comprehension, Literal, Select
from dra_operator.cel.syntax.parser import parse


def test_there_are_the_21_macros_of_upstream():
    """No macro is missing and none is of our own."""
    assert len(_MACROS) == 21


def test_has_is_a_select_that_only_tests():
    """`has(a.b)` becomes the select itself."""
    assert isinstance(tree := parse("has(a.b)", STORED), Select)
    assert (tree.field, tree.test_only) == ("b", True)


def test_exists_is_a_fold_with_or():
    """`exists` forgives errors because its step is `||`."""
    tree = parse("x.exists(i, i)", STORED)

    assert isinstance(tree, Comprehension)
    assert (tree.variable, tree.variable2, tree.accumulator) == ("i", "", "@result")
    assert isinstance(tree.step, Call)
    assert tree.step.function == "_||_"


def test_bind_is_a_fold_over_nothing():
    """`cel.bind` never folds: its condition is false."""
    tree = parse("cel.bind(v, 1, v + 1)", STORED)

    assert isinstance(tree, Comprehension)
    assert isinstance(tree.condition, Literal)
    assert (tree.accumulator, tree.condition.value) == ("v", False)


def test_bind_of_something_else_is_a_call():
    """Only `cel.bind` is the macro."""
    assert isinstance(parse("other.bind(v, 1, v)", STORED), Call)


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("has(1)", "invalid argument to has", 4),
        ("x.all(1, true)", "must be a simple name", 6),
        ("x.map(1, 2)", "not an identifier", 6),
        ("x.all(i, i, true)", "duplicate variable name: i", 9),
        ("x.exists(__result__, true)", "overwrites accumulator", 9),
        ("cel.bind(a.b, 1, 2)", "simple identifiers", 10),
        ("{}.sortBy(e, e)", "sortBy can only be applied", 0),
    ],
)
def test_wrong_arguments_are_refused_at_their_place(text, message, position):
    """A macro says which argument it cannot take."""
    with pytest.raises(CelError, match=message) as caught:
        parse(text, STORED)

    assert caught.value.position == position


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("[1, 2].map(i, i * 2) == [2, 4]", True),
        ("[1, 2, 3].map(i, i > 1, i * 2) == [4, 6]", True),
        ("[1, 2].filter(i, i > 1) == [2]", True),
        ("[1, 2, 2].exists_one(i, i == 2)", False),
        ("[4, 5].transformList(i, v, v - i) == [4, 4]", True),
        ("{'a': 1}.transformMap(k, v, k + string(v)) == {'a': 'a1'}", True),
        ("{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}", True),
        ("['bb', 'a'].sortBy(e, e.size()) == ['a', 'bb']", True),
        ("optional.of(2).optMap(v, v * 2).value() == 4", True),
        ("optional.none().optFlatMap(v, optional.of(v)).hasValue()", False),
        ("cel.bind(x, [1], x.exists(y, y in x))", True),
        ("[1].existsOne(i, v, v == 1)", True),
    ],
)
def test_macros_do_what_they_say(evaluate, text, value):
    """Each macro gives what upstream gives."""
    assert evaluate(text) is value
