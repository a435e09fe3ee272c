"""Comparisons: what a selector that says no compared, in the words of the device.

"memory 40Gi < 80Gi" tells a person more than the expression. Only plain comparisons of one attribute or capacity with
a literal are told, alone or joined by `&&`; of anything else the expression itself has to do.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.types import DeviceCapacity
from dra_operator.inventory import Slice
from dra_operator.inventory.columns import Column

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OPERATOR = r"\s*(==|!=|<=|>=|<|>)\s*"
_NAME = r"(?:\.(?P<field>[A-Za-z_]\w*)|\[[\"'](?P<key>[^\"']+)[\"']\])"
_ATTRIBUTE = rf"device\.attributes\[[\"'](?P<domain>[^\"']+)[\"']\]{_NAME}"
_CAPACITY = rf"device\.capacity\[[\"'](?P<domain>[^\"']+)[\"']\]{_NAME}"
_QUANTITY = r"quantity\([\"']([^\"']+)[\"']\)"
_LITERAL = r"(\"[^\"]*\"|'[^']*'|-?\d+|true|false)"

_DRIVER = re.compile(rf"device\.driver{_OPERATOR}{_LITERAL}")
_SCALAR = re.compile(rf"{_ATTRIBUTE}{_OPERATOR}{_LITERAL}")
_MEMBER = re.compile(rf"{_ATTRIBUTE}\s+in\s+(\[[^\]]*\])")
_FLAG = re.compile(rf"(?:(?P<not>!)\s*)?{_ATTRIBUTE}")
_COMPARE_TO = re.compile(rf"{_CAPACITY}\.compareTo\({_QUANTITY}\){_OPERATOR}0")
_GREATER_OR_LESS = re.compile(rf"{_CAPACITY}\.is(Greater|Less)Than\({_QUANTITY}\)")
_EQUAL = re.compile(rf"{_CAPACITY}\s*(==|!=)\s*{_QUANTITY}")


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

    `table` is `driver`, `attributes` or `capacity`; `rest` says what the value is not, as in `< 80Gi`.
    """

    table: str
    domain: str
    name: str
    rest: str

    def columns(self, content: Slice) -> tuple[Column[Any] | None, ...]:
        """Return the columns of a slice that the text depends on."""
        full = f"{self.domain}/{self.name}"
        if self.table == "attributes":
            return content.attribute_columns(full)
        bare = content.capacity.get(self.name) if self.domain == content.driver else None
        return (content.capacity.get(full), bare)

    def tell(self, content: Slice, index: int) -> str:
        """Return what was compared for a device."""
        if self.table == "driver":
            return f"driver {content.driver} {self.rest}"
        columns = self.columns(content)
        values = (column.values[index] for column in columns if column is not None)
        value = next((value for value in values if value is not None), None)
        return f"{self.name} {_text(value)} {self.rest}"


@lru_cache(maxsize=2048)
def read(part: str) -> Comparison | None:
    """Return the plain comparison that a part of an expression is, or None."""
    if match := _DRIVER.fullmatch(part):
        return Comparison("driver", "", "", f"{_OPPOSITE[match[1]]} {_bare(match[2])}")
    if match := _SCALAR.fullmatch(part):
        return _about("attributes", match, f"{_OPPOSITE[match[4]]} {_bare(match[5])}")
    if match := _MEMBER.fullmatch(part):
        return _about("attributes", match, f"not in {match[4]}")
    if match := _FLAG.fullmatch(part):
        return _about("attributes", match, f"!= {'false' if match['not'] else 'true'}")
    if match := _COMPARE_TO.fullmatch(part):
        return _about("capacity", match, f"{_OPPOSITE[match[5]]} {match[4]}")
    if match := _GREATER_OR_LESS.fullmatch(part):
        return _about("capacity", match, f"{'<=' if match[4] == 'Greater' else '>='} {match[5]}")
    if match := _EQUAL.fullmatch(part):
        return _about("capacity", match, f"{_OPPOSITE[match[4]]} {match[5]}")
    return None


def _about(table: str, match: re.Match[str], rest: str) -> Comparison:
    return Comparison(table, match["domain"], match["field"] or match["key"], rest)


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
