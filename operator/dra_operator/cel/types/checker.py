"""Checker: type inference. Every expression gets a type, every call its overloads; what has none is refused.

The tree comes back with names resolved: a qualified name such as `net.IP` is one identifier, and the target of
`optional.of(x)` is part of the function's name. After an error the rest is checked, and the first error in the text
is reported.
Source: cel-go `checker/checker.go`, `checker/env.go`, `common/errors.go`.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.cel.errors import CelError, compile_error, place
from dra_operator.cel.library.formatting import FormatError, check_literal
from dra_operator.cel.library.regex import Patterns
from dra_operator.cel.library.times import int_to_timestamp, parse_duration, parse_timestamp
from dra_operator.cel.syntax import nodes
from dra_operator.cel.types.environment import DEVICE, MESSAGES, TYPE_NAMES, Environment, Overload
from dra_operator.cel.types.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    DYNAMIC,
    DYNAMIC_OR_ERROR,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Kind,
    Mapping,
    Type,
    assign,
    is_equivalent,
    list_of,
    map_of,
    most_general,
    optional_of,
    parameter,
    settled,
    shown,
    substituted,
    unwrapped_optional,
)
from dra_operator.cel.values import Uint

_LITERALS: Final[dict[type, Type]] = {
    bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip

_MOST_ERRORS: Final = 100
"""How many errors are kept, in the order of their discovery."""


@fast_dataclass
class Checked:
    """A checked expression: the resolved tree, the type of each node and the overloads of each call, by node id."""

    expr: nodes.Expr
    types: dict[int, Type]
    overloads: dict[int, tuple[str, ...]]

    def type_of(self, expr: nodes.Expr) -> Type:
        """Return the type of a node of the tree."""
        return self.types[expr.id]

    @property
    def result_type(self) -> Type:
        """The type of the whole expression."""
        return self.types[self.expr.id]


def check(expr: nodes.Expr, environment: Environment) -> Checked:
    """Return the checked expression; raises the CelError of the first thing in the text that has no type."""
    checker = _Checker(environment)
    resolved = checker.check(expr)
    if checker.errors:
        raise min(checker.errors, key=place)
    types = {
        identity: settled(checker.mapping, kind) if kind.generic else kind
        for identity, kind in checker.types.items()
    }
    return Checked(resolved, types, checker.overloads)


def _mismatch(expected: Type, found: Type, position: int) -> CelError:
    return compile_error(f"expected type '{shown(expected)}' but found '{shown(found)}'", position)


def _undeclared(name: str, position: int) -> CelError:
    return compile_error(f"undeclared reference to '{name}' (in container '')", position)


def qualified_name(expr: nodes.Expr) -> str | None:
    """Return the dotted name that an expression may be, or None."""
    if isinstance(expr, nodes.Ident):
        return expr.name
    if not isinstance(expr, nodes.Select) or expr.test_only:
        return None
    prefix = qualified_name(expr.operand)
    return None if prefix is None else f"{prefix}.{expr.field}"


class _Checker:
    __slots__ = (
        "environment", "errors", "functions", "mapping", "overloads", "scopes", "types", "variables",
    )  # fmt: skip

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.errors: list[CelError] = []
        self.functions = environment.functions
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, tuple[str, ...]] = {}
        self.mapping: Mapping = {}
        self.scopes: list[dict[str, Type]] = []
        self.variables = 0

    def check(self, expr: nodes.Expr) -> nodes.Expr:
        """Give `expr` and all in it their types and return it with names resolved."""
        return _CHECKS[type(expr)](self, expr)  # type: ignore[no-any-return]

    def _report(self, error: CelError) -> Type:
        """Keep an error, unless there are many, and return the type of what has none."""
        if len(self.errors) < _MOST_ERRORS:
            self.errors.append(error)
        return ERROR

    def check_literal(self, expr: nodes.Literal) -> nodes.Expr:
        self.types[expr.id] = _LITERALS[type(expr.value)]
        return expr

    # --- names --------------------------------------------------------------------------------------------------

    def check_ident(self, expr: nodes.Ident) -> nodes.Expr:
        local = self._local(expr.name)
        if local is not None and not expr.name.startswith("."):
            self.types[expr.id] = local
            return expr
        resolved = self._resolve_global(expr.name, expr, hidden=local is not None)
        if resolved is None:
            self.types[expr.id] = self._report(_undeclared(expr.name, expr.position))
            return expr
        return resolved

    def _resolve_global(self, name: str, expr: nodes.Expr, *, hidden: bool) -> nodes.Ident | None:
        name = name.removeprefix(".")
        kind = DEVICE if name == "device" else TYPE_NAMES.get(name)
        if kind is None:
            return None
        self.types[expr.id] = kind
        return nodes.Ident(expr.id, expr.position, f".{name}" if hidden else name)

    def _local(self, name: str) -> Type | None:
        name = name.removeprefix(".")
        for scope in reversed(self.scopes):
            kind = scope.get(name)
            if kind is not None:
                return kind
        return None

    def check_select(self, expr: nodes.Select) -> nodes.Expr:
        if not expr.test_only:
            resolved = self._resolve_qualified(expr)
            if resolved is not None:
                return resolved
        operand = self.check(expr.operand)
        kind = self._field_type(expr, operand, expr.field, optional=False)
        self.types[expr.id] = BOOL if expr.test_only else substituted(self.mapping, kind)
        return nodes.Select(expr.id, expr.position, operand, expr.field, expr.test_only)

    def _resolve_qualified(self, expr: nodes.Select) -> nodes.Expr | None:
        name = qualified_name(expr)
        # All names with dots are those of types, and `device` is none of them.
        if name is None or name.removeprefix(".") not in TYPE_NAMES:
            return None
        first = name.split(".", 2)[0] if not name.startswith(".") else "." + name.split(".", 2)[1]
        local = self._local(first)
        if local is not None and not first.startswith("."):
            return None
        return self._resolve_global(name, expr, hidden=local is not None)

    def _field_type(self, expr: nodes.Expr, operand: nodes.Expr, name: str, *, optional: bool) -> Type:
        kind, inside_optional = unwrapped_optional(substituted(self.mapping, self.types[operand.id]))
        if kind.kind is Kind.MAP:
            result = kind.parameters[1]
        elif kind.kind is Kind.STRUCT:
            result = self._struct_field(kind.name, name, expr.position)
        elif kind.kind is Kind.PARAMETER:
            self._assign(DYN, kind)
            result = DYN
        elif kind.kind in DYNAMIC_OR_ERROR:
            result = DYN
        else:
            self._report(
                compile_error(f"type '{shown(kind)}' does not support field selection", expr.position)
            )
            result = DYN
        return optional_of(result) if optional or inside_optional else result

    def _struct_field(self, struct: str, name: str, position: int) -> Type:
        if struct == DEVICE.name:
            fields = self.environment.device_fields
        elif struct in MESSAGES:
            fields = dict(MESSAGES[struct].fields)
        else:
            return self._report(compile_error(f"unexpected failed resolution of '{struct}'", position))
        if name not in fields:
            return self._report(compile_error(f"undefined field '{name}'", position))
        return fields[name]

    # --- calls --------------------------------------------------------------------------------------------------

    def check_call(self, expr: nodes.Call) -> nodes.Expr:
        if expr.function == "_?._":
            return self._check_optional_select(expr)
        args = tuple(map(self.check, expr.args))
        if expr.target is None:
            name = expr.function.removeprefix(".")
            return self._resolve_call(nodes.Call(expr.id, expr.position, name, args))
        prefix = qualified_name(expr.target)
        if prefix is not None:
            name = f"{prefix}.{expr.function}".removeprefix(".")
            if name in self.functions:
                return self._resolve_call(nodes.Call(expr.id, expr.position, name, args))
        target = self.check(expr.target)
        return self._resolve_call(nodes.Call(expr.id, expr.position, expr.function, args, target))

    def _check_optional_select(self, expr: nodes.Call) -> nodes.Expr:
        operand, name = expr.args
        assert isinstance(name, nodes.Literal)
        operand = self.check(operand)
        kind = self._field_type(expr, operand, name.value, optional=True)
        self.types[expr.id] = substituted(self.mapping, kind)
        self.types[name.id] = STRING
        self.overloads[expr.id] = ("select_optional_field",)
        return replace(expr, args=(operand, name))

    def _resolve_call(self, call: nodes.Call) -> nodes.Call:
        name = call.function
        declared = self.functions.get(name)
        if declared is None:
            self.types[call.id] = self._report(_undeclared(name, call.position))
            return call
        members = call.args if call.target is None else (call.target, *call.args)
        arguments = [self.types[member.id] for member in members]
        if name in ("_&&_", "_||_"):
            self.types[call.id] = BOOL
            for argument, member in zip(arguments, members, strict=True):
                if not self._assign(argument, BOOL):
                    mismatch = _mismatch(BOOL, substituted(self.mapping, argument), member.position)
                    self.types[call.id] = self._report(mismatch)
            self.overloads[call.id] = (declared[0].id,)
            return call
        resolved = self._resolved(declared, arguments, call)
        if resolved is None:
            self.types[call.id] = self._report(self._no_match(name, arguments, call))
            return call
        self.overloads[call.id], self.types[call.id] = resolved
        return call

    def _resolved(
        self, declared: tuple[Overload, ...], arguments: list[Type], call: nodes.Call
    ) -> tuple[tuple[str, ...], Type] | None:
        """Return the overloads that fit a call and their result, or None if none fits."""
        matches = [
            (overload.id, result)
            for overload in declared
            if overload.member is (call.target is not None)
            and len(overload.arguments) == len(arguments)
            and (result := self._applied(overload, arguments)) is not None
        ]
        if not matches:
            return None
        joined = self._joined_result([result for _, result in matches])
        return tuple([identity for identity, _ in matches]), joined

    def _applied(self, overload: Overload, arguments: list[Type]) -> Type | None:
        """Return the result of an overload for arguments of these types, or None if it does not fit."""
        fresh: Mapping = {name: self._new_variable() for name in overload.parameters}
        wanted = [substituted(fresh, kind) for kind in overload.arguments] if fresh else overload.arguments
        mapping = assign(self.mapping, arguments, wanted)
        if mapping is None:
            return None
        self.mapping = mapping
        return substituted(mapping, substituted(fresh, overload.result)) if fresh else overload.result

    @staticmethod
    def _joined_result(results: list[Type]) -> Type:
        result = results[0]
        for other in results[1:]:
            if result.kind not in DYNAMIC and other != result:
                result = DYN
        return result

    def _no_match(self, name: str, arguments: list[Type], call: nodes.Call) -> CelError:
        texts = [shown(settled(self.mapping, argument)) for argument in arguments]
        target = "" if call.target is None else f"{texts.pop(0)}."
        signature = f"{target}({', '.join(texts)})"
        return compile_error(
            f"found no matching overload for '{name}' applied to '{signature}'", call.position
        )

    # --- aggregates ---------------------------------------------------------------------------------------------

    def check_list(self, expr: nodes.ListExpr) -> nodes.Expr:
        elements = tuple(map(self.check, expr.elements))
        joined: Type | None = None
        for index, element in enumerate(elements):
            kind = self.types[element.id]
            if index in expr.optional:
                kind = self._inside_optional(kind, element)
            joined = self._joined(joined, kind)
        self.types[expr.id] = list_of(self._new_variable() if joined is None else joined)
        return nodes.ListExpr(expr.id, expr.position, elements, expr.optional)

    def _inside_optional(self, kind: Type, expr: nodes.Expr) -> Type:
        inner, is_optional = unwrapped_optional(kind)
        if not is_optional and inner.kind not in DYNAMIC:
            self._report(_mismatch(optional_of(inner), inner, expr.position))
        return inner

    def check_map(self, expr: nodes.MapExpr) -> nodes.Expr:
        entries: list[nodes.Entry] = []
        key_type: Type | None = None
        value_type: Type | None = None
        for entry in expr.entries:
            key = self.check(entry.key)
            key_type = self._joined(key_type, self.types[key.id])
            value = self.check(entry.value)
            kind = self.types[value.id]
            if entry.optional:
                kind = self._inside_optional(kind, value)
            value_type = self._joined(value_type, kind)
            entries.append(replace(entry, key=key, value=value))
        if key_type is None or value_type is None:
            key_type, value_type = self._new_variable(), self._new_variable()
        self.types[expr.id] = map_of(key_type, value_type)
        return replace(expr, entries=tuple(entries))

    def check_struct(self, expr: nodes.Struct) -> nodes.Expr:
        name = expr.type_name.removeprefix(".")
        constructed = TYPE_NAMES.get(name)
        if constructed is None:
            self.types[expr.id] = self._report(_undeclared(expr.type_name, expr.position))
            return expr
        inner = constructed.parameters[0] if constructed.parameters else constructed
        message = MESSAGES.get(name)
        if message is None and inner.kind is not Kind.STRUCT:
            inner = self._report(compile_error(f"'{name}' is not a message type", expr.position))
        self.types[expr.id] = inner
        return replace(
            expr, type_name=name, fields=tuple(self._check_field(name, part) for part in expr.fields)
        )

    def _check_field(self, struct: str, part: nodes.Field) -> nodes.Field:
        value = self.check(part.value)
        wanted = self._struct_field(struct, part.name, part.position)
        kind = self.types[value.id]
        if part.optional:
            kind = self._inside_optional(kind, value)
        if not self._assign(wanted, kind):
            message = f"expected type of field '{part.name}' is '{shown(wanted)}' but provided type is '{shown(kind)}'"
            self._report(compile_error(message, part.position))
        return replace(part, value=value)

    # --- folds --------------------------------------------------------------------------------------------------

    def check_comprehension(self, expr: nodes.Comprehension) -> nodes.Expr:
        over = self.check(expr.range)
        init = self.check(expr.init)
        range_type = substituted(self.mapping, self.types[over.id])
        accumulator_type = self.types[init.id]
        first, second = self._element_types(range_type, over, two=bool(expr.variable2))
        self.scopes.append({expr.accumulator: accumulator_type})
        self.scopes.append(
            {expr.variable: first, expr.variable2: second} if expr.variable2 else {expr.variable: first}
        )
        condition = self.check(expr.condition)
        self._expect(BOOL, condition)
        step = self.check(expr.step)
        self._expect(accumulator_type, step)
        self.scopes.pop()
        result = self.check(expr.result)
        self.scopes.pop()
        self.types[expr.id] = substituted(self.mapping, self.types[result.id])
        return nodes.Comprehension(
            *(expr.id, expr.position, over, expr.variable, expr.variable2, expr.accumulator),
            *(init, condition, step, result),
        )

    def _element_types(self, kind: Type, over: nodes.Expr, *, two: bool) -> tuple[Type, Type]:
        """Return the types of the one or two variables that run over a range."""
        if kind.kind is Kind.LIST:
            element = kind.parameters[0]
            return (INT, element) if two else (element, element)
        if kind.kind is Kind.MAP:
            return kind.parameters[0], kind.parameters[1]
        if kind.kind in DYNAMIC_OR_ERROR - {Kind.ANY} or kind.kind is Kind.PARAMETER:
            self._assign(DYN, kind)
            return DYN, DYN
        refusal = compile_error(
            f"expression of type '{shown(kind)}' cannot be range of a comprehension (must be list, map, or dynamic)",
            over.position,
        )
        self._report(refusal)
        return ERROR, ERROR

    def _expect(self, wanted: Type, expr: nodes.Expr) -> None:
        if not self._assign(wanted, self.types[expr.id]):
            self._report(_mismatch(wanted, self.types[expr.id], expr.position))

    # --- types --------------------------------------------------------------------------------------------------

    def _joined(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self._assign(previous, current):
            return most_general(previous, current)
        return DYN

    def _assign(self, source: Type, target: Type) -> bool:
        mapping = assign(self.mapping, (source,), (target,))
        if mapping is None:
            return False
        self.mapping = mapping
        return True

    def _new_variable(self) -> Type:
        self.variables += 1
        return parameter(f"_var{self.variables}")


_CHECKS: Final[dict[type, Any]] = {
    nodes.Literal: _Checker.check_literal,
    nodes.Ident: _Checker.check_ident,
    nodes.Select: _Checker.check_select,
    nodes.Call: _Checker.check_call,
    nodes.ListExpr: _Checker.check_list,
    nodes.MapExpr: _Checker.check_map,
    nodes.Struct: _Checker.check_struct,
    nodes.Comprehension: _Checker.check_comprehension,
}


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
