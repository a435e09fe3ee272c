"""Macros: what stands for a fold, a test or a binding."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.syntax.macros import _MACROS
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.environment import STORED


def test_there_are_the_21_macros_of_upstream():
    """No macro is missing and none is of our own."""
    assert len(_MACROS) == 21


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
