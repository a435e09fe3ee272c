"""Validators: what is wrong with an expression although all its types fit.

The API server refuses times, patterns and formats that are written wrongly, also where no device would ever get there,
and lists and maps of mixed literals: they have a type, but hardly the one that was meant.
Source: cel-go `cel/validator.go`, `ext/strings.go` (format).
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from dra_operator.cel.errors import CelError, compile_error, place
from dra_operator.cel.library.formatting import FormatError, check_literal
from dra_operator.cel.library.regex import Patterns
from dra_operator.cel.library.times import int_to_timestamp, parse_duration, parse_timestamp
from dra_operator.cel.syntax import nodes
from dra_operator.cel.types.checker import Checked
from dra_operator.cel.types.types import Kind, Type, is_equivalent, shown

_READERS: Final[dict[tuple[str, type], Callable[[Any], Any]]] = {
    ("duration", str): parse_duration,
    ("timestamp", str): parse_timestamp,
    ("timestamp", int): int_to_timestamp,
}


def validate(checked: Checked) -> None:
    """Raise CelError for a literal that cannot be what it is used as, or a list or map of mixed literals.

    Of several errors, the one is raised that comes first in the text.
    """
    errors = list(_errors(checked))
    if errors:
        raise min(errors, key=place)


def _errors(checked: Checked) -> Iterator[CelError]:
    patterns = Patterns()
    for expr, free in _walk(checked.expr):
        match expr:
            case nodes.Call(function="duration" | "timestamp", args=(nodes.Literal() as literal, *_)):
                yield from _check_time(expr.function, literal)
            case nodes.Call(function="matches", args=(nodes.Literal() as literal, *_)) if (
                type(literal.value) is str
            ):
                yield from _check_pattern(literal, patterns)
            case nodes.Call(
                function="format", target=nodes.Literal() as literal, args=(nodes.ListExpr() as given,)
            ) if type(literal.value) is str:
                yield from _check_format(literal, given, expr, checked)
            case nodes.ListExpr() if not free:
                yield from _check_list(expr, checked)
            case nodes.MapExpr() if not free:
                yield from _check_map(expr, checked)


def _walk(root: nodes.Expr) -> Iterator[tuple[nodes.Expr, bool]]:
    """Yield every expression, with whether it stands inside a call of `format`, where types may be mixed."""
    waiting = [(root, False)]
    while waiting:
        expr, free = waiting.pop()
        yield expr, free
        inside = free or (isinstance(expr, nodes.Call) and expr.function == "format")
        waiting.extend([(child, inside) for child in nodes.children(expr)])


def _check_time(function: str, literal: nodes.Literal) -> Iterator[CelError]:
    read = _READERS.get((function, type(literal.value)))
    if read is None:
        return
    try:
        read(literal.value)
    except CelError:
        yield compile_error(f"invalid {function} argument", literal.position)


def _check_pattern(literal: nodes.Literal, patterns: Patterns) -> Iterator[CelError]:
    try:
        patterns.add(literal.value)
    except CelError:
        yield compile_error("invalid matches argument", literal.position)


def _check_format(
    text: nodes.Literal, given: nodes.ListExpr, call: nodes.Call, checked: Checked
) -> Iterator[CelError]:
    try:
        check_literal(text.value, [list(_types_within(argument, checked)) for argument in given.elements])
    except FormatError as error:
        yield compile_error(str(error), call.position)


def _types_within(expr: nodes.Expr, checked: Checked) -> Iterator[str]:
    """Yield the name of the type of an argument of `format`, and of all that it holds if it is a literal."""
    kind = checked.type_of(expr)
    yield "dyn" if kind.kind in {Kind.DYN, Kind.PARAMETER} else kind.name
    if isinstance(expr, nodes.ListExpr | nodes.MapExpr):
        for child in nodes.children(expr):
            yield from _types_within(child, checked)


def _check_list(expr: nodes.ListExpr, checked: Checked) -> Iterator[CelError]:
    first: Type | None = None
    for index, element in enumerate(expr.elements):
        kind = checked.type_of(element)
        if index in expr.optional and kind.parameters:
            kind = kind.parameters[0]
        first = first or kind
        yield from _check_same(first, kind, element)


def _check_map(expr: nodes.MapExpr, checked: Checked) -> Iterator[CelError]:
    first: tuple[Type, Type] | None = None
    for entry in expr.entries:
        key, value = checked.type_of(entry.key), checked.type_of(entry.value)
        if entry.optional and value.parameters:
            value = value.parameters[0]
        first = first or (key, value)
        yield from _check_same(first[0], key, entry.key)
        yield from _check_same(first[1], value, entry.value)


def _check_same(expected: Type, found: Type, expr: nodes.Expr) -> Iterator[CelError]:
    if not is_equivalent(expected, found):
        yield compile_error(f"expected type '{shown(expected)}' but found '{shown(found)}'", expr.position)
