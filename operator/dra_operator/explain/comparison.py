"""Comparisons: what a selector that says no compared, in the words of the device, read from its syntax tree.

"memory 40Gi < 80Gi" tells a person more than the expression. Plain comparisons of one attribute or capacity with a
literal are told, alone or joined by `&&`; of anything else, what the device has of what the expression reads.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.api.attributes import AttributeValue, typed_text, value_text
from dra_operator.api.text import quote
from dra_operator.api.types import DeviceCapacity
from dra_operator.cel.errors import CelError
from dra_operator.cel.syntax.nodes import Call, Expr, Ident, Select, children
from dra_operator.cel.syntax.nodes import Literal as Constant
from dra_operator.cel.syntax.parser import parse
from dra_operator.cel.types.environment import STORED
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.slices import Column

_OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_REFUSED_BY: Final = {"isGreaterThan": "<=", "isLessThan": ">="}
_MADE_BY: Final = {"quantity": "quantity", "semver": "version"}
_TYPES: Final = {bool: "bool", int: "int", str: "string"}
_TABLES: Final = ("attributes", "capacity")
_TOKEN: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+|true|false""")
_MOST_READ: Final = 3

_Columns = tuple[Column[Any] | None, ...]
_Value = AttributeValue | DeviceCapacity | None


class _Field(NamedTuple):
    """What is read of a device. `optional`: what is missing is no error."""

    table: str
    domain: str = ""
    name: str = ""
    optional: bool = False

    def columns(self, slice_: Slice) -> _Columns:
        """Return the columns of a slice that hold it; none for the driver."""
        full = f"{self.domain}/{self.name}"
        if self.table == "attributes":
            return slice_.attribute_columns(full)
        if self.table == "capacity":
            bare = slice_.capacity.get(self.name) if self.domain == slice_.driver else None
            return slice_.capacity.get(full), bare
        return ()

    def value(self, slice_: Slice, index: int) -> _Value:
        """Return what a device has there, if it has something."""
        values = [column.values[index] for column in self.columns(slice_) if column is not None]
        return next((value for value in values if value is not None), None)


@dataclass(frozen=True, slots=True)
class Literal:
    """What a plain comparison compares with: its type, its place in the expression, and what is read of a device.

    `kind` is a type of attributes or `quantity`; `text` is without quotes.
    """

    field: _Field
    kind: str
    text: str
    start: int
    end: int

    def put(self, expression: str, value: str) -> str:
        """Return the expression with another value of the same type in this place."""
        literal = value if self.kind in ("int", "bool") else quote(value)
        return f"{expression[: self.start]}{literal}{expression[self.end :]}"


def conjuncts(expression: str) -> tuple[str, ...]:
    """Return the parts of an expression that `&&` joins at its top."""
    return tuple([text for _, text in _parts(expression)])


@lru_cache(maxsize=2048)
def find_literals(expression: str) -> tuple[Literal, ...]:
    """Return the literals of the plain comparisons that `&&` joins at the top of an expression, in order."""
    found = []
    for offset, text in _parts(expression):
        compared = _compared_by(text)
        if compared is not None and (token := _TOKEN.match(text, compared.literal.position)):
            start, end = (offset + place for place in token.span())
            found.append(Literal(compared.field, compared.kind, _literal_text(compared.literal), start, end))
    return tuple(found)


def first_false(
    selectors: SelectorCache, expression: str, slice_: Slice, refused: int, budget: Budget
) -> Iterator[tuple[str, int]]:
    """Yield what each of some refused devices has that the first false part of an expression compares or reads.

    Each text with a number of devices; those are left out of which it cannot be told, as what is read is computed.
    Raises AbortedError if the time is used up.
    """
    parts = conjuncts(expression)
    for part in parts:
        answers = selectors.get(part)
        passed = answers.ask(slice_, refused, budget)[0] if refused and len(parts) > 1 else 0
        reads = answers.program.reads if answers.program else None
        for index in bits.each(refused & ~passed):
            if text := _describe(part, reads, slice_, index):
                yield text, 1
        refused = passed


def _describe(part: str, reads: frozenset[str] | None, slice_: Slice, index: int) -> str:
    """Return what a device has that a part of an expression compares, or reads; nothing where that cannot be told."""
    compared = _compared_by(part)
    if compared is not None:
        return _describe_compared(compared, slice_, index)
    texts = [_describe_read(path, slice_, index) for path in sorted(reads or ())]
    return " and ".join([*texts[:_MOST_READ], *(["more"] if len(texts) > _MOST_READ else [])])


