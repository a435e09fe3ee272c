"""Macros: the 21 forms that are not calls but shorthand for other expressions.

They are expanded while the text is parsed, bottom up, exactly as in cel-go, since types, costs and error absorption
follow from what they expand to: `exists` is a fold whose step is `||`, which is why it forgives errors.
Source: cel-go `parser/macro.go`, `ext/comprehensions.go`, `ext/bindings.go`, `ext/lists.go`, `cel/library.go`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

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


_Expander: TypeAlias = Callable[[_Factory, nodes.Expr | None, tuple[nodes.Expr, ...]], nodes.Expr | None]


def expand(
    position: int, function: str, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]
) -> nodes.Expr | None:
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
    args: tuple[nodes.Expr, ...], variables: int, complaint: str = "argument must be a simple name"
) -> tuple[str, str]:
    first = _variable(args[0], complaint)
    if variables == 1:
        return first, ""
    second = _variable(args[1], complaint)
    if first == second:
        raise compile_error(f"duplicate variable name: {first}", args[1].position)
    return first, second


def _has(make: _Factory, _target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
    selected = args[0]
    if not isinstance(selected, nodes.Select):
        raise compile_error("invalid argument to has() macro", selected.position)
    return nodes.Select(nodes.next_id(), make.position, selected.operand, selected.field, test_only=True)


def _all(variables: int) -> _Expander:
    def expander(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
        assert target is not None
        return make.fold(
            target,
            _names(args, variables),
            make.literal(value=True),
            make.call("@not_strictly_false", make.accumulator()),
            make.call("_&&_", make.accumulator(), args[variables]),
            make.accumulator(),
        )

    return expander


def _exists(variables: int) -> _Expander:
    def expander(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
        assert target is not None
        return make.fold(
            target,
            _names(args, variables),
            make.literal(value=False),
            make.call("@not_strictly_false", make.call("!_", make.accumulator())),
            make.call("_||_", make.accumulator(), args[variables]),
            make.accumulator(),
        )

    return expander


def _exists_one(variables: int) -> _Expander:
    def expander(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
        assert target is not None
        one_more = make.call("_+_", make.accumulator(), make.literal(1))
        return make.fold(
            target,
            _names(args, variables),
            make.literal(0),
            make.literal(value=True),
            make.call("_?_:_", args[variables], one_more, make.accumulator()),
            make.call("_==_", make.accumulator(), make.literal(1)),
        )

    return expander


def _collect(variables: int, complaint: str) -> _Expander:
    """`map` and `transformList`, with or without a filter."""

    def expander(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
        assert target is not None
        names = _names(args, variables, complaint)
        *filters, transform = args[variables:]
        step: nodes.Expr = make.call("_+_", make.accumulator(), make.list(transform))
        if filters:
            step = make.call("_?_:_", filters[0], step, make.accumulator())
        return make.fold(target, names, make.list(), make.literal(value=True), step, make.accumulator())

    return expander


def _filter(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
    assert target is not None
    names = _names(args, 1, "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[0]))
    step = make.call("_?_:_", args[1], step, make.accumulator())
    return make.fold(target, names, make.list(), make.literal(value=True), step, make.accumulator())


def _transform_map(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
    names = _names(args, 2)
    return _insert(make, target, names, args, (make.ident(names[0]), args[-1]))


def _transform_map_entry(
    make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]
) -> nodes.Expr:
    return _insert(make, target, _names(args, 2), args, (args[-1],))


def _insert(
    make: _Factory,
    target: nodes.Expr | None,
    names: tuple[str, str],
    args: tuple[nodes.Expr, ...],
    inserted: tuple[nodes.Expr, ...],
) -> nodes.Expr:
    assert target is not None
    step: nodes.Expr = make.call("cel.@mapInsert", make.accumulator(), *inserted)
    if len(args) == 4:
        step = make.call("_?_:_", args[2], step, make.accumulator())
    empty = nodes.MapExpr(nodes.next_id(), make.position, ())
    return make.fold(target, names, empty, make.literal(value=True), step, make.accumulator())


def _bind(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr | None:
    if not (isinstance(target, nodes.Ident) and target.name == "cel"):
        return None
    if not isinstance(args[0], nodes.Ident):
        raise compile_error("cel.bind() variable names must be simple identifiers", args[0].position)
    return make.bind(args[0].name, args[1], args[2])


def _opt_map(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
    assert target is not None
    bound = make.call("optional.of", _bound_value(make, target, args, "optMap"))
    return make.call("_?_:_", make.member("hasValue", target), bound, make.call("optional.none"))


def _opt_flat_map(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
    assert target is not None
    bound = _bound_value(make, target, args, "optFlatMap")
    return make.call("_?_:_", make.member("hasValue", target), bound, make.call("optional.none"))


def _bound_value(make: _Factory, target: nodes.Expr, args: tuple[nodes.Expr, ...], macro: str) -> nodes.Expr:
    if not isinstance(args[0], nodes.Ident):
        raise compile_error(f"{macro}() variable name must be a simple identifier", args[0].position)
    return make.bind(args[0].name, make.member("value", copy(target)), args[1])


def _sort_by(make: _Factory, target: nodes.Expr | None, args: tuple[nodes.Expr, ...]) -> nodes.Expr:
    assert target is not None
    if isinstance(target, nodes.Literal | nodes.MapExpr | nodes.Struct):
        raise compile_error(
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
            target.position,
        )
    name = "@__sortBy_input__"
    keys = _collect(1, "argument is not an identifier")(make, make.ident(name), args)
    assert keys is not None
    return make.bind(name, target, make.member("@sortByAssociatedKeys", make.ident(name), keys))


def copy(expr: nodes.Expr) -> nodes.Expr:
    """Return the same expression with ids of its own, as an expression that stands in two places needs them."""
    match expr:
        case nodes.Select():
            return replace(expr, id=nodes.next_id(), operand=copy(expr.operand))
        case nodes.Call():
            target = None if expr.target is None else copy(expr.target)
            return replace(
                expr, id=nodes.next_id(), target=target, args=tuple(copy(arg) for arg in expr.args)
            )
        case nodes.ListExpr():
            return replace(
                expr, id=nodes.next_id(), elements=tuple(copy(element) for element in expr.elements)
            )
        case nodes.MapExpr():
            return replace(
                expr, id=nodes.next_id(), entries=tuple(_copy_entry(entry) for entry in expr.entries)
            )
        case nodes.Struct():
            return replace(
                expr, id=nodes.next_id(), fields=tuple(_copy_field(field) for field in expr.fields)
            )
        case nodes.Comprehension():
            return replace(
                expr,
                id=nodes.next_id(),
                range=copy(expr.range),
                init=copy(expr.init),
                condition=copy(expr.condition),
                step=copy(expr.step),
                result=copy(expr.result),
            )
        case _:
            return replace(expr, id=nodes.next_id())


def _copy_entry(entry: nodes.Entry) -> nodes.Entry:
    return replace(entry, id=nodes.next_id(), key=copy(entry.key), value=copy(entry.value))


def _copy_field(field: nodes.Field) -> nodes.Field:
    return replace(field, id=nodes.next_id(), value=copy(field.value))


_TWO_VARIABLES: dict[tuple[str, int, bool], _Expander] = {
    ("all", 3, True): _all(2),
    ("exists", 3, True): _exists(2),
    ("existsOne", 3, True): _exists_one(2),
    ("exists_one", 3, True): _exists_one(2),
    ("transformList", 3, True): _collect(2, "argument must be a simple name"),
    ("transformList", 4, True): _collect(2, "argument must be a simple name"),
    ("transformMap", 3, True): _transform_map,
    ("transformMap", 4, True): _transform_map,
    ("transformMapEntry", 3, True): _transform_map_entry,
    ("transformMapEntry", 4, True): _transform_map_entry,
}
_MACROS: dict[tuple[str, int, bool], _Expander] = {
    ("has", 1, False): _has,
    ("all", 2, True): _all(1),
    ("exists", 2, True): _exists(1),
    ("exists_one", 2, True): _exists_one(1),
    ("map", 2, True): _collect(1, "argument is not an identifier"),
    ("map", 3, True): _collect(1, "argument is not an identifier"),
    ("filter", 2, True): _filter,
    ("optMap", 2, True): _opt_map,
    ("optFlatMap", 2, True): _opt_flat_map,
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
    **_TWO_VARIABLES,
}
"""By name, number of arguments and receiver style."""
