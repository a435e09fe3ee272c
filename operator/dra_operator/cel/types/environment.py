"""Environments: what an expression may use, by Kubernetes version, by purpose and by feature gate.

The API server admits new expressions with fewer things than it evaluates stored ones with, so that a cluster can be
downgraded; the operator evaluates what is stored. The functions are the rows of the library's tables, in upstream's
order, which matters: the first overload that fits is taken.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go`, k8s.io/apiserver `pkg/cel/environment/base.go`.
"""

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Any, Final, Literal, TypeAlias

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.versions import RELEASED, RULES, Rules, Version
from dra_operator.cel.cost.prices import ONE, Implementation, Price, Row
from dra_operator.cel.errors import runtime_error
from dra_operator.cel.library import (
    conversions,
    core,
    formatting,
    lists,
    named_formats,
    network,
    optionals,
    quantities,
    regex,
    strings,
    times,
    urls,
)
from dra_operator.cel.library.conversions import unchanged
from dra_operator.cel.library.times import duration_to_string, timestamp_to_string
from dra_operator.cel.types import types
from dra_operator.cel.types.types import (
    ANY,
    BOOL,
    DYN,
    QUANTITY,
    STRING,
    Kind,
    Type,
    map_of,
    parameters_in,
    read_type,
)
from dra_operator.cel.values import INT_MAX, INT_MIN, CelMap, Duration, Timestamp, TypeValue, Uint

_TABLES: Final[tuple[Mapping[str, Row], ...]] = (
    core.FUNCTIONS, conversions.FUNCTIONS, times.FUNCTIONS, regex.FUNCTIONS, lists.FUNCTIONS, strings.FUNCTIONS,
    formatting.FUNCTIONS, optionals.FUNCTIONS, quantities.FUNCTIONS, network.FUNCTIONS, urls.FUNCTIONS,
    named_formats.FUNCTIONS,
)  # fmt: skip


@fast_dataclass
class Overload:
    """One signature of a function. In the receiver style the first argument is the target."""

    id: str
    arguments: tuple[Type, ...]
    result: Type
    member: bool
    parameters: tuple[str, ...]
    code: Callable[..., Any] | None
    price: Price | None


@cache
def functions() -> Mapping[str, tuple[Overload, ...]]:
    """Return the overloads of every function of the newest Kubernetes, by the function's name."""
    declared: dict[str, tuple[Overload, ...]] = {}
    for table in _TABLES:
        for text, row in table.items():
            name, overload = read_row(text, row)
            declared[name] = (*declared.get(name, ()), overload)
    return declared


@cache
def older_functions() -> Mapping[str, tuple[tuple[str, Overload], ...]]:
    """Return the functions and overloads that there are instead of others where a rule does not hold, by the rule."""
    return {
        rule: tuple(read_row(text, row) for text, row in rows.items())
        for table in (lists.OLDER, conversions.OLDER, quantities.OLDER)
        for rule, rows in table.items()
    }


def price_of(name: str, overload: str) -> Price:
    """Return what a call of a function costs; the overload is empty where only the values decide which it is."""
    by_overload, by_name = _prices()
    return by_overload.get(overload) or by_name.get(name, ONE)


@cache
def _prices() -> tuple[Mapping[str, Price], Mapping[str, Price]]:
    by_overload: dict[str, Price] = {}
    by_name: dict[str, Price] = {}
    declared = [(name, each) for name, group in functions().items() for each in group]
    for name, overload in (*declared, *chain.from_iterable(older_functions().values())):
        if overload.price is not None:
            by_overload[overload.id] = overload.price
            if overload.price.by_name:
                by_name[name] = overload.price
    return by_overload, by_name


def read_row(text: str, row: Row) -> tuple[str, Overload]:
    """Return the name of a function and the overload that a row of the library states."""
    name, line = text.split(" ", 1)
    identity, signature = line.split(": ", 1)
    left, result = signature.rsplit(" -> ", 1)
    target, arguments = _split(left)
    types = tuple(map(read_type, (*target, *arguments)))
    result_type = read_type(result)
    used = dict.fromkeys(name for kind in (*types, result_type) for name in parameters_in(kind))
    code, price = row if isinstance(row, Implementation) else (row, None)
    return name, Overload(identity, types, result_type, bool(target), tuple(used), code, price)


