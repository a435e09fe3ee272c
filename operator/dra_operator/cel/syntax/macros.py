"""Macros: the 21 forms that are not calls but shorthand for other expressions.

They are expanded while the text is parsed, bottom up, exactly as in cel-go, since types, costs and error absorption
follow from what they expand to: `exists` is a fold whose step is `||`, which is why it forgives errors.
Source: cel-go `parser/macro.go`, `ext/comprehensions.go`, `ext/bindings.go`, `ext/lists.go`, `cel/library.go`.
"""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeAlias, TypeVar

from dra_operator.cel.errors import compile_error
from dra_operator.cel.syntax import nodes

ACCUMULATOR = "@result"
"""The accumulator of every fold; it cannot be written, so no variable can collide with it."""
UNUSED = "#unused"
_OLD_ACCUMULATOR = "__result__"


class _Factory:
    """Makes the nodes of one expansion, all at the position of the macro call."""

    __slots__ = ("position",)

    def __init__(self, position: int) -> None:
        self.position = position

    def literal(self, value: Any) -> nodes.Literal:
        return nodes.Literal(nodes.next_id(), self.position, value)

    def ident(self, name: str) -> nodes.Ident:
        return nodes.Ident(nodes.next_id(), self.position, name)

    def accumulator(self) -> nodes.Ident:
        return nodes.Ident(nodes.next_id(), self.position, ACCUMULATOR)

    def call(self, function: str, *args: nodes.Expr) -> nodes.Call:
        return nodes.Call(nodes.next_id(), self.position, function, args)

    def member(self, function: str, target: nodes.Expr, *args: nodes.Expr) -> nodes.Call:
        return nodes.Call(nodes.next_id(), self.position, function, args, target)

    def list(self, *elements: nodes.Expr) -> nodes.ListExpr:
        return nodes.ListExpr(nodes.next_id(), self.position, elements)

    def fold(  # noqa: PLR0917 - the six parts of a fold
        self,
        over: nodes.Expr,
        names: tuple[str, str],
        init: nodes.Expr,
        condition: nodes.Expr,
        step: nodes.Expr,
        result: nodes.Expr,
    ) -> nodes.Expr:
        first, second = names
        return nodes.Comprehension(
            nodes.next_id(), self.position, over, first, second, ACCUMULATOR, init, condition, step, result
        )

    def bind(self, name: str, init: nodes.Expr, result: nodes.Expr) -> nodes.Expr:
        return nodes.Comprehension(
            nodes.next_id(),
            self.position,
            self.list(),
            UNUSED,
            "",
            name,
            init,
            self.literal(value=False),
            self.ident(name),
            result,
        )


_Node = TypeVar("_Node", bound=nodes.Expr | nodes.Entry | nodes.Field)
_Arguments: TypeAlias = tuple[nodes.Expr, ...]
_Expander: TypeAlias = Callable[[_Factory, nodes.Expr | None, _Arguments], nodes.Expr | None]


def expand(position: int, function: str, target: nodes.Expr | None, args: _Arguments) -> nodes.Expr | None:
    """Return what a call stands for, or None if it is not a macro.

    Raises CelError if it is one, with arguments that it cannot have.
    """
    expander = _MACROS.get((function, len(args), target is not None))
    return None if expander is None else expander(_Factory(position), target, args)


def _variable(expr: nodes.Expr, complaint: str) -> str:
    if not isinstance(expr, nodes.Ident):
        raise compile_error(complaint, expr.position)
    if expr.name in (ACCUMULATOR, _OLD_ACCUMULATOR):
        raise compile_error("iteration variable overwrites accumulator variable", expr.position)
    return expr.name


def _names(
    args: _Arguments, variables: int, complaint: str = "argument must be a simple name"
) -> tuple[str, str]:
    first = _variable(args[0], complaint)
    if variables == 1:
        return first, ""
    second = _variable(args[1], complaint)
    if first == second:
        raise compile_error(f"duplicate variable name: {first}", args[1].position)
    return first, second


def _has(make: _Factory, _target: nodes.Expr | None, args: _Arguments) -> nodes.Expr:
    selected = args[0]
    if not isinstance(selected, nodes.Select):
        raise compile_error("invalid argument to has() macro", selected.position)
    return nodes.Select(nodes.next_id(), make.position, selected.operand, selected.field, test_only=True)


_Parts: TypeAlias = tuple[nodes.Expr, nodes.Expr, nodes.Expr, nodes.Expr]
"""What a fold begins with, its condition, its step and its result."""


def _folding(
    variables: int,
    parts: Callable[[_Factory, _Arguments, _Arguments], _Parts],
    complaint: str = "argument must be a simple name",
) -> _Expander:
    """Return what makes a fold over the receiver; `parts` gets the variables and the other arguments."""

    def expander(make: _Factory, target: nodes.Expr | None, args: _Arguments) -> nodes.Expr:
        assert target is not None
        names = _names(args, variables, complaint)
        return make.fold(target, names, *parts(make, args[:variables], args[variables:]))

    return expander


def _all(make: _Factory, _variables: _Arguments, args: _Arguments) -> _Parts:
    go_on = make.call("@not_strictly_false", make.accumulator())
    step = make.call("_&&_", make.accumulator(), args[0])
    return make.literal(value=True), go_on, step, make.accumulator()


