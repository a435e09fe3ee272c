"""Writing objects to the wire: the inverse of reading, without what is absent.

A field is left out when it holds what an absent field reads as, so that what is read and written again stays
as small as it was, and a patch names only what it sets. Amounts are written as they were read.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

from dra_operator.api.attributes import AttributeValue, write_attribute
from dra_operator.api.kinds import KINDS
from dra_operator.api.quantity import Quantity
from dra_operator.api.types import AllocationResult
from dra_operator.api.wire import wire_fields


def to_wire(obj: Any) -> dict[str, Any]:
    """Return the JSON object of a dataclass of `api.types`, in the shape of v1.

    An object of a kind gets `apiVersion` and `kind`; a part of one does not.
    """
    wire = _object(obj)
    kind = KINDS.get(type(obj).__name__)
    if kind is None:
        return wire
    return {"apiVersion": kind.api_version("v1"), "kind": kind.kind, **wire}


def allocation_to_wire(result: AllocationResult) -> dict[str, Any]:
    """Return what a claim's `status.allocation` holds for `result`.

    `devices` is there even if there are none, as in Go.
    """
    return {"devices": {}, **_object(result)}


@cache
def _plan(kind: Any) -> tuple[tuple[str, str, Any], ...]:
    """Return per field its name, its name on the wire, and the value that stands for absent."""
    return tuple(
        (each.name, name, each.default if each.default_factory is MISSING else each.default_factory())
        for each, name in zip(fields(kind), wire_fields(kind), strict=True)
    )


def _object(obj: Any) -> dict[str, Any]:
    return {
        name: _value(value)
        for attribute, name, absent in _plan(obj.__class__)
        if (value := getattr(obj, attribute)) != absent
    }


def _value(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, AttributeValue):
        return write_attribute(value)
    if is_dataclass(value):
        return _object(value)
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _value(item) for name, item in value.items()}
    return value
