"""What a body becomes on its way through a Go struct, and why it may be refused there.

kube-apiserver decodes each body into a Go struct and answers with that struct encoded again. So unknown fields vanish,
null is absent, quantities come back canonical, empty fields hide where Go hides them, and a value of the wrong type is
a 400. This module does the same with the fields of `types.json` (see `go_types`).
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from dra_operator.api.quantity import canonical, parse_quantity

Decoder = Callable[[Any, str, list[str]], Any]
"""Takes the value, its path and the list that collects unknown fields; returns the value as Go would encode it."""

_INT_RANGE = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "int": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
}
_QUANTITY_PATTERN = "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")

ABSENT: Any = object()
"""What a decoder gets for a field that is not there."""


class DecodeError(Exception):
    """A value that does not fit its Go type; the text is the one of Go's JSON decoder."""


@cache
def types() -> dict[str, dict[str, list[str]]]:
    """Return the structs of `types.json`."""
    loaded: dict[str, dict[str, list[str]]] = orjson.loads(
        Path(__file__).with_name("types.json").read_bytes()
    )
    return loaded


def struct_name(group: str, version: str, kind: str) -> str:
    """Return the struct that holds a kind in a version: `resource/v1.ResourceClaim`."""
    package = group.partition(".")[0] or "core"
    # DeviceTaintRule became v1 in 1.37, with the fields of v1beta2.
    if kind == "DeviceTaintRule" and version == "v1":
        version = "v1beta2"
    return f"{package}/{version}.{kind}"


def decode(body: Mapping[str, Any], struct: str) -> tuple[dict[str, Any], list[str]]:
    """Return the body as the struct encodes it, and the unknown fields that were dropped, as paths.

    Raises DecodeError if a value has the wrong type.
    """
    unknown: list[str] = []
    return _struct_decoder(struct)(body, "", unknown), unknown


def merge_keys(struct: str, name: str) -> tuple[str, str, str]:
    """Return the type of a struct's field, the patch strategy of a list, and its merge key (empty where none)."""
    field = types().get(struct, {}).get(name)
    if field is None:
        return "", "", ""
    padded = [*field, "", "", ""]
    return padded[0], padded[2], padded[3]


def element(type_: str) -> str:
    """Return the struct that a field's type holds, below pointers, lists and maps."""
    return type_.lstrip("*[]{}")


# --- decoders, compiled once a type ---------------------------------------------------------------------------------


@cache
def _decoder(type_: str) -> Decoder:
    if type_.startswith("*"):
        return _pointer(_decoder(type_[1:]))
    if type_.startswith("[]"):
        return _list(type_, _decoder(type_[2:]))
    if type_.startswith("{}"):
        return _map(type_, _decoder(type_[2:]))
    if type_ in _INT_RANGE:
        return _integer(type_)
    if type_ in _SCALARS:
        return _SCALARS[type_]
    return _struct_decoder(type_)


def _go_kind(value: Any) -> str:
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


def _wrong(value: Any, path: str, go_type: str) -> DecodeError:
    kind = _go_kind(value)
    if kind == "number" and go_type.startswith(("int", "uint")):
        kind = f"number {value}"
    where = re.sub(r"\[[^\]]*\]", "", path)
    return DecodeError(f"json: cannot unmarshal {kind} into Go struct field {where} of type {go_type}")


def _pointer(inner: Decoder) -> Decoder:
    def decode_pointer(value: Any, path: str, unknown: list[str]) -> Any:
        return ABSENT if value is ABSENT or value is None else inner(value, path, unknown)

    return decode_pointer


def _go_type(type_: str) -> str:
    """Return how Go writes a type in a message: `[]v1.DeviceRequest`, `map[string]string`."""
    prefix = type_[: len(type_) - len(element(type_))].replace("{}", "map[string]")
    return prefix + element(type_).rpartition("/")[2]


def _list(type_: str, inner: Decoder) -> Decoder:
    go_type = _go_type(type_)

    def decode_list(value: Any, path: str, unknown: list[str]) -> Any:
        if value is ABSENT or value is None:
            return None
        if not isinstance(value, list):
            raise _wrong(value, path, go_type)
        return [inner(item, f"{path}[{index}]", unknown) for index, item in enumerate(value)]

    return decode_list


def _map(type_: str, inner: Decoder) -> Decoder:
    go_type = _go_type(type_)

    def decode_map(value: Any, path: str, unknown: list[str]) -> Any:
        if value is ABSENT or value is None:
            return None
        if not isinstance(value, dict):
            raise _wrong(value, path, go_type)
        # Go writes the keys of a map sorted.
        return {key: inner(value[key], f"{path}.{key}", unknown) for key in sorted(value)}

    return decode_map


