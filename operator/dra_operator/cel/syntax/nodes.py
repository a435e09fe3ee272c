"""The syntax tree: what the parser builds and every later stage reads.

The shapes are those of cel-go (`common/ast`), because macros, type checks and costs are defined on them: a
macro is gone once parsed (a comprehension stands in its place), operators are calls with names such as
`_&&_`, and `has()` is a select that only tests. Each node has an `id`, by which types and resolved functions
are kept beside the tree, and the `position` of the token it is named after, as an offset in code points.
"""

from itertools import count
from typing import Any, TypeAlias

from dra_operator.api.fast_dataclass import fast_dataclass

next_id = count(1).__next__
"""Gives each node its id; unique in the process, so trees can be taken apart and put together freely."""


@fast_dataclass
class Literal:
    """A constant: a run-time value.

    `signed` marks a number written with its sign, which a second sign may take away.
    """

    id: int
    position: int
    value: Any
    signed: bool = False


@fast_dataclass
class Ident:
    """A name; with a leading dot it means the global one."""

    id: int
    position: int
    name: str


@fast_dataclass
class Select:
    """`operand.field`, or with `test_only` the presence test that `has()` stands for."""

    id: int
    position: int
    operand: "Expr"
    field: str
    test_only: bool = False


@fast_dataclass
class Call:
    """A call of a function or operator; `target` is set for the receiver style."""

    id: int
    position: int
    function: str
    args: tuple["Expr", ...]
    target: "Expr | None" = None


@fast_dataclass
class ListExpr:
    """A list literal; `optional` holds the indices of elements written with `?`."""

    id: int
    position: int
    elements: tuple["Expr", ...]
    optional: frozenset[int] = frozenset()


@fast_dataclass
class Entry:
    """An entry of a map literal."""

    id: int
    position: int
    key: "Expr"
    value: "Expr"
    optional: bool


@fast_dataclass
class MapExpr:
    """A map literal."""

    id: int
    position: int
    entries: tuple[Entry, ...]


@fast_dataclass
class Field:
    """A field initializer of a message."""

    id: int
    position: int
    name: str
    value: "Expr"
    optional: bool


@fast_dataclass
class Struct:
    """A message construction."""

    id: int
    position: int
    type_name: str
    fields: tuple[Field, ...]


@fast_dataclass
class Comprehension:
    """A fold: `accumulator` starts as `init`; while `condition` holds, each element makes it `step`; then `result`.

    `variable2` is empty in the one-variable form. `cel.bind` is a fold over an empty list.
    """

    id: int
    position: int
    range: "Expr"
    variable: str
    variable2: str
    accumulator: str
    init: "Expr"
    condition: "Expr"
    step: "Expr"
    result: "Expr"


Expr: TypeAlias = Literal | Ident | Select | Call | ListExpr | MapExpr | Struct | Comprehension


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the expressions directly inside `expr`, in the order in which cel-go visits them."""
    if isinstance(expr, Literal | Ident):
        return ()
    if isinstance(expr, Call):
        return expr.args if expr.target is None else (expr.target, *expr.args)
    if isinstance(expr, Select):
        return (expr.operand,)
    if isinstance(expr, ListExpr):
        return expr.elements
    if isinstance(expr, MapExpr):
        return tuple([part for entry in expr.entries for part in (entry.key, entry.value)])
    if isinstance(expr, Struct):
        return tuple([field.value for field in expr.fields])
    return (expr.range, expr.init, expr.condition, expr.step, expr.result)


def position_of(root: Expr, identity: int) -> int | None:
    """Return the position of the node with an id, or None if there is none in the tree."""
    waiting = [root]
    while waiting:
        expr = waiting.pop()
        if expr.id == identity:
            return expr.position
        waiting.extend(children(expr))
    return None