def _exists(make: _Factory, _variables: _Arguments, args: _Arguments) -> _Parts:
    go_on = make.call("@not_strictly_false", make.call("!_", make.accumulator()))
    step = make.call("_||_", make.accumulator(), args[0])
    return make.literal(value=False), go_on, step, make.accumulator()


def _exists_one(make: _Factory, _variables: _Arguments, args: _Arguments) -> _Parts:
    one_more = make.call("_+_", make.accumulator(), make.literal(1))
    step = make.call("_?_:_", args[0], one_more, make.accumulator())
    is_one = make.call("_==_", make.accumulator(), make.literal(1))
    return make.literal(0), make.literal(value=True), step, is_one


def _collect(make: _Factory, _variables: _Arguments, args: _Arguments) -> _Parts:
    """`map` and `transformList`, with or without a filter."""
    *filters, transform = args
    step = make.call("_+_", make.accumulator(), make.list(transform))
    return make.list(), make.literal(value=True), _filtered(make, filters, step), make.accumulator()


def _filtered(make: _Factory, filters: list[nodes.Expr], step: nodes.Expr) -> nodes.Expr:
    return make.call("_?_:_", filters[0], step, make.accumulator()) if filters else step


def _transform_map(make: _Factory, variables: _Arguments, args: _Arguments) -> _Parts:
    return _insert(make, args, make.ident(_variable(variables[0], "")))


def _transform_map_entry(make: _Factory, _variables: _Arguments, args: _Arguments) -> _Parts:
    return _insert(make, args)


def _insert(make: _Factory, args: _Arguments, *key: nodes.Expr) -> _Parts:
    *filters, inserted = args
    step = make.call("cel.@mapInsert", make.accumulator(), *key, inserted)
    empty = nodes.MapExpr(nodes.next_id(), make.position, ())
    return empty, make.literal(value=True), _filtered(make, filters, step), make.accumulator()


_map = _folding(1, _collect, "argument is not an identifier")


def _bind(make: _Factory, target: nodes.Expr | None, args: _Arguments) -> nodes.Expr | None:
    if not (isinstance(target, nodes.Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], nodes.Ident):
        raise compile_error("cel.bind() variable names must be simple identifiers", args[0].position)
    return make.bind(args[0].name, args[1], args[2])


def _opt_map(make: _Factory, target: nodes.Expr | None, args: _Arguments) -> nodes.Expr:
    assert target is not None
    bound = make.call("optional.of", _bound_value(make, target, args, "optMap"))
    return make.call("_?_:_", make.member("hasValue", target), bound, make.call("optional.none"))


def _opt_flat_map(make: _Factory, target: nodes.Expr | None, args: _Arguments) -> nodes.Expr:
    assert target is not None
    bound = _bound_value(make, target, args, "optFlatMap")
    return make.call("_?_:_", make.member("hasValue", target), bound, make.call("optional.none"))


def _bound_value(make: _Factory, target: nodes.Expr, args: _Arguments, macro: str) -> nodes.Expr:
    if not isinstance(args[0], nodes.Ident):
        raise compile_error(f"{macro}() variable name must be a simple identifier", args[0].position)
    return make.bind(args[0].name, make.member("value", copy(target)), args[1])


def _sort_by(make: _Factory, target: nodes.Expr | None, args: _Arguments) -> nodes.Expr:
    assert target is not None
    if isinstance(target, nodes.Literal | nodes.MapExpr | nodes.Struct):
        raise compile_error(
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            target.position,
        )
    name = "@__sortBy_input__"
    keys = _map(make, make.ident(name), args)
    assert keys is not None
    return make.bind(name, target, make.member("@sortByAssociatedKeys", make.ident(name), keys))


def copy(expr: _Node) -> _Node:
    """Return the same expression with ids of its own, as an expression that stands in two places needs them."""
    copied = {each.name: _copied(getattr(expr, each.name)) for each in fields(expr) if each.name != "id"}
    return replace(expr, id=nodes.next_id(), **copied)


def _copied(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return copy(value) if isinstance(value, nodes.Expr | nodes.Entry | nodes.Field) else value


_TWO_VARIABLES: dict[tuple[str, int, bool], _Expander] = {
    ("all", 3, True): _folding(2, _all),
    ("exists", 3, True): _folding(2, _exists),
    ("existsOne", 3, True): _folding(2, _exists_one),
    ("exists_one", 3, True): _folding(2, _exists_one),
    ("transformList", 3, True): _folding(2, _collect),
    ("transformList", 4, True): _folding(2, _collect),
    ("transformMap", 3, True): _folding(2, _transform_map),
    ("transformMap", 4, True): _folding(2, _transform_map),
    ("transformMapEntry", 3, True): _folding(2, _transform_map_entry),
    ("transformMapEntry", 4, True): _folding(2, _transform_map_entry),
}
_MACROS: dict[tuple[str, int, bool], _Expander] = {
    ("has", 1, False): _has,
    ("all", 2, True): _folding(1, _all),
    ("exists", 2, True): _folding(1, _exists),
    ("exists_one", 2, True): _folding(1, _exists_one),
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _folding(
        1,
        lambda make, variables, args: _collect(make, variables, (*args, *variables)),
        "argument is not an identifier",
    ),
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
    **_TWO_VARIABLES,
}
"""By name, number of arguments and receiver style."""
