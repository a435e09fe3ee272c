"""Diagnostics: errors as a person can act on them.

A message says what is wrong in upstream's words; here it gets the place in the expression, and for a missing
key the name that was probably meant and the way to say that an attribute may be absent.
Source: k8s.io/dynamic-resource-allocation `cel/errors.go` for the advice.
"""

from difflib import get_close_matches
from typing import Final

from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.environment import STORED_137, Environment
from dra_operator.cel.errors import CelError

_MISSING: Final = "no such key: "
_UNDECLARED: Final = "undeclared reference to '"
_UNKNOWN_FIELD: Final = "undefined field '"
_MOST_NAMES: Final = 8
ADVICE: Final = "consider using optional chaining (.? followed by orValue()) or guarding the check with has()"


def caret(expression: str, error: CelError) -> str:
    """Return the message with its place: line and column, the line itself and a caret under the place."""
    if error.position is None:
        return error.message
    before = expression.encode()[: error.position].decode(errors="ignore")
    row, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    lines = expression.split("\n")
    line = lines[row] if row < len(lines) else ""
    return f"{row + 1}:{column + 1}: {error.message}\n | {line}\n | {'.' * column}^"


def advice(
    error: CelError, device: PreparedDevice | None = None, environment: Environment = STORED_137
) -> str:
    """Return what to do about an error, or nothing where there is nothing to say."""
    if error.kind == "runtime":
        return _key_advice(error.message, device)
    for words, known in (
        (_UNDECLARED, environment.function_names()),
        (_UNKNOWN_FIELD, tuple(environment.device_fields)),
    ):
        if words in error.message:
            name = error.message.split(words, 1)[1].split("'", 1)[0]
            close = get_close_matches(name, known, 1)
            return f'did you mean "{close[0]}"?' if close else ""
    return ""


def _key_advice(message: str, device: PreparedDevice | None) -> str:
    if not message.startswith(_MISSING):
        return ""
    if device is None:
        return ADVICE
    name = message.removeprefix(_MISSING)
    known = sorted({full.split("/", 1)[1] for full in (*device.attributes, *device.capacity)})
    if not known:
        return f"this device has no attributes; {ADVICE}"
    names = get_close_matches(name, known, 3) or known[:_MOST_NAMES]
    more = ", ..." if len(names) < len(known) and len(names) == _MOST_NAMES else ""
    return f"this device has {', '.join(names)}{more}; {ADVICE}"
