"""Comparisons: what a selector that says no compared, in the words of the device.

"memory 40Gi < 80Gi" tells a person more than the expression. Only plain comparisons of one attribute or capacity with
a literal are told, alone or joined by `&&`; of anything else the expression itself has to do.
"""

import re
from collections.abc import Iterator

from dra_operator.api.attributes import AttributeValue
from dra_operator.api.types import DeviceCapacity
from dra_operator.inventory import Slice

_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_OPERATOR = r"\s*(==|!=|<=|>=|<|>)\s*"
_NAME = r"(?:\.([A-Za-z_]\w*)|\[[\"']([^\"']+)[\"']\])"
_ATTRIBUTE = rf"device\.attributes\[[\"']([^\"']+)[\"']\]{_NAME}"
_CAPACITY = rf"device\.capacity\[[\"']([^\"']+)[\"']\]{_NAME}"
_QUANTITY = r"quantity\([\"']([^\"']+)[\"']\)"
_LITERAL = r"(\"[^\"]*\"|'[^']*'|-?\d+|true|false)"

_DRIVER = re.compile(rf"device\.driver{_OPERATOR}{_LITERAL}")
_SCALAR = re.compile(rf"{_ATTRIBUTE}{_OPERATOR}{_LITERAL}")
_MEMBER = re.compile(rf"{_ATTRIBUTE}\s+in\s+(\[[^\]]*\])")
_FLAG = re.compile(rf"(!?)\s*{_ATTRIBUTE}")
_COMPARE_TO = re.compile(rf"{_CAPACITY}\.compareTo\({_QUANTITY}\){_OPERATOR}0")
_GREATER_OR_LESS = re.compile(rf"{_CAPACITY}\.is(Greater|Less)Than\({_QUANTITY}\)")
_EQUAL = re.compile(rf"{_CAPACITY}\s*(==|!=)\s*{_QUANTITY}")

def conjuncts(expression: str) -> list[str]:
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
            return [expression.strip()]
        elif depth == 0 and expression.startswith("&&", position):
            parts.append(expression[start:position].strip())
            start = position + 2
    parts.append(expression[start:].strip())
    return parts


def _is_no_conjunction(expression: str, position: int) -> bool:
    """True if `||` or the `?` of a condition stands here, not the one of an optional field."""
    if expression.startswith("||", position):
        return True
    return expression[position] == "?" and expression[position - 1 : position] not in (".", "[")


def describe(part: str, content: Slice, index: int) -> str | None:
    """Return what a part of an expression that is false for a device compared, or None if it is no plain comparison."""
    return next((text for teller in _TELLERS if (text := teller(part, content, index)) is not None), None)


def _driver(part: str, content: Slice, _: int) -> str | None:
    match = _DRIVER.fullmatch(part)
    return f"driver {content.driver} {_OPPOSITE[match[1]]} {_bare(match[2])}" if match else None


def _scalar(part: str, content: Slice, index: int) -> str | None:
    match = _SCALAR.fullmatch(part)
    if match is None:
        return None
    name = match[2] or match[3]
    return f"{name} {_attribute(content, index, match[1], name)} {_OPPOSITE[match[4]]} {_bare(match[5])}"


def _member(part: str, content: Slice, index: int) -> str | None:
    match = _MEMBER.fullmatch(part)
    if match is None:
        return None
    name = match[2] or match[3]
    return f"{name} {_attribute(content, index, match[1], name)} not in {match[4]}"


def _flag(part: str, content: Slice, index: int) -> str | None:
    match = _FLAG.fullmatch(part)
    if match is None:
        return None
    name = match[3] or match[4]
    return f"{name} is {_attribute(content, index, match[2], name)}"


def _compare_to(part: str, content: Slice, index: int) -> str | None:
    match = _COMPARE_TO.fullmatch(part)
    if match is None:
        return None
    name = match[2] or match[3]
    return f"{name} {_capacity(content, index, match[1], name)} {_OPPOSITE[match[5]]} {match[4]}"


def _greater_or_less(part: str, content: Slice, index: int) -> str | None:
    match = _GREATER_OR_LESS.fullmatch(part)
    if match is None:
        return None
    name = match[2] or match[3]
    opposite = "<=" if match[4] == "Greater" else ">="
    return f"{name} {_capacity(content, index, match[1], name)} {opposite} {match[5]}"


def _equal(part: str, content: Slice, index: int) -> str | None:
    match = _EQUAL.fullmatch(part)
    if match is None:
        return None
    name = match[2] or match[3]
    return f"{name} {_capacity(content, index, match[1], name)} {_OPPOSITE[match[4]]} {match[5]}"


_TELLERS = (_driver, _scalar, _member, _flag, _compare_to, _greater_or_less, _equal)


def _attribute(content: Slice, index: int, domain: str, name: str) -> str:
    value = content.attribute(index, f"{domain}/{name}")
    return "missing" if value is None else attribute_text(value)


def attribute_text(value: AttributeValue) -> str:
    """Return a value as CEL writes it, without quotes."""
    if isinstance(value.value, tuple):
        return "[" + ", ".join(_scalar_text(item) for item in value.value) + "]"
    return _scalar_text(value.value)


def _scalar_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _capacity(content: Slice, index: int, domain: str, name: str) -> str:
    for key in _keys(content, domain, name):
        column = content.capacity.get(key)
        value: DeviceCapacity | None = None if column is None else column.values[index]
        if value is not None:
            return value.value.text
    return "missing"


def _keys(content: Slice, domain: str, name: str) -> Iterator[str]:
    yield f"{domain}/{name}"
    if domain == content.driver:
        yield name


def _bare(literal: str) -> str:
    return literal.strip("\"'")
