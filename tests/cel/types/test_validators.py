"""Validators: literals that cannot be what they are used as, and mixed literals."""

import pytest

from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_program


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("duration('1d')", "invalid duration argument"),
        ("timestamp('yesterday')", "invalid timestamp argument"),
        ("'a'.matches('(')", "invalid matches argument"),
        ("'a'.find('(')", "missing closing"),
        ("matches('a', '(')", "missing closing"),
        ("[1, 'a']", "expected type 'int' but found 'string'"),
        ("[dyn(1), 'a']", "expected type 'dyn' but found 'string'"),
        ("{1: 'a', 'b': 'c'}", "expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'"),
        ("'%d'.format(['a'])", "decimal clause"),
        ("'%s %s'.format(['a'])", "index 1 out of range"),
        ("[1, 'a'] == [2.0, b'']", "but found 'string'"),
        ("{1: 'a', 2: 3} == {4u: 5, 'b': 6}", "expected type 'string' but found 'int'"),
        ("[[1, 'a'], [duration('x')]] == [[2]]", "expected type 'int' but found 'string'"),
    ],
)
def test_a_literal_that_cannot_work_is_refused(text, message):
    """What is wrong in every evaluation is wrong before the first."""
    with pytest.raises(CelError, match=message) as caught:
        compile_program(text)

    assert caught.value.kind == "compile"


@pytest.mark.parametrize(
    "text", ["'%s %d'.format(['a', 1])", "'%s'.format([[1, 'a']])", "[[], [1]] == [[1]]"]
)
def test_mixed_literals_may_stand_in_a_format(text):
    """Inside `format` lists may be mixed, and an empty list is like any."""
    assert compile_program(text)
