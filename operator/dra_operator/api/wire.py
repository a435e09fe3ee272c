"""The ground that the API's objects stand on: camel case on the wire, and the value types of their fields.

One definition of an object serves both worlds: pydantic reads these standard dataclasses at the edge
(`api.read`), with every check and a clear message, and what comes out carries no pydantic with it, so the
core pays for plain attributes.

Absent and empty are the same for lists and maps, as they are in Go. Whole numbers and booleans are strict, as
for the API server: `"2"` is not 2 and 1 is not true.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeAlias, TypeVar

from pydantic import BeforeValidator, ConfigDict, PlainValidator, Strict, WrapValidator
from pydantic.alias_generators import to_camel

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
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="ignore",
        arbitrary_types_allowed=True,
    )
