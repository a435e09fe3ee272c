"""Comparisons: what a selector that says no compared, in the words of the device.

"memory 40Gi < 80Gi" tells a person more than the expression. Plain comparisons of one attribute or capacity with a
literal are told, alone or joined by `&&`; of anything else, what the device has of the parts that the expression reads.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.text import quote, shortened
from dra_operator.api.types import Device, DeviceCapacity
from dra_operator.cel.device import full_name
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_OPERATOR = r"\s*(==|!=|<=|>=|<|>)\s*"
_NAME = r"(?:\.(?P<field>[A-Za-z_]\w*)|\[[\"'](?P<key>[^\"']+)[\"']\])"
_ATTRIBUTE = rf"device\.attributes\[[\"'](?P<domain>[^\"']+)[\"']\]{_NAME}"
_CAPACITY = rf"device\.capacity\[[\"'](?P<domain>[^\"']+)[\"']\]{_NAME}"
_QUANTITY = r"quantity\([\"']([^\"']+)[\"']\)"
_VERSION = r"semver\([\"']([^\"']+)[\"']\)"
_LITERAL = r"(\"[^\"]*\"|'[^']*'|-?\d+|true|false)"
_LIST = r"(\[[^\]]*\])"
_MOST_READ = 3
_MOST_LISTED = 4

_DRIVER = re.compile(rf"device\.driver{_OPERATOR}{_LITERAL}")
_SCALAR = re.compile(rf"{_ATTRIBUTE}{_OPERATOR}{_LITERAL}")
_DRIVERS = re.compile(rf"device\.driver\s+in\s+{_LIST}")
_MEMBER = re.compile(rf"{_ATTRIBUTE}\s+in\s+{_LIST}")
_FLAG = re.compile(rf"(?:(?P<not>!)\s*)?{_ATTRIBUTE}")
_COMPARE_TO = re.compile(rf"{_CAPACITY}\.compareTo\({_QUANTITY}\){_OPERATOR}0")
_GREATER_OR_LESS = re.compile(rf"{_CAPACITY}\.is(Greater|Less)Than\({_QUANTITY}\)")
_EQUAL = re.compile(rf"{_CAPACITY}\s*(==|!=)\s*{_QUANTITY}")
_COMPARE_VERSION = re.compile(rf"{_ATTRIBUTE}\.compareTo\({_VERSION}\){_OPERATOR}0")
_NEWER_OR_OLDER = re.compile(rf"{_ATTRIBUTE}\.is(Greater|Less)Than\({_VERSION}\)")
_SAME_VERSION = re.compile(rf"{_ATTRIBUTE}\s*(==|!=)\s*{_VERSION}")
_REVERSED = re.compile(rf"{_LITERAL}{_OPERATOR}(device\..*)", re.DOTALL)

_CALLED_WITH = re.compile(r"(?<!orValue\()(?:quantity|semver)\((?P<literal>\"[^\"']+\"|'[^\"']+')\)")
_LAST = re.compile(rf"(?:==|!=|<=|>=|<|>)\s*(?P<literal>{_LITERAL})[\s)]*")
_FIRST = re.compile(rf"[\s(]*(?P<literal>{_LITERAL}){_OPERATOR}device\..*", re.DOTALL)

_TABLE = r"device\.(?P<table>attributes|capacity)\[[\"'](?P<domain>[^\"']+)[\"']\]"
_OPTIONAL = re.compile(
    rf"(device\.(?:attributes|capacity)\[[^\]]+\])(?:\.\?(\w+)|\[\?([\"'][^\"']+[\"'])\])"
    rf"\.orValue\((?:{_LITERAL}|{_QUANTITY}|{_VERSION})\)"
)
_HAS = re.compile(rf"has\({_TABLE}\.(?P<field>\w+)\)")
_IN = re.compile(rf"[\"'](?P<field>[^\"']+)[\"']\s+in\s+{_TABLE}")


@lru_cache(maxsize=2048)
def conjuncts(expression: str) -> tuple[str, ...]:
    """Return the parts of an expression that `&&` joins at its top."""
    parts: list[str] = []
    depth = start = 0
    quote = ""
    for position, character in enumerate(expression):
        if quote:
            if character == quote and expression[position - 1] != "\\":
                quote = ""
        elif character in "\"'":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif depth == 0 and _is_no_conjunction(expression, position):
            return (expression.strip(),)
        elif depth == 0 and expression.startswith("&&", position):
            parts.append(expression[start:position].strip())
            start = position + 2
    parts.append(expression[start:].strip())
    return tuple(parts)


def _is_no_conjunction(expression: str, position: int) -> bool:
    """True if `||` or the `?` of a condition stands here, not the one of an optional field."""
    if expression.startswith("||", position):
        return True
    return expression[position] == "?" and expression[position - 1 : position] not in (".", "[")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A plain comparison that is false for some device: what it reads of it, and how the text goes on.

    `table` is `driver`, `attributes` or `capacity`; `rest` says what the value is not, as in `< 80Gi`. `kind` is the
    type of the literal and `typed` the rest that says it, for a value of another type, which is never equal to it.
    `optional`: what is missing is no error, and told without the rest.
    """

    table: str
    domain: str
    name: str
    rest: str
    kind: str = ""
    typed: str = ""
    optional: bool = False

    def columns(self, slice_: Slice) -> tuple[Column[Any] | None, ...]:
        """Return the columns of a slice that the text depends on."""
        return _columns(slice_, self.table, self.domain, self.name)

    def describe(self, slice_: Slice, devices: int) -> Counter[str]:
        """Return what was compared for a set of devices, each text with the number of devices that it is about."""
        if self.table == "driver":
            return Counter({f"driver {slice_.driver} {self.rest}": devices.bit_count()})
        columns = self.columns(slice_)
        return Counter([self._describe(_value(columns, index)) for index in bits.each(devices)])

    def _describe(self, value: AttributeValue | DeviceCapacity | None) -> str:
        if value is None and self.optional:
            return f"no {self.domain}/{self.name}"
        if self.kind and isinstance(value, AttributeValue) and value.type != self.kind:
            return f"{self.name} {typed(value)} {self.typed}"
        return f"{self.name} {_text(value)} {self.rest}"


