"""Slips: what was meant where the grammar knows no way on."""

import pytest

from dra_operator.cel.advice import advise
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_program
from dra_operator.cel.types.environment import STORED, Environment

STRING = "a string is not closed, or has an escape that CEL does not know"


def told(error: CelError, expression: str, environment: Environment = STORED) -> str:
    """Return what is wrong with an expression, with advice where there is any."""
    return "; ".join(filter(None, advise(error, expression, environment)))


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("true and false", '"and" is not expected here; write &&'),
        ("true OR false", '"OR" is not expected here; write ||'),
        ("true & false", '"&" is not expected here; write &&'),
        ("true | false", '"|" is not expected here; write ||'),
        ("1 = 1", '"=" is not expected here; write =='),
        ("1 === 1", '"=" is not expected here; write =='),
        ("true # yes", '"#" is not expected here; a comment begins with //'),
        ("\x1b[2J", r'"\x1b" is not expected here'),
        ("device.driver == 'a", STRING),
        ('device.driver == "a', STRING),
        ('"""a', STRING),
        (r"'a\q' == ''", STRING),
        (r"'\.a\n' == ''", STRING),
        ("'(' ==", "the expression ends too early"),
        ("true 'a'", "'a' is not expected here"),
        (f"true '{'a' * 99}'", f"'{'a' * 39}... is not expected here"),
        ("true '''a\nb'''", r"'''a\nb''' is not expected here"),
    ],
)
def test_what_was_meant_is_said(expression, text):
    """In place of the token alone."""
    with pytest.raises(CelError) as caught:
        compile_program(expression)

    assert told(caught.value, expression, STORED) == text