def _string(value: Any, path: str, _unknown: list[str]) -> Any:
    if value is ABSENT or value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(value, path, "string")
    return value


def _bool(value: Any, path: str, _unknown: list[str]) -> Any:
    if value is ABSENT or value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(value, path, "bool")
    return value


def _integer(type_: str) -> Decoder:
    low, high = _INT_RANGE[type_]

    def decode_integer(value: Any, path: str, _unknown: list[str]) -> Any:
        if value is ABSENT or value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _wrong(value, path, type_)
        return value

    return decode_integer


def _float(value: Any, path: str, _unknown: list[str]) -> Any:
    if value is ABSENT or value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong(value, path, "float64")
    return value


def _quantity(value: Any, _path: str, _unknown: list[str]) -> Any:
    if value is ABSENT or value is None:
        return "0"
    try:
        return canonical(parse_quantity(value if isinstance(value, str) else str(value)))
    except ValueError:
        if isinstance(value, str) and re.fullmatch(_QUANTITY_PATTERN.strip("'"), value):
            raise DecodeError("unable to parse quantity's suffix") from None
        raise DecodeError(f"quantities must match the regular expression {_QUANTITY_PATTERN}") from None


def _read_time(value: Any, path: str) -> datetime:
    if not isinstance(value, str):
        raise _wrong(value, path, "string")
    if not _RFC3339.fullmatch(value):
        raise DecodeError(
            f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
        )
    return datetime.fromisoformat(value.upper()).astimezone(UTC)


def _time(value: Any, path: str, _unknown: list[str]) -> Any:
    if value is ABSENT or value is None:
        return None
    return _read_time(value, path).strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(value: Any, path: str, _unknown: list[str]) -> Any:
    if value is ABSENT or value is None:
        return None
    return _read_time(value, path).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _raw(value: Any, _path: str, _unknown: list[str]) -> Any:
    return None if value is ABSENT else value


def _int_or_string(value: Any, path: str, _unknown: list[str]) -> Any:
    if value is ABSENT or value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _wrong(value, path, "string")
    return value


_SCALARS: dict[str, Decoder] = {
    "string": _string,
    "bytes": _string,
    "bool": _bool,
    "float64": _float,
    "Quantity": _quantity,
    "Time": _time,
    "MicroTime": _micro_time,
    "Raw": _raw,
    "IntOrString": _int_or_string,
}


def _is_empty(value: Any, type_: str) -> bool:
    """True if Go's `omitempty` hides the value: false, 0, "", and empty lists and maps, but never a struct."""
    if value is None:
        return type_ not in ("Time", "MicroTime")
    if type_.startswith("*"):
        return False
    if type_ in _INT_RANGE or type_ in ("string", "bool", "float64", "bytes"):
        return not value
    return type_.startswith(("[]", "{}")) and not value


@cache
def _struct_decoder(struct: str) -> Decoder:
    short = struct.rpartition(".")[2]
    fields = [
        (
            name,
            field[0],
            len(field) > 1 and field[1] == "omitempty",
            len(field) > 1 and field[1] == "omitzero",
        )
        for name, field in types()[struct].items()
    ]
    names = frozenset(types()[struct])
    decoders: dict[str, Decoder] = {}

    def decode_struct(value: Any, path: str, unknown: list[str]) -> Any:
        if value is ABSENT or value is None:
            value = {}
        elif not isinstance(value, dict):
            raise _wrong(value, path or short, f"{struct.rpartition('/')[2]}")
        if not decoders:
            # Filled at the first use: structs may hold themselves.
            decoders.update({name: _decoder(type_) for name, type_, _, _ in fields})
        unknown.extend(f"{path}.{name}".lstrip(".") for name in value if name not in names)
        found = {}
        for name, type_, omit_empty, omit_zero in fields:
            given = value.get(name, ABSENT)
            if given is ABSENT and omit_empty and (type_[0] in "*[{" or type_ in _SCALAR_OMITTED):
                continue
            try:
                item = decoders[name](given, f"{path}.{name}" if path else name, unknown)
            except DecodeError as error:
                raise _named(error, short, path, name) from None
            if item is ABSENT or (omit_empty and _is_empty(item, type_)) or (omit_zero and not item):
                continue
            found[name] = item
        return found

    return decode_struct


_SCALAR_OMITTED = frozenset((*_INT_RANGE, "string", "bool", "float64", "bytes"))


def _named(error: DecodeError, struct: str, path: str, name: str) -> DecodeError:
    """Put the name of the innermost struct before the path, as Go does."""
    text = str(error)
    where = re.sub(r"\[[^\]]*\]", "", f"{path}.{name}" if path else name)
    return DecodeError(text.replace(f"struct field {where} ", f"struct field {struct}.{where} ", 1))
