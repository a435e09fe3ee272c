"""Messages: the protobuf types that an expression can name and make.

There are no messages at run time: the well-known ones become the values they wrap as soon as they are made,
so `google.protobuf.Int64Value{value: 1}` is the int 1 whose static type also takes null. Others cannot be
made, only named.
Source: cel-go `common/types/pb` and `checker/checker.go` (well-known types).
"""

import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dra_operator.cel.errors import runtime_error
from dra_operator.cel.library.conversions import unchanged
from dra_operator.cel.library.times import duration_to_string, timestamp_to_string
from dra_operator.cel.types import types
from dra_operator.cel.types.environment import DEVICE
from dra_operator.cel.values.values import INT_MAX, INT_MIN, CelMap, Duration, Timestamp, TypeValue, Uint


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
