"""Assembly: an expression of Python becomes a function, guarded against broken devices and against failing."""

import ast
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from dra_operator.cel.generation import trees

Compiled: TypeAlias = Callable[[Any], Any]

_BROKEN: Final = trees.part_of(trees.load("d"), "broken")
_REFUSE_BROKEN: Final = trees.when(
    trees.compare(_BROKEN, trees.IS_NOT, trees.Constant(None)), trees.Raise(_BROKEN, None)
)
_ASK_ANOTHER: Final = trees.handler([trees.Return(trees.call("otherwise", trees.load("d")))], "Exception")


def assembled(value: ast.expr, names: Mapping[str, Any]) -> Compiled:
    """Return a function from a device `d` to a value.

    `names` are all that the expression may use; `otherwise` among them answers where the expression fails.
    """
    attempt = trees.Try([trees.Return(value)], [_ASK_ANOTHER], [], [])
    return trees.made(trees.function("evaluate", ("d",), [_REFUSE_BROKEN, attempt]), "evaluate", names)
