"""Attribute values: a type and a value, never one without the other.

`True == 1` in Python, with equal hashes, and a version compares as text; a device's attribute is neither. So a value
carries its type everywhere: in maps, memos and constraints.
Source: ResourceSlice v1, `devices[].attributes[]`, a union of one field per type.
"""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

AttributeType: TypeAlias = Literal[
    "int", "bool", "string", "version", "ints", "bools", "strings", "versions", "unknown"
]

_SCALARS: dict[str, type] = {"int": int, "bool": bool, "string": str, "version": str}
_LISTS: dict[str, type] = {"ints": int, "bools": bool, "strings": str, "versions": str}


@dataclass(frozen=True, slots=True)
class AttributeValue:
    """One attribute: `value` is an int, bool or str for a scalar type, a tuple of those for a list type.

    A union without a known field has type `unknown` and the value None: every selector evaluated on its device is an
    error, as upstream has it.
    """

    type: AttributeType
    value: int | bool | str | tuple[int | bool | str, ...] | None


UNKNOWN = AttributeValue("unknown", None)


def read_attribute(wire: Any) -> AttributeValue:
    """Return the attribute that a union of the wire stands for, e.g. `{"string": "h100"}`.

    Raises ValueError if the union's field has a value of another type.
    """
    if isinstance(wire, AttributeValue):
        return wire
    if not isinstance(wire, dict):
        raise ValueError('an attribute is an object such as {"string": "h100"}')
    for name, kind in _SCALARS.items():
        if (value := wire.get(name)) is not None:
            return AttributeValue(name, _checked(name, kind, value))  # type: ignore[arg-type]
    for name, kind in _LISTS.items():
        if (values := wire.get(name)) is not None:
            if not isinstance(values, list | tuple):
                raise ValueError(f'"{name}" must be a list')
            return AttributeValue(name, tuple(_checked(name, kind, value) for value in values))  # type: ignore[arg-type]
    return UNKNOWN


def _checked(name: str, kind: type, value: Any) -> int | bool | str:
    if type(value) is not kind:
        raise ValueError(f'"{name}" must hold {kind.__name__}, not {value!r}')
    return value  # type: ignore[no-any-return]
