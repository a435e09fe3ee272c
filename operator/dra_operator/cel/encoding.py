"""Encoding: values as JSON, with their types still visible, as the reference answers write them.

A bool is a bool, a list a list, a map an object; everything else is text that starts with its type where it
needs to: `"1"`, `"1u"`, `"d:1"`, `"s:text"`, `"b:00ff"`, `"type:int"`, `"kubernetes.Quantity:80Gi"`,
`{"optional": ...}`.
"""

from typing import Any

from dra_operator.cel.library.golang import format_double
from dra_operator.cel.library.times import duration_text, written_parts
from dra_operator.cel.values import (
    MISSING,
    CelMap,
    Duration,
    Optional_,
    Timestamp,
    TypeValue,
    Uint,
    type_name,
)


def encoded(value: Any) -> Any:
    """Return a run-time value as JSON."""
    kind = type(value)
    if kind is bool:
        return value
    if kind is tuple:
        return [encoded(element) for element in value]
    if isinstance(value, CelMap):
        return {_key(encoded(key)): encoded(item) for key, item in value.items()}
    if kind is Optional_:
        return {"optional": "none" if value.value is MISSING else encoded(value.value)}
    return _text(value)


def _key(shown: Any) -> str:
    """Return an encoded key as text; what is no text is shown as Go prints it."""
    if isinstance(shown, dict):
        return f"map[{' '.join(f'{key}:{_key(shown[key])}' for key in sorted(shown))}]"
    if isinstance(shown, list):
        return f"[{' '.join(map(_key, shown))}]"
    return shown if isinstance(shown, str) else str(shown).lower()


def _text(value: Any) -> str:
    kind = type(value)
    if value is None:
        return "null"
    if kind is int:
        return str(value)
    if kind is Uint:
        return f"{int(value)}u"
    if kind is float:
        return f"d:{format_double(value)}"
    if kind is str:
        return f"s:{value}"
    if kind is bytes:
        return f"b:{value.hex()}"
    if kind is TypeValue:
        return f"type:{value.name}"
    if kind is Duration:
        return f"{type_name(value)}:{duration_text(value)}"
    if kind is Timestamp:
        return f"{type_name(value)}:{_moment(value)}"
    return f"{type_name(value)}:{value}"


def _moment(value: Timestamp) -> str:
    """Return a moment as Go prints it, e.g. `2020-01-01 00:00:00 +0000 UTC`."""
    date, time, zone = written_parts(value)
    offset = zone.replace(":", "")
    return f"{date} {time} {offset} {offset if value.offset else 'UTC'}"
