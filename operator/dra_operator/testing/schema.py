"""What a body becomes on its way through a Go struct, and why it may be refused there.

kube-apiserver decodes each body into a Go struct and answers with that struct encoded again. So unknown fields vanish,
null is absent, quantities come back as Go writes them, empty fields hide where Go hides them, and a value of the wrong
type is refused. This module does the same with the fields of `api.fields`.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from typing import Any

from dra_operator.api.fields import split_type, types
from dra_operator.api.quantity import passed_through

FieldPath = tuple[Any, ...]
"""Where a value is, innermost last: `((), "spec")`. Linked, since it is read only if something is wrong."""

Decoder = Callable[[Any, FieldPath, list[FieldPath]], Any]
"""Takes a value (not null), its path and the list that collects unknown fields; returns what Go encodes."""

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_RFC3339_MICRO = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d\.\d{6}([Zz]|[+-]\d\d:\d\d)")


class DecodeError(ValueError):
    """A value that does not fit its Go type."""


def decode(body: Mapping[str, Any], struct: str) -> tuple[dict[str, Any], list[str]]:
    """Return the body as the struct encodes it, and the unknown fields that were dropped, as paths.

    Raises DecodeError if a value has the wrong type.
    """
    unknown: list[FieldPath] = []
    found: dict[str, Any] = _struct(struct)(body, (), unknown)
    return found, [_text(path) for path in unknown]


def zero(struct: str) -> dict[str, Any]:
    """Return a struct that was never set, as Go encodes it."""
    found: dict[str, Any] = _struct(struct)({}, (), [])
    return found


def merge_keys(struct: str, name: str) -> tuple[str, str, str]:
    """Return the type of a struct's field, the patch strategy of a list, and its merge key (empty where none)."""
    type_, _, strategy, key = [*types().get(struct, {}).get(name, ()), "", "", "", ""][:4]
    return type_, strategy, key


def _text(path: FieldPath) -> str:
    """Return a path as messages show it: `spec.devices.requests[0].exactly`."""
    parts: list[str] = []
    while path:
        path, name = path
        parts.append(f"[{name}]" if isinstance(name, int) else f".{name}")
    return "".join(reversed(parts)).lstrip(".")


def _wrong(value: Any, path: FieldPath, wanted: str) -> DecodeError:
    return DecodeError(f"{_text(path)}: {value!r} is not of type {wanted}")


# --- decoders, compiled once a type ---------------------------------------------------------------------------------


@cache
def _decoder(type_: str) -> Decoder:
    match split_type(type_):
        case "*", inner:
            return _decoder(inner)
        case "[]", inner:
            return partial(_list, _decoder(inner), _zero(inner))
        case "{}", inner:
            return partial(_map, _decoder(inner), _zero(inner))
    return _SCALARS.get(type_) or _struct(type_)


def _list(inner: Decoder, empty: Any, value: Any, path: FieldPath, unknown: list[FieldPath]) -> Any:
    if not isinstance(value, list):
        raise _wrong(value, path, "list")
    return [
        inner(item, (path, index), unknown) if item is not None else empty for index, item in enumerate(value)
    ]


def _map(inner: Decoder, empty: Any, value: Any, path: FieldPath, unknown: list[FieldPath]) -> Any:
    if not isinstance(value, dict):
        raise _wrong(value, path, "map")
    return {
        key: inner(item, (path, key), unknown) if item is not None else empty for key, item in value.items()
    }


def _typed(kind: type | tuple[type, ...], value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(value, path, str(kind))
    return value


def _integer(bits: int, value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    limit = 1 << (bits - 1)
    if isinstance(value, bool) or not isinstance(value, int) or not -limit <= value < limit:
        raise _wrong(value, path, f"int{bits}")
    return value


def _quantity(value: Any, path: FieldPath, _unknown: list[FieldPath]) -> Any:
    text = value if isinstance(value, str) else str(value)
    try:
        # It is written to the store and read again, which makes 2000 of 1.953125Ki, and 2k of that.
        return passed_through(passed_through(text).text).text
    except ValueError:
        raise _wrong(value, path, "quantity") from None


def _time(
    pattern: re.Pattern[str], layout: str, value: Any, path: FieldPath, _unknown: list[FieldPath]
) -> Any:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _wrong(value, path, "time")
    return datetime.fromisoformat(value.upper()).astimezone(UTC).strftime(layout)


_SCALARS: dict[str, Decoder] = {
    "string": partial(_typed, str),
    "bytes": partial(_typed, str),
    "bool": partial(_typed, bool),
    "int32": partial(_integer, 32),
    "int64": partial(_integer, 64),
    "Quantity": _quantity,
    "Time": partial(_time, _RFC3339, "%Y-%m-%dT%H:%M:%SZ"),
    "MicroTime": partial(_time, _RFC3339_MICRO, "%Y-%m-%dT%H:%M:%S.%fZ"),
    "Raw": lambda value, _path, _unknown: value,
    "IntOrString": partial(_typed, (int, str)),
}
_ZERO: dict[str, Any] = {
    **dict.fromkeys(("string", "bytes"), ""),
    **dict.fromkeys(("IntOrString", "int32", "int64"), 0),
    "bool": False,
    "Quantity": "0",
}


def _zero(type_: str) -> Any:
    """Return how Go encodes a field of a type that was never set."""
    if type_ in _ZERO:
        return _ZERO[type_]
    return None if split_type(type_)[0] or type_ in _SCALARS else zero(type_)


def _hides_empty(type_: str, empty: str) -> bool:
    """True if a field vanishes when it has its empty value; `omitempty` never hides a struct or a time."""
    if empty == "omitzero":
        return True
    return empty == "omitempty" and (type_ in _ZERO or bool(split_type(type_)[0]) or type_ == "Raw")


@cache
def _struct(struct: str) -> Decoder:
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
            raise _wrong(value, path, struct)
        if not fields:
            compile_fields()
        found = {}
        for name, given in value.items():
            field = fields.get(name)
            if field is None:
                unknown.append((path, name))
            elif given is not None:
                decoder, hides_empty = field
                item = decoder(given, (path, name), unknown)
                if item or not hides_empty:
                    # What is stored has no empty lists: they come back as null where they are shown at all.
                    found[name] = None if item == [] else item
        for name, type_ in shown_when_absent:
            if name not in found:
                found[name] = _zero(type_)
        return found

    return decode_struct
