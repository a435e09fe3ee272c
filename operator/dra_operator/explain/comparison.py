"""Comparisons: what a selector that says no compared, in the words of the device, read from its syntax tree.

"memory 40Gi < 80Gi" tells a person more than the expression. Plain comparisons of one attribute or capacity with a
literal are told, alone or joined by `&&`; of anything else, what the device has of the parts that the expression reads.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.selectors import SelectorCache
from dra_operator.api.attributes import AttributeValue, typed_text, value_text
from dra_operator.api.text import quote, shortened
from dra_operator.api.types import DeviceCapacity
from dra_operator.cel import STORED, CelError
from dra_operator.cel.syntax.nodes import Call, Expr, Ident, ListExpr, Select, children
from dra_operator.cel.syntax.nodes import Literal as Constant
from dra_operator.cel.syntax.parser import parse
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column

_OPPOSITE: Final = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_REFUSED_BY: Final = {"isGreaterThan": "<=", "isLessThan": ">="}
_MADE_BY: Final = {"quantity": "quantity", "semver": "version"}
_TYPES: Final = {bool: "bool", int: "int", str: "string"}
_TABLES: Final = ("attributes", "capacity")
_TOKEN: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+|true|false""")
_MOST_READ: Final = 3
_MOST_LISTED: Final = 4

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
class Comparison:
    """A plain comparison that is false for some device: what it reads of it, and how the text goes on.

    `rest` says what the value is not, as in `< 80Gi`. `kind` is the type of the literal and `typed` the rest that says
    it, for a value of another type, which is never equal to it.
    """

    field: _Field
    rest: str
    kind: str = ""
    typed: str = ""

    def describe(self, slice_: Slice, devices: int) -> Counter[str]:
        """Return what was compared for a set of devices, each text with the number of devices that it is about."""
        if self.field.table == "driver":
            return Counter({f"driver {slice_.driver} {self.rest}": devices.bit_count()})
        return Counter([self._describe(self.field.value(slice_, index)) for index in bits.each(devices)])

    def _describe(self, value: _Value) -> str:
        _, domain, name, optional = self.field
        if value is None and optional:
            return f"no {domain}/{name}"
        if self.kind and isinstance(value, AttributeValue) and value.type != self.kind:
            return f"{name} {typed_text(value)} {self.typed}"
        return f"{name} {_text(value)} {self.rest}"


@dataclass(frozen=True, slots=True)
class Reading:
    """Parts of a device that an expression reads, each as `attributes/domain/id`, `capacity/domain/id` or `driver`."""

    parts: tuple[str, ...]

    def describe(self, slice_: Slice, devices: int) -> Counter[str]:
        """Return what a set of devices has of them, each text with the number of devices that it is about."""
        return Counter([self._describe_all(slice_, index) for index in bits.each(devices)])

    def _describe_all(self, slice_: Slice, index: int) -> str:
        texts = [self._describe(part, slice_, index) for part in self.parts[:_MOST_READ]]
        return " and ".join([*texts, *(["more"] if len(self.parts) > _MOST_READ else [])])

    def _describe(self, part: str, slice_: Slice, index: int) -> str:
        table, _, full = part.partition("/")
        if table == "driver":
            return f"driver is {slice_.driver}"
        if not full:
            return f"{table} is {str(bool(slice_.shareable >> index & 1)).lower()}"
        domain, name = full.split("/", 1)
        value = _Field(table, domain, name).value(slice_, index)
        return f"no {full}" if value is None else f"{name} is {_text(value)}"


def reading(reads: frozenset[str] | None) -> Reading | None:
    """Return what an expression reads, by its paths, or None where it reads nothing or that cannot be told."""
    return Reading(tuple(sorted(reads))) if reads else None


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
        tree = _tree(text)
        compared = None if tree is None else _compared(tree)
        if compared is not None and (token := _TOKEN.match(text, compared.literal.position)):
            start, end = (offset + place for place in token.span())
            found.append(Literal(compared.field, compared.kind, _literal_text(compared.literal), start, end))
    return tuple(found)


@lru_cache(maxsize=2048)
def read(part: str) -> Comparison | None:
    """Return the plain comparison that a part of an expression is, or None."""
    tree = _tree(part)
    if tree is None:
        return None
    compared = _compared(tree)
    if compared is not None:
        return _about_literal(compared)
    match tree:
        case Select(test_only=True, operand=operand, field=name):
            return _about_presence(operand, name)
        case Call(function="@in", args=(Constant(value=str(name)), operand)):
            return _about_presence(operand, name)
        case Call(function="@in", args=(operand, ListExpr(elements=items))) if field := _field(operand):
            return _about_list(field, items)
        case Call(function="!_", args=(operand,)) if field := _field(operand):
            return _about_flag(field, "false")
    field = _field(tree)
    return _about_flag(field, "true") if field is not None else None


def first_false(
    selectors: SelectorCache, expression: str, slice_: Slice, refused: int, budget: Budget
) -> Iterator[tuple[Comparison | Reading, int]]:
    """Yield what the parts of an expression that are false first compared, each with the devices refused by it.

    Devices of which that cannot be told, as what a part reads is computed, are left out. Raises AbortedError if the
    time is used up.
    """
    parts = conjuncts(expression)
    for part in parts:
        if not refused:
            return
        answers = selectors.get(part)
        passed = answers.ask(slice_, refused, budget)[0] if len(parts) > 1 else 0
        found = read(part) or reading(answers.program.reads if answers.program else None)
        if (devices := refused & ~passed) and found is not None:
            yield found, devices
        refused = passed


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


def _compared(tree: Expr) -> _Compared | None:
    """Return the comparison of a field with one literal that an expression is, or None."""
    match tree:
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


def _about_literal(compared: _Compared) -> Comparison:
    field, operator, literal, kind, is_equality = compared
    text = _literal_text(literal)
    if field.table != "attributes" or not is_equality:
        return Comparison(field, f"{operator} {text}")
    shown = f'"{text}"' if kind == "string" else text
    return Comparison(field, f"{operator} {text}", kind, f"{operator} {kind} {shown}")


def _about_flag(field: _Field, value: str) -> Comparison | None:
    if field.table != "attributes":
        return None
    return Comparison(field, f"!= {value}", "bool", f"!= bool {value}")


def _about_list(field: _Field, items: Sequence[Expr]) -> Comparison | None:
    """Return that a value is none of a list, which is cut where it is long."""
    values = [item.value for item in items if isinstance(item, Constant) and type(item.value) in _TYPES]
    if field.table == "capacity" or len(values) < len(items) or not values:
        return None
    texts = [quote(value) if isinstance(value, str) else str(value).lower() for value in values]
    more = [f"{len(texts) - _MOST_LISTED} more"] if len(texts) > _MOST_LISTED else []
    rest = f"not in [{', '.join([*texts[:_MOST_LISTED], *more])}]"
    return Comparison(field, rest, _TYPES[type(values[0])], rest)


def _about_presence(operand: Expr, name: str) -> Comparison | None:
    field = _entry(operand, name)
    return None if field is None else Comparison(field._replace(optional=True), "")


def _literal_text(literal: Constant) -> str:
    return str(literal.value).lower() if isinstance(literal.value, bool) else str(literal.value)


def listed_values(values: Iterable[AttributeValue], *, with_types: bool) -> str:
    """Return some values in order, the first ones if there are many: `string "a" and int 1`, or `1 and a`."""
    return " and ".join(shortened(sorted(map(typed_text if with_types else value_text, values))))


def _text(value: _Value) -> str:
    if value is None:
        return "missing"
    return value.value.text if isinstance(value, DeviceCapacity) else value_text(value)