def _split(left: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the target, if any, and the arguments of `target.(a, b)`."""
    depth = 0
    for start in range(len(left) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(left[start], 0)
        if depth == 0:
            break
    target = (left[: start - 1],) if start else ()
    return target, _arguments(left[start + 1 : -1])


def _arguments(text: str) -> tuple[str, ...]:
    parts, depth, current = [], 0, ""
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return (*parts, current.strip()) if current.strip() else tuple(parts)


Expressions: TypeAlias = Literal["stored", "new"]

DEVICE = Type(Kind.STRUCT, "kubernetes.DRADevice")


@dataclass(frozen=True, slots=True)
class Environment:
    """A set of rules. The two switches are the gates DRAConsumableCapacity and DRAListTypeAttributes."""

    kubernetes: Version = RELEASED
    expressions: Expressions = "stored"
    consumable_capacity: bool = True
    list_type_attributes: bool = True

    @property
    def rules(self) -> Rules:
        """The rules of its version of Kubernetes."""
        return RULES[self.kubernetes]

    @property
    def attribute_type(self) -> Type:
        """The static type of an attribute: dyn where it may be a list, else any."""
        listed = self.list_type_attributes or (self.rules.stored_lists and self.expressions == "stored")
        return DYN if listed else ANY

    @property
    def device_fields(self) -> dict[str, Type]:
        """The fields of the `device` variable."""
        return _device_fields(self)

    @property
    def functions(self) -> Mapping[str, tuple[Overload, ...]]:
        """The overloads of each function there is."""
        return _functions(self)

    def function_names(self) -> tuple[str, ...]:
        """Return the names of all functions that can be written."""
        return tuple(name for name in _functions(self) if name[0].isalpha() and "@" not in name)


@cache
def _device_fields(environment: Environment) -> dict[str, Type]:
    fields = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, environment.attribute_type)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if environment.consumable_capacity or environment.expressions == "stored":
        fields["allowMultipleAllocations"] = BOOL
    return fields


@cache
def _functions(environment: Environment) -> Mapping[str, tuple[Overload, ...]]:
    rules, new = environment.rules, environment.expressions == "new"
    found = {**functions()}
    if new and not environment.list_type_attributes and not rules.includes_without_gate:
        del found["includes"]
    if new or not rules.masks_of_cidrs:
        del found["isMask"]
    for rule, overloads in older_functions().items():
        for name, before in () if getattr(rules, rule) else overloads:
            if name in found:
                found[name] = _with(found[name], before)
    return found


def _with(overloads: tuple[Overload, ...], other: Overload) -> tuple[Overload, ...]:
    """Return overloads with another one in the place of that with the same arguments, or behind the first."""
    alike = [each for each in overloads if (each.member, each.arguments) == (other.member, other.arguments)]
    if alike:
        return tuple(other if each is alike[0] else each for each in overloads)
    return (overloads[0], other, *overloads[1:])


STORED = Environment()
"""How stored expressions are evaluated by the rules of the released version."""


# --- Messages: the protobuf types that an expression can name and make.
# There are no messages at run time: the well-known ones become the values they wrap as soon as they are made, so
# `google.protobuf.Int64Value{value: 1}` is the int 1 whose static type also takes null. Others cannot be made, only
# named. Source: cel-go `common/types/pb` and `checker/checker.go` (well-known types).


@dataclass(frozen=True, slots=True)
class Message:
    """A message: the type of what is made, its fields, and how they become a value."""

    type: types.Type
    fields: Mapping[str, types.Type]
    make: Callable[[Mapping[str, Any]], Any]


def make_message(name: str, fields: Mapping[str, Any]) -> Any:
    """Return the value that a message with these fields is; raises CelError if there is none."""
    message = MESSAGES.get(name)
    if message is None:
        raise runtime_error(f"unknown type '{name}'")
    return message.make(fields)


def _nullable(kind: types.Type) -> types.Type:
    return types.Type(kind.kind, kind.name, wrapper=True)


def _wrapper(kind: types.Type, zero: Any, convert: Callable[[Any], Any]) -> Message:
    return Message(_nullable(kind), {"value": kind}, lambda fields: convert(fields.get("value", zero)))


def _float(value: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _whole(low: int, high: int) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not low <= value <= high:
            raise runtime_error("integer overflow" if low else "unsigned integer overflow")
        return value

    return convert


def _any(_fields: Mapping[str, Any]) -> Any:
    raise runtime_error("unsupported conversion to ref.Val: (*dynamicpb.Message)")


def _value(fields: Mapping[str, Any]) -> Any:
    for name, value in fields.items():
        return None if name == "null_value" else _json(value)
    return None


def _json(value: Any) -> Any:
    """Return what a value is as JSON: numbers are doubles, or text where a double would lose digits."""
    kind = type(value)
    if kind is int or kind is Uint:
        return float(value) if abs(value) < _FIRST_INEXACT else str(int(value))
    if kind is tuple:
        return tuple(map(_json, value))
    if isinstance(value, CelMap):
        return CelMap((_json_key(key), _json(item)) for key, item in value.items())
    if kind is bytes:
        return b64encode(value).decode()
    if kind is Duration:
        return duration_to_string(value)
    return timestamp_to_string(value) if kind is Timestamp else value


def _json_key(key: Any) -> str:
    return ("true" if key else "false") if type(key) is bool else str(int(key) if type(key) is Uint else key)


def _time(fields: Mapping[str, Any]) -> int:
    nanos = int(fields.get("seconds", 0)) * 10**9 + int(fields.get("nanos", 0))
    if not INT_MIN <= nanos <= INT_MAX:
        raise runtime_error("range")
    return nanos


_FIRST_INEXACT: Final = 2**53
_TIME_FIELDS: Final = {"seconds": types.INT, "nanos": types.INT}
MESSAGES: Final[dict[str, Message]] = {
    "google.protobuf.Any": Message(types.ANY, {"type_url": types.STRING, "value": types.BYTES}, _any),
    "google.protobuf.BoolValue": _wrapper(types.BOOL, zero=False, convert=unchanged),
    "google.protobuf.BytesValue": _wrapper(types.BYTES, b"", unchanged),
    "google.protobuf.DoubleValue": _wrapper(types.DOUBLE, 0.0, unchanged),
    "google.protobuf.FloatValue": _wrapper(types.DOUBLE, 0.0, _float),
    "google.protobuf.Int32Value": _wrapper(types.INT, 0, _whole(-(2**31), 2**31 - 1)),
    "google.protobuf.Int64Value": _wrapper(types.INT, 0, unchanged),
    "google.protobuf.StringValue": _wrapper(types.STRING, "", unchanged),
    "google.protobuf.UInt32Value": _wrapper(types.UINT, Uint(0), _whole(0, 2**32 - 1)),
    "google.protobuf.UInt64Value": _wrapper(types.UINT, Uint(0), unchanged),
    "google.protobuf.Duration": Message(types.DURATION, _TIME_FIELDS, lambda fields: Duration(_time(fields))),
    "google.protobuf.Timestamp": Message(
        types.TIMESTAMP, _TIME_FIELDS, lambda fields: Timestamp(_time(fields))
    ),
    "google.protobuf.ListValue": Message(
        types.list_of(types.DYN),
        {"values": types.list_of(types.DYN)},
        lambda fields: _json(fields.get("values", ())),
    ),
    "google.protobuf.Struct": Message(
        types.map_of(types.STRING, types.DYN),
        {"fields": types.map_of(types.STRING, types.DYN)},
        lambda fields: _json(fields.get("fields", CelMap())),
    ),
    "google.protobuf.Value": Message(
        types.DYN,
        {
            "null_value": types.INT,
            "number_value": types.DOUBLE,
            "string_value": types.STRING,
            "bool_value": types.BOOL,
            "struct_value": types.map_of(types.STRING, types.DYN),
            "list_value": types.list_of(types.DYN),
        },
        _value,
    ),
}

_VALUES: Final = {
    "list": types.list_of(types.parameter("A")),
    "map": types.map_of(types.parameter("A"), types.parameter("B")),
    "optional_type": types.optional_of(types.parameter("V")),
    "net.IP": types.Type(types.Kind.OPAQUE, "net.IP"),
    "net.CIDR": types.Type(types.Kind.OPAQUE, "net.CIDR"),
    **{
        kind.name: kind
        for kind in (
            types.BOOL,
            types.BYTES,
            types.DOUBLE,
            types.INT,
            types.NULL,
            types.STRING,
            types.UINT,
            types.DURATION,
            types.TIMESTAMP,
        )
    },
}
TYPE_NAMES: Final[dict[str, types.Type]] = {
    "type": types.type_of(types.TYPE),
    **{name: types.type_of(kind) for name, kind in _VALUES.items()},
    DEVICE.name: types.type_of(DEVICE),
    **{name: types.type_of(message.type) for name, message in MESSAGES.items()},
}
"""The type of each name that stands for a type when it is used as a value."""
TYPE_VALUES: Final = {name: TypeValue(name) for name in ("type", *_VALUES)}
"""The value of such a name; only the checker knows the device and the messages that become something else."""
