"""What a body becomes on its way through a Go struct, and why it may be refused there.

kube-apiserver decodes each body into a Go struct and answers with that struct encoded again. So unknown fields vanish,
null is absent, quantities come back as Go writes them, empty fields hide where Go hides them, and a value of the wrong
type is a 400. This module does the same with the fields of `api.fields`.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from dra_operator.api.fields import element, split_type, types
from dra_operator.api.quantity import passed_through

FieldPath = tuple[Any, ...]
"""Where a value is, innermost last: `((), "spec")`. Linked, since it is read only if something is wrong."""

Decoder = Callable[[Any, FieldPath, list[FieldPath]], Any]
"""Takes a value (not null), its path and the list that collects unknown fields; returns what Go encodes."""

_INT_RANGE = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
_QUANTITY_PATTERN = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_RFC3339_MICRO = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d\.\d{6}([Zz]|[+-]\d\d:\d\d)")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


class _Key(str):
    """A key of a map: part of the path of an unknown field, but not of a wrong value's."""

    __slots__ = ()


class DecodeTextError(Exception):
    """A value that a type's own decoder refuses, in that decoder's words."""


class DecodeError(DecodeTextError):
    """A value that does not fit its Go type; `struct` is the innermost struct around it."""

    def __init__(self, given: str, path: FieldPath, go_type: str) -> None:
        super().__init__(given, path, go_type)
        self.given = given
        self.path = path
        self.go_type = go_type
        self.struct = ""

    def __str__(self) -> str:
        path: FieldPath = self.path
        fields: tuple[str, ...] = ()
        while path:
            path, name = path
            fields = fields if isinstance(name, int | _Key) else (name, *fields)
        where = ".".join(fields)
        struct = self.struct.rpartition(".")[2]
        return f"json: cannot unmarshal {self.given} into Go struct field {struct}.{where} of type {self.go_type}"


def decode(body: Mapping[str, Any], struct: str) -> tuple[dict[str, Any], list[str]]:
    """Return the body as the struct encodes it, and the unknown fields that were dropped, as paths.

    Raises DecodeError if a value has the wrong type.
    """
    unknown: list[FieldPath] = []
    found: dict[str, Any] = _struct_decoder(struct)(body, (), unknown)
    return found, [_text(path) for path in unknown]


def _text(path: FieldPath) -> str:
    """Return a path as messages show it: `spec.devices.requests[0].exactly`."""
    parts: list[str] = []
    while path:
        path, name = path
        parts.append(f"[{name}]" if isinstance(name, int) else f".{name}")
    return "".join(reversed(parts)).lstrip(".")


def zero(struct: str) -> dict[str, Any]:
    """Return a struct that was never set, as Go encodes it."""
    found: dict[str, Any] = _struct_decoder(struct)({}, (), [])
    return found


def in_go_order(value: Any, type_: str) -> Any:
    """Return a value with the fields of structs in the order of Go, and those of maps by name, for messages."""
    if isinstance(value, list):
        return [in_go_order(item, type_[2:]) for item in value]
    if not isinstance(value, dict):
        return value
    fields = types().get(type_.removeprefix("*"))
    if fields is None:
        return {key: in_go_order(value[key], type_.removeprefix("{}")) for key in sorted(value)}
    return {name: in_go_order(value[name], field[0]) for name, field in fields.items() if name in value}


def merge_keys(struct: str, name: str) -> tuple[str, str, str]:
    """Return the type of a struct's field, the patch strategy of a list, and its merge key (empty where none)."""
    field = types().get(struct, {}).get(name)
    if field is None:
        return "", "", ""
    padded = [*field, "", "", ""]
    return padded[0], padded[2], padded[3]


# --- decoders, compiled once a type ---------------------------------------------------------------------------------


@cache
def _decoder(type_: str) -> Decoder:
    match split_type(type_):
        case "*", inner:
            return _decoder(inner)
        case "[]", inner:
            return _list(type_, _decoder(inner), _zero(inner))
        case "{}", inner:
            return _map(type_, _decoder(inner), _zero(inner))
    if type_ in _INT_RANGE:
        return _integer(type_)
    if type_ in _SCALARS:
        return _SCALARS[type_]
    return _struct_decoder(type_)