def _describe_compared(compared: "_Compared", slice_: Slice, index: int) -> str:
    field, operator, literal, kind, is_equality = compared
    text = _literal_text(literal)
    if field.table == "driver":
        return f"driver {slice_.driver} {operator} {text}"
    value = field.value(slice_, index)
    if value is None and field.optional:
        return f"no {field.domain}/{field.name}"
    if is_equality and isinstance(value, AttributeValue) and value.type != kind:
        # Values of different types are never equal, whatever they look like.
        text = f'{kind} "{text}"' if kind == "string" else f"{kind} {text}"
        return f"{field.name} {typed_text(value)} {operator} {text}"
    return f"{field.name} {_text(value)} {operator} {text}"


def _describe_read(path: str, slice_: Slice, index: int) -> str:
    """Return what a device has of what is read: `attributes/domain/id`, `capacity/domain/id` or a field."""
    table, _, full = path.partition("/")
    if table == "driver":
        return f"driver is {slice_.driver}"
    if not full:
        return f"{table} is {str(bool(slice_.shareable >> index & 1)).lower()}"
    domain, name = full.split("/", 1)
    value = _Field(table, domain, name).value(slice_, index)
    return f"no {full}" if value is None else f"{name} is {_text(value)}"


@lru_cache(maxsize=2048)
def _parts(expression: str) -> tuple[tuple[int, str], ...]:
    """Return the parts that `&&` joins at the top, each with where it begins."""
    tree = _tree(expression)
    if tree is None:
        return ((0, expression.strip()),)
    found: list[tuple[int, str]] = []
    begins = 0
    for end in [*sorted(_conjunctions(tree)), len(expression)]:
        text = expression[begins:end]
        # An operator in brackets does not join at the top: what stands before it is no expression.
        if end < len(expression) and _tree(text) is None:
            continue
        found.append((begins + len(text) - len(text.lstrip()), text.strip()))
        begins = end + 2
    return tuple(found)


def _conjunctions(tree: Expr) -> Iterator[int]:
    if isinstance(tree, Call) and tree.function == "_&&_":
        yield tree.position
        for child in children(tree):
            yield from _conjunctions(child)


def _tree(text: str) -> Expr | None:
    try:
        return parse(text, STORED)
    except (CelError, RecursionError):
        return None


class _Compared(NamedTuple):
    """A field and a literal, in the order in which texts have them, and the operator that holds where it is false."""

    field: _Field
    operator: str
    literal: Constant
    kind: str
    is_equality: bool


@lru_cache(maxsize=2048)
def _compared_by(part: str) -> _Compared | None:
    """Return the comparison of a field with one literal that a part of an expression is, or None."""
    match _tree(part):
        case Call(function=method, args=(value,), target=target) if method in _REFUSED_BY and target:
            return _with_literal(target, _REFUSED_BY[method], value)
        case Call(function=function, args=(left, right)) if (sign := function.strip("_")) in _OPPOSITE:
            match left, right:
                case Call(function="compareTo", args=(value,), target=Select() | Call() as target), Constant(
                    value=0
                ):
                    return _with_literal(target, _OPPOSITE[sign], value)
            found = _with_literal(left, _OPPOSITE[sign], right)
            return found or _with_literal(right, _OPPOSITE[_MIRRORED[sign]], left)
    return None


def _with_literal(left: Expr, operator: str, right: Expr) -> _Compared | None:
    field = _field(left)
    if field is None:
        return None
    match right:
        case Call(function=function, args=(Constant(value=str()) as literal,)) if function in _MADE_BY:
            return _Compared(field, operator, literal, _MADE_BY[function], operator in ("==", "!="))
        case Constant(value=value) if type(value) in _TYPES:
            return _Compared(field, operator, right, _TYPES[type(value)], True)
    return None


def _field(tree: Expr) -> _Field | None:
    """Return the part of a device that an expression is, or None."""
    match tree:
        case Select(operand=Ident(name="device"), field="driver", test_only=False):
            return _Field("driver")
        case Call(
            function="orValue",
            target=Call(function="_?._" | "_[?_]", args=(operand, Constant(value=str(name)))),
        ):
            found = _entry(operand, name)
            return None if found is None else found._replace(optional=True)
        case Select(operand=operand, field=name, test_only=False):
            return _entry(operand, name)
        case Call(function="_[_]", args=(operand, Constant(value=str(name)))):
            return _entry(operand, name)
    return None


def _entry(tree: Expr, name: str) -> _Field | None:
    match tree:
        case Call(
            function="_[_]",
            args=(Select(operand=Ident(name="device"), field=table), Constant(value=str(domain))),
        ) if table in _TABLES:
            return _Field(table, domain, name)
    return None


def _literal_text(literal: Constant) -> str:
    return str(literal.value).lower() if isinstance(literal.value, bool) else str(literal.value)


def _text(value: _Value) -> str:
    if value is None:
        return "missing"
    return value.value.text if isinstance(value, DeviceCapacity) else value_text(value)
