"""Diagnostics: errors as a person can act on them.

A message says what is wrong in upstream's words; here it gets the place in the expression, and for a missing
key the name that was probably meant and the way to say that an attribute may be absent.
Source: k8s.io/dynamic-resource-allocation `cel/errors.go` for the advice.
"""

from difflib import SequenceMatcher
from typing import Final

from dra_operator.cel.device import PreparedDevice
from dra_operator.cel.environment import STORED_137, Environment
from dra_operator.cel.errors import CelError
from dra_operator.cel.wording import compile_text, meant

_MISSING: Final = "no such key: "
_UNDECLARED: Final = "undeclared reference to '"
_UNKNOWN_FIELD: Final = "undefined field '"
_MOST_NAMES: Final = 8
ADVICE: Final = "guard what not every device has by has(), or by .? and orValue()"


def caret(expression: str, error: CelError) -> str:
    """Return the message with its place: line and column, the line itself and a caret under the place."""
    if error.position is None:
        return error.message
    before = expression.encode()[: error.position].decode(errors="ignore")
    row, column = before.count("\n"), len(before) - before.rfind("\n") - 1
    lines = expression.split("\n")
    line = lines[row] if row < len(lines) else ""
    return f"{row + 1}:{column + 1}: {error.message}\n | {line}\n | {'.' * column}^"


def describe(
    expression: str,
    error: CelError,
    device: PreparedDevice | None = None,
    environment: Environment = STORED_137,
) -> str:
    """Return an error as a clause about its selector, in one line: what is wrong, where, and what to do about it.

    `does not compile at column 14: no such function "matchs"; did you mean "matches"?`
    """
    if error.kind == "compile":
        text = f"does not compile{_place(expression, error)}: {compile_text(error, expression, environment)}"
    else:
        hint = _key_advice(error.message, device)
        text = f"{error.message}; {hint}" if hint else error.message
    return " ".join(text.split())


def _place(expression: str, error: CelError) -> str:
    if error.position is None:
        return ""
    before = expression.encode(errors="surrogatepass")[: error.position].decode(errors="replace")
    row, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return f" at column {column}" if "\n" not in expression else f" at line {row}, column {column}"


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
            return meant(error.message.split(words, 1)[1].split("'", 1)[0], known)
    return ""


def _key_advice(message: str, device: PreparedDevice | None) -> str:
    if not message.startswith(_MISSING):
        return ""
    if device is None:
        return ADVICE
    name = message.removeprefix(_MISSING)
    full_names = sorted({*device.attributes, *device.capacity})
    if not full_names:
        return f"this device has no attributes; {ADVICE}"
    elsewhere = [_where(full, device) for full in full_names if full.partition("/")[2] == name]
    if elsewhere:
        # The name is right; the domain before it is not, or the table.
        return f"this device has {', '.join(elsewhere)}; {ADVICE}"
    known = sorted({full.partition("/")[2] for full in full_names})
    known.sort(key=lambda known_name: -SequenceMatcher(None, name, known_name).ratio())
    more = ", ..." if len(known) > _MOST_NAMES else ""
    return f"this device has {', '.join(known[:_MOST_NAMES])}{more}; {ADVICE}"


def _where(full: str, device: PreparedDevice) -> str:
    domain, _, name = full.partition("/")
    table = "attributes" if full in device.attributes else "capacity"
    return f'{table}["{domain}"].{name}'