@dataclass(frozen=True, slots=True)
class Reading:
    """Parts of a device that an expression reads, each as `attributes/domain/id`, `capacity/domain/id` or `driver`."""

    parts: tuple[str, ...]

    def columns(self, slice_: Slice) -> tuple[Column[Any] | None, ...]:
        """Return the columns of a slice that the text depends on."""
        found: list[Column[Any] | None] = []
        for part in self.parts[:_MOST_READ]:
            table, _, full = part.partition("/")
            found += _columns(slice_, table, *full.split("/", 1)) if full else ()
        return tuple(found)

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
            return f"{table} is {_scalar_text(bool(slice_.shareable >> index & 1))}"
        domain, name = full.split("/", 1)
        value = _value(_columns(slice_, table, domain, name), index)
        return f"no {full}" if value is None else f"{name} is {_text(value)}"


def reading(reads: frozenset[str] | None) -> Reading | None:
    """Return what an expression reads, by its paths, or None where it reads nothing or that cannot be told."""
    return Reading(tuple(sorted(reads))) if reads else None


def types_of(reads: frozenset[str] | None, driver: str, device: Device) -> str:
    """Return the attributes and capacities that an expression reads with their types: `model is string "a100"`."""
    texts: list[str] = []
    values: dict[str, AttributeValue | DeviceCapacity] = {
        f"attributes/{full_name(name, driver)}": value for name, value in device.attributes.items()
    }
    values |= {f"capacity/{full_name(name, driver)}": item for name, item in device.capacity.items()}
    for part in sorted(reads or ()):
        name, value = part.rpartition("/")[2], values.get(part)
        if isinstance(value, AttributeValue):
            texts.append(f"{name} is {typed(value)}")
        elif value is not None:
            texts.append(f"{name} is quantity {_text(value)}")
    return " and ".join(texts[:_MOST_READ])