def go_kind(value: Any) -> str:
    """Return what Go calls a JSON value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case int() | float():
            return "number"
    return type(value).__name__


def _wrong(value: Any, path: FieldPath, go_type: str) -> DecodeError:
    kind = go_kind(value)
    if kind == "number" and go_type.startswith("int"):
        kind = f"number {value}"
    return DecodeError(kind, path, go_type)


def _go_type(type_: str) -> str:
    """Return how Go writes a type in a message: `[]v1.DeviceRequest`, `map[string]string`."""
    prefix = type_[: len(type_) - len(element(type_))].replace("{}", "map[string]")
    return prefix + element(type_).rpartition("/")[2]


def _list(type_: str, inner: Decoder, empty: Any) -> Decoder:
    go_type = _go_type(type_)

    def decode_list(value: Any, path: FieldPath, unknown: list[FieldPath]) -> Any:
        if not isinstance(value, list):
            raise _wrong(value, path, go_type)
        return [
            inner(item, (path, index), unknown) if item is not None else empty
            for index, item in enumerate(value)
        ]

    return decode_list


def _map(type_: str, inner: Decoder, empty: Any) -> Decoder:
    go_type = _go_type(type_)

    def decode_map(value: Any, path: FieldPath, unknown: list[FieldPath]) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, path, go_type)
        return {
            key: inner(item, (path, _Key(key)), unknown) if item is not None else empty
            for key, item in value.items()
        }

    return decode_map


def _string(value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    if not isinstance(value, str):
        raise _wrong(value, path, "string")
    return value


def _bool(value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    if not isinstance(value, bool):
        raise _wrong(value, path, "bool")
    return value


def _integer(type_: str) -> Decoder:
    low, high = _INT_RANGE[type_]

    def decode_integer(value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _wrong(value, path, type_)
        return value

    return decode_integer


def _quantity(value: Any, _path: FieldPath, _unknown: list[FieldPath]) -> Any:
    text = value if isinstance(value, str) else str(value)
    try:
        # It is written to the store and read again, which makes 2000 of 1.953125Ki, and 2k of that.
        return passed_through(passed_through(text).text).text
    except ValueError:
        if re.fullmatch(_QUANTITY_PATTERN.strip("'"), text):
            raise DecodeTextError("unable to parse quantity's suffix") from None
        raise DecodeTextError(f"quantities must match the regular expression {_QUANTITY_PATTERN}") from None


def _read_time(value: Any, path: FieldPath, pattern: re.Pattern[str], layout: str) -> datetime:
    if not isinstance(value, str):
        raise _wrong(value, path, "string")
    if not pattern.fullmatch(value):
        seconds = _RFC3339.fullmatch(value)
        rest, wanted = (seconds[2], ".000000") if seconds else (value, "2006")
        raise DecodeTextError(f'parsing time "{value}" as "{layout}": cannot parse "{rest}" as "{wanted}"')
    return datetime.fromisoformat(value.upper()).astimezone(UTC)


def _time(value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    read = _read_time(value, path, _RFC3339, "2006-01-02T15:04:05Z07:00")
    return read.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    read = _read_time(value, path, _RFC3339_MICRO, "2006-01-02T15:04:05.000000Z07:00")
    return read.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _raw(value: Any, _path: FieldPath, _unknown: list[FieldPath]) -> Any:
    return value


def _int_or_string(value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _wrong(value, path, "string")
    return value


_SCALARS: dict[str, Decoder] = {
    "string": _string,
    "bytes": _string,
    "bool": _bool,
    "Quantity": _quantity,
    "Time": _time,
    "MicroTime": _micro_time,
    "Raw": _raw,
    "IntOrString": _int_or_string,
}
_ZERO = {
    "string": "",
    "bytes": "",
    "bool": False,
    "Quantity": "0",
    "IntOrString": 0,
} | dict.fromkeys(_INT_RANGE, 0)


def _zero(type_: str) -> Any:
    """Return how Go encodes a field of a type that was never set."""
    if type_ in _ZERO:
        return _ZERO[type_]
    if type_.startswith(("*", "[]", "{}")) or type_ in _SCALARS:
        return None
    return zero(type_)


def _hides_empty(type_: str, empty: str) -> bool:
    """True if a field vanishes when it has its empty value; `omitempty` never hides a struct or a time."""
    if empty == "omitzero":
        return True
    return empty == "omitempty" and (type_ in _ZERO or type_.startswith(("*", "[]", "{}")) or type_ == "Raw")


@cache
def _struct_decoder(struct: str) -> Decoder:
    fields: dict[str, tuple[Decoder, bool]] = {}
    shown_when_absent: list[tuple[str, str]] = []

    def compile_fields() -> None:
        # At the first use, not before: structs may hold themselves.
        for name, field in types()[struct].items():
            type_, empty = [*field, ""][:2]
            hidden = _hides_empty(type_, empty)
            # A pointer to an empty value is not empty.
            fields[name] = (_decoder(type_), hidden and not type_.startswith("*"))
            if not hidden:
                shown_when_absent.append((name, type_))

    def decode_struct(value: Any, path: FieldPath, unknown: list[FieldPath]) -> Any:
        if not isinstance(value, dict):
            raise _wrong(value, path, struct.rpartition("/")[2])
        if not fields:
            compile_fields()
        found = {}
        for name, given in value.items():
            field = fields.get(name)
            if field is None:
                unknown.append((path, name))
            elif given is not None:
                decoder, hides_empty = field
                try:
                    item = decoder(given, (path, name), unknown)
                except DecodeError as error:
                    error.struct = error.struct or struct
                    raise
                if item or not hides_empty:
                    # What is stored has no empty lists: they come back as null where they are shown at all.
                    found[name] = None if item == [] else item
        for name, type_ in shown_when_absent:
            if name not in found:
                found[name] = _zero(type_)
        return found

    return decode_struct
