"""The ground that the API's objects stand on: camel case on the wire, and the value types of their fields.

pydantic reads these standard dataclasses at the edge (`api.read`); what comes out carries no pydantic with it. Absent
and empty are the same for lists and maps, as in Go. Whole numbers and booleans are strict: `"2"` is not 2.
"""

import re
import types
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)
from weakref import WeakValueDictionary

import orjson
from pydantic import (
    BeforeValidator,
    ConfigDict,
    PlainValidator,
    Strict,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from dra_operator.api.attributes import AttributeValue, read_attribute
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
Attributes = Table[Annotated[AttributeValue, PlainValidator(read_attribute)]]
"""The attributes of a device by name."""


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


# --- Interning: parts that many objects have alike, as the specs of claims from one template, are in memory once.
# A part that is written like one still in use is not read again: that saves time and memory, and what is found out
# about it holds for all objects that have it. Nobody may rely on it: a part that lacks defaults is replaced by one that
# has them, and some texts are never shared.

_OPTIONS: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS
)
"""What YAML has and JSON has not is not written as the text that it looks like."""
_NULL: Final = re.compile(rb"(?:^|[:,\[])null")
"""Where a value stands; in a text it can be found as well, which then is only not shared."""


def interned() -> WrapValidator:
    """Return a validator that goes around that of a part. The part's class must be frozen, and have weak references.

    What it carries unread, as opaque parameters, is that of the first body: whoever had it read must not change it.
    """
    known: WeakValueDictionary[bytes, Any] = WeakValueDictionary()

    def read(value: Any, each_by_itself: ValidatorFunctionWrapHandler) -> Any:
        try:
            text = orjson.dumps(value, option=_OPTIONS)
        except orjson.JSONEncodeError:
            return each_by_itself(value)
        if b"null" in text and _NULL.search(text):
            # This is also written for numbers that JSON does not have.
            return each_by_itself(value)
        found = known.get(text)
        if found is None:
            found = each_by_itself(value)
            # A copy: what orjson returns has room for 4 KiB.
            known[bytes(memoryview(text))] = found
        return found

    return WrapValidator(read)