@lru_cache(maxsize=2048)
def read(part: str) -> Comparison | None:
    """Return the plain comparison that a part of an expression is, or None."""
    part = _without_brackets(part)
    if match := _HAS.fullmatch(part) or _IN.fullmatch(part):
        return Comparison(match["table"], match["domain"], match["field"], "", optional=True)
    if match := _REVERSED.fullmatch(part):
        part = f"{match[3]} {_MIRRORED[match[2]]} {match[1]}"
    plain = _OPTIONAL.sub(lambda found: found[1] + (f".{found[2]}" if found[2] else f"[{found[3]}]"), part)
    compared = _read(plain)
    return replace(compared, optional=True) if compared is not None and plain != part else compared


@dataclass(frozen=True, slots=True)
class Literal:
    """What a plain comparison compares with: its type, its place in the expression, and what is read of a device.

    `kind` is a type of attributes or `quantity`; `text` is without quotes.
    """

    table: str
    domain: str
    name: str
    kind: str
    text: str
    start: int
    end: int

    def columns(self, slice_: Slice) -> tuple[Column[Any] | None, ...]:
        """Return the columns of a slice that hold what is compared; none for the driver."""
        return () if self.table == "driver" else _columns(slice_, self.table, self.domain, self.name)

    def put(self, expression: str, value: str) -> str:
        """Return the expression with another value of the same type in this place."""
        literal = value if self.kind in ("int", "bool") else quote(value)
        return f"{expression[: self.start]}{literal}{expression[self.end :]}"


@lru_cache(maxsize=2048)
def find_literals(expression: str) -> tuple[Literal, ...]:
    """Return the literals of the plain comparisons that `&&` joins at the top of an expression, in order."""
    found: list[Literal] = []
    position = 0
    for part in conjuncts(expression):
        position = expression.index(part, position)
        compared = read(part)
        match = _find_literal(part) if compared is not None else None
        if compared is not None and match is not None:
            start, end = (position + place for place in match.span("literal"))
            kind = _kind(match["literal"])
            if match.re is _CALLED_WITH:
                kind = "quantity" if compared.table == "capacity" else "version"
            fields = compared.table, compared.domain, compared.name
            found.append(Literal(*fields, kind, _bare(match["literal"]), start, end))
        position += len(part)
    return tuple(found)


def _find_literal(part: str) -> re.Match[str] | None:
    if match := _CALLED_WITH.search(part):
        return match
    if match := _FIRST.fullmatch(part):
        return match
    matches = [match for match in _LAST.finditer(part) if match.end() == len(part)]
    return matches[0] if matches else None


def _without_brackets(part: str) -> str:
    """Return a part without the brackets around all of it."""
    while part.startswith("(") and part.endswith(")"):
        depth = 0
        for position, character in enumerate(part):
            depth += (character == "(") - (character == ")")
            if depth == 0 and position < len(part) - 1:
                return part
        part = part[1:-1].strip()
    return part


def _read(part: str) -> Comparison | None:
    if match := _DRIVER.fullmatch(part):
        return Comparison("driver", "", "", f"{_OPPOSITE[match[1]]} {_bare(match[2])}")
    if match := _DRIVERS.fullmatch(part):
        return Comparison("driver", "", "", f"not in {_list(match[1])}")
    if match := _SCALAR.fullmatch(part):
        return _scalar(match, f"{_OPPOSITE[match[4]]} ", match[5])
    if match := _MEMBER.fullmatch(part):
        kind = _kind(match[4][1:].lstrip())
        return _about("attributes", match, f"not in {_list(match[4])}", kind, f"not in {_list(match[4])}")
    if match := _FLAG.fullmatch(part):
        return _scalar(match, "!= ", "false" if match["not"] else "true")
    if match := _COMPARE_TO.fullmatch(part):
        return _about("capacity", match, f"{_OPPOSITE[match[5]]} {match[4]}")
    if match := _GREATER_OR_LESS.fullmatch(part):
        return _about("capacity", match, f"{'<=' if match[4] == 'Greater' else '>='} {match[5]}")
    if match := _EQUAL.fullmatch(part):
        return _about("capacity", match, f"{_OPPOSITE[match[4]]} {match[5]}")
    return _read_version(part)


