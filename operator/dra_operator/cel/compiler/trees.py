"""Trees: pieces of Python's own syntax, out of which code is made.

Code is never text here. Python asks for a place of every node: it is the same for all, so the classes have it, and
nobody needs to go through a finished tree to write it into each node.
"""

import ast
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

LOAD: Final = ast.Load()
STORE: Final = ast.Store()
IS: Final = ast.Is()
IS_NOT: Final = ast.IsNot()
IN: Final = ast.In()
EQUAL: Final = ast.Eq()
NOT_EQUAL: Final = ast.NotEq()
AND: Final = ast.And()
OR: Final = ast.Or()
NOT: Final = ast.Not()
COMPARISONS: Final = {"_<_": ast.Lt(), "_<=_": ast.LtE(), "_>_": ast.Gt(), "_>=_": ast.GtE()}
"""The operators of Python that stand for those of CEL, by their names there."""
_LITERALS: Final = frozenset((bool, int, str, bytes, type(None)))
_Node = TypeVar("_Node", bound=ast.AST)
# Python 3.12 has to be told that there are none; 3.11 does not know of them, and from 3.13 on that is the default.
_NO_TYPE_PARAMETERS: Final[Mapping[str, Any]] = {"type_params": []} if sys.version_info >= (3, 12) else {}


class UnsupportedError(Exception):
    """The plan has a step that no code is made for."""


def _placed(kind: type[_Node]) -> type[_Node]:
    """Return the nodes of a kind, all in the one place."""
    return type(kind.__name__, (kind,), {"__slots__": (), "lineno": 1, "col_offset": 0})


Name: Final = _placed(ast.Name)
Constant: Final = _placed(ast.Constant)
Attribute: Final = _placed(ast.Attribute)
Subscript: Final = _placed(ast.Subscript)
Call: Final = _placed(ast.Call)
Compare: Final = _placed(ast.Compare)
BoolOp: Final = _placed(ast.BoolOp)
UnaryOp: Final = _placed(ast.UnaryOp)
IfExp: Final = _placed(ast.IfExp)
NamedExpr: Final = _placed(ast.NamedExpr)
Tuple: Final = _placed(ast.Tuple)
Lambda: Final = _placed(ast.Lambda)
GeneratorExp: Final = _placed(ast.GeneratorExp)
Argument: Final = _placed(ast.arg)
If: Final = _placed(ast.If)
Try: Final = _placed(ast.Try)
Handler: Final = _placed(ast.ExceptHandler)
Raise: Final = _placed(ast.Raise)
Return: Final = _placed(ast.Return)
Function: Final = _placed(ast.FunctionDef)


# --- expressions ----------------------------------------------------------------------------------------------------


def load(text: str) -> ast.expr:
    """Return a variable that is read."""
    return Name(text, LOAD)


def part_of(value: ast.expr, attribute: str) -> ast.expr:
    """Return `value.attribute`."""
    return Attribute(value, attribute, LOAD)


def call(helper: str, *arguments: ast.expr) -> ast.expr:
    """Return the call of a function that has a name in the scope of the code."""
    return Call(Name(helper, LOAD), list(arguments), [])


def call_of(function: ast.expr, *arguments: ast.expr) -> ast.expr:
    """Return the call of what an expression gives."""
    return Call(function, list(arguments), [])


def compare(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> ast.expr:
    """Return a comparison."""
    return Compare(left, [operator], [right])


def is_a(kind: str, value: ast.expr) -> ast.expr:
    """Return the question whether a value is exactly of a type that has a name in the scope of the code."""
    return compare(call("type", value), IS, load(kind))


def tuple_of(*elements: ast.expr) -> ast.expr:
    """Return a tuple."""
    return Tuple(list(elements), LOAD)


def function_of(body: ast.expr, *names: str) -> ast.expr:
    """Return a function without a name."""
    return Lambda(_arguments(*names), body)


def _arguments(*names: str) -> ast.arguments:
    return ast.arguments([], [Argument(each) for each in names], None, [], [], None, [])


class Constants:
    """The constants of one function, those that are no literal of Python under names of their own."""

    __slots__ = ("named",)

    def __init__(self) -> None:
        self.named: dict[str, Any] = {}

    def add(self, value: Any) -> ast.expr:
        """Return a constant as a literal of Python, or as a name for it."""
        return Constant(value) if type(value) in _LITERALS else load(self.add_named(value))

    def add_named(self, value: Any) -> str:
        """Return a name for a constant."""
        text = f"k{len(self.named)}"
        self.named[text] = value
        return text


# --- statements -----------------------------------------------------------------------------------------------------


def when(test: ast.expr, *body: ast.stmt) -> ast.stmt:
    """Return `if test: body`."""
    return If(test, list(body), [])


def handler(body: list[ast.stmt], error: str) -> ast.ExceptHandler:
    """Return `except error: body`."""
    return Handler(Name(error, LOAD), None, body)


def function(title: str, arguments: tuple[str, ...], body: list[ast.stmt]) -> ast.stmt:
    """Return `def title(arguments): body`."""
    return Function(title, _arguments(*arguments), body, [], None, **_NO_TYPE_PARAMETERS)


def made(definition: ast.stmt, title: str, scope: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of this title that a definition gives; `scope` is all that it may use.

    Raises SyntaxError, RecursionError or MemoryError where it nests deeper than Python can say.
    """
    everything = {"__builtins__": {}, **scope}
    code = compile(ast.Module([definition], []), "<cel>", "exec", dont_inherit=True)
    exec(code, everything)  # noqa: S102 - the tree above is all there is in it
    # Taken out of what it may use, which would refer to it in a circle: it goes with whoever has it.
    result: Callable[..., Any] = everything.pop(title)
    return result
