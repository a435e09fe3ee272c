"""The ground that the API's objects stand on: camel case on the wire, and the value types of their fields.

pydantic reads these standard dataclasses at the edge (`api.read`); what comes out carries no pydantic with it. Absent
and empty are the same for lists and maps, as in Go. Whole numbers and booleans are strict: `"2"` is not 2.
"""

import types
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BeforeValidator, ConfigDict, PlainValidator, Strict, WrapValidator
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from dra_operator.api.attributes import AttributeValue, read_attribute, read_attributes
from dra_operator.api.quantity import Quantity, read_quantity

Json: TypeAlias = Any
"""A JSON value that is carried through unread."""

_T = TypeVar("_T")
Items = Annotated[tuple[_T, ...], BeforeValidator(lambda value: () if value is None else value)]
"""A list of the wire; null and absent are empty."""
Table = Annotated[Mapping[str, _T], BeforeValidator(lambda value: {} if value is None else value)]
"""A map of the wire, keyed by text; null and absent are empty."""
Whole = Annotated[int, Strict()]
"""A whole number, written as one."""
Flag = Annotated[bool, Strict()]
"""True or false."""
Amount = Annotated[Quantity, BeforeValidator(read_quantity)]
Attributes = Annotated[
    Mapping[str, Annotated[AttributeValue, PlainValidator(read_attribute)]], WrapValidator(read_attributes)
]
"""The attributes of a device by name; null and absent are empty."""


class Wire:
    """What every object shares: camel case on the wire, unknown fields ignored."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(alias_generator=to_camel, extra="ignore")


@cache
def wire_fields(kind: Any) -> dict[str, Any]:
    """Return the types of a dataclass' fields, as annotated, by the names they have on the wire."""
    hints = get_type_hints(kind, include_extras=True)
    return {_alias(hints[each.name]) or to_camel(each.name): hints[each.name] for each in fields(kind)}


def _alias(hint: Any) -> str | None:
    """Return the name of a field whose name on the wire is not just camel case."""
    if get_origin(hint) is not Annotated:
        return None
    return next((item.alias for item in hint.__metadata__ if isinstance(item, FieldInfo)), None)


@cache
def plain(hint: Any) -> Any:
    """Return a type without what is annotated to it, and without None."""
    while get_origin(hint) in (Annotated, Union, types.UnionType):
        hint = next((part for part in get_args(hint) if part is not type(None)), None)
    return hint