def _read_version(part: str) -> Comparison | None:
    if match := _COMPARE_VERSION.fullmatch(part):
        return _about("attributes", match, f"{_OPPOSITE[match[5]]} {match[4]}")
    if match := _NEWER_OR_OLDER.fullmatch(part):
        return _about("attributes", match, f"{'<=' if match[4] == 'Greater' else '>='} {match[5]}")
    if match := _SAME_VERSION.fullmatch(part):
        operator = _OPPOSITE[match[4]]
        return _about(
            "attributes", match, f"{operator} {match[5]}", "version", f"{operator} version {match[5]}"
        )
    return None


def _scalar(match: re.Match[str], operator: str, literal: str) -> Comparison:
    """Return the comparison of an attribute with a literal."""
    kind, bare = _kind(literal), _bare(literal)
    shown = f'"{bare}"' if kind == "string" else bare
    return _about("attributes", match, f"{operator}{bare}", kind, f"{operator}{kind} {shown}")


def _about(table: str, match: re.Match[str], rest: str, kind: str = "", typed: str = "") -> Comparison:
    return Comparison(table, match["domain"], match["field"] or match["key"], rest, kind, typed)


def _kind(literal: str) -> str:
    """Return the type of the literal that a text begins with, as attributes have it."""
    if literal.startswith(('"', "'")):
        return "string"
    if literal.startswith(("true", "false")):
        return "bool"
    return "int" if literal.lstrip("-")[:1].isdigit() else ""


def _list(literal: str) -> str:
    """Return a list as it is written, in one line, cut where it is long."""
    items = [" ".join(item.split()) for item in literal[1:-1].split(",")]
    if len(items) <= _MOST_LISTED:
        return " ".join(literal.split())
    return f"[{', '.join(items[:_MOST_LISTED])}, {len(items) - _MOST_LISTED} more]"


def _columns(slice_: Slice, table: str, domain: str, name: str) -> tuple[Column[Any] | None, ...]:
    full = f"{domain}/{name}"
    if table == "attributes":
        return slice_.attribute_columns(full)
    bare = slice_.capacity.get(name) if domain == slice_.driver else None
    return (slice_.capacity.get(full), bare)


def _value(columns: tuple[Column[Any] | None, ...], index: int) -> AttributeValue | DeviceCapacity | None:
    for column in columns:
        if column is not None and (value := column.values[index]) is not None:
            found: AttributeValue | DeviceCapacity = value
            return found
    return None


def listed_values(values: Iterable[AttributeValue], *, with_types: bool) -> str:
    """Return some values in order, the first ones if there are many: `string "a" and int 1`, or `1 and a`."""
    return " and ".join(shortened(sorted(map(typed if with_types else _text, values))))


def typed(value: AttributeValue) -> str:
    """Return an attribute with its type: `string "a"`, `int 1`, `list of versions [1.0.0]`."""
    if isinstance(value.value, tuple):
        return f"list of {value.type} {_text(value)}"
    return f'{value.type} "{value.value}"' if value.type == "string" else f"{value.type} {_text(value)}"


def _text(value: AttributeValue | DeviceCapacity | None) -> str:
    if value is None:
        return "missing"
    if isinstance(value, DeviceCapacity):
        return value.value.text
    if isinstance(value.value, tuple):
        return "[" + ", ".join(map(_scalar_text, value.value)) + "]"
    return _scalar_text(value.value)


def _scalar_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bare(literal: str) -> str:
    return literal.strip("\"'")
