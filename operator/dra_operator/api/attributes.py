"""Attribute values: a type and a value, never one without the other.

`True == 1` in Python, with equal hashes, and a version compares as text; a device's attribute is neither. So
a value carries its type everywhere: in maps, memos and constraints.
Source: ResourceSlice v1, `devices[].attributes[]`, a union of one field per type.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from dra_operator.api.text import about_quotes, shown

AttributeType: TypeAlias = Literal[
    "int", "bool", "string", "version", "ints", "bools", "strings", "versions", "unknown"
]
Scalar: TypeAlias = int | bool | str

_SCALARS: dict[AttributeType, type[Scalar]] = {"int": int, "bool": bool, "string": str, "version": str}
_LISTS: dict[AttributeType, type[Scalar]] = {"ints": int, "bools": bool, "strings": str, "versions": str}
SCALARS: Final = frozenset[str](_SCALARS)
"""The types of one value; those of lists, and of what nobody knows, are others."""
_WORDS: dict[type, str] = {int: "a whole number of 64 bits", bool: "true or false", str: "text"}


class AttributeValue(NamedTuple):
    """One attribute: `value` is an int, bool or str for a scalar type, a tuple of those for a list type.

    A union without a known field has type `unknown` and the value None: every selector evaluated on its
    device is an error, as upstream has it.

    A tuple rather than a dataclass: values are keys of many tables, and a tuple is hashed without a call.
    """

    type: AttributeType
    value: Scalar | tuple[Scalar, ...] | None


UNKNOWN = AttributeValue("unknown", None)


_Item = TypeVar("_Item")


def by_short_name(table: Mapping[str, _Item], driver: str) -> Mapping[str, _Item]:
    """Return a table of attributes, capacities or amounts without the driver's domain in the names.

    Of a name that is there with and without it, the one with the domain counts.
    Source: k8s.io/dynamic-resource-allocation 0.38 `api/conversion.go`.
    """
    domain = f"{driver}/"
    if full := [name for name in table if name.startswith(domain)]:
        others = {name: item for name, item in table.items() if not name.startswith(domain)}
        return {**others, **{name.removeprefix(domain): table[name] for name in full}}
    return table


def value_text(value: AttributeValue) -> str:
    """Return a value as a person writes it: `a`, `1`, `[1.0.0, 1.1.0]`."""
    if isinstance(value.value, tuple):
        return f"[{', '.join(map(_scalar_text, value.value))}]"
    return _scalar_text(value.value)


def typed_text(value: AttributeValue) -> str:
    """Return a value with its type: `string "a"`, `int 1`, `list of versions [1.0.0]`."""
    if isinstance(value.value, tuple):
        return f"list of {value.type} {value_text(value)}"
    return f'{value.type} "{value.value}"' if value.type == "string" else f"{value.type} {value_text(value)}"


def _scalar_text(value: Scalar | None) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_attribute(wire: Any) -> AttributeValue:
    """Return the attribute that a union of the wire stands for, e.g. `{"string": "h100"}`.

    Raises ValueError if the union's field has a value of another type.
    """
    if not isinstance(wire, dict):
        # A TypeError would pass pydantic by and end the reader; ValueError is its protocol for a bad value.
        raise ValueError(f'{shown(wire)} is not an object such as {{"string": "h100"}}')  # noqa: TRY004
    for name, kind in _SCALARS.items():
        if (value := wire.get(name)) is not None:
            return _scalar(name, _checked(name, kind, value))
    for name, kind in _LISTS.items():
        if (values := wire.get(name)) is not None:
            if not isinstance(values, list | tuple):
                raise ValueError(f'{shown(values)} is not a list ("{name}")')
            return AttributeValue(name, tuple(_checked(name, kind, value) for value in values))
    return UNKNOWN


@lru_cache(maxsize=8192)
def _scalar(name: AttributeType, value: Scalar) -> AttributeValue:
    # Devices are many and their values few. `True` and 1 never meet here, as each type has its name.
    return AttributeValue(name, value)


def write_attribute(attribute: AttributeValue) -> dict[str, Any]:
    """Return the union of the wire that stands for `attribute`; `{}` if its type is unknown."""
    value = attribute.value
    if value is None:
        return {}
    return {attribute.type: list(value) if isinstance(value, tuple) else value}


def _checked(name: str, kind: type[Scalar], value: Any) -> Scalar:
    # Not isinstance: a bool is an int there, and the wire tells them apart.
    if type(value) is kind and (not isinstance(value, int) or -(2**63) <= value < 2**63):
        return value
    raise ValueError(f'{shown(value)} is not {_WORDS[kind]} ("{name}"){about_quotes(kind, value)}')
