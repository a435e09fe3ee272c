"""How Go writes and reads plain values, where an answer or an error text depends on it; and what they have at a key.

The reference is a Go program: `string(1e6)` is `1e+06` because Go's shortest form says so. Each function here is one
function of Go's standard library, or of cel-go `interpreter/attributes.go` (`refQualify`, the qualifiers by type).
"""

import re
from typing import Any, Final

from dra_operator.cel.errors import runtime_error
from dra_operator.cel.values.values import (
    INT_MAX,
    MISSING,
    CelMap,
    Duration,
    Optional_,
    Timestamp,
    Uint,
    go_type,
    type_name,
)

_FLOAT: Final = re.compile(
    r"[+-]?(?:[0-9](?:_?[0-9])*(?:\.(?:[0-9](?:_?[0-9])*)?)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9](?:_?[0-9])*)?"
)
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX](?:(?:_?[0-9a-fA-F])+(?:\.(?:[0-9a-fA-F](?:_?[0-9a-fA-F])*)?)?|\.[0-9a-fA-F](?:_?[0-9a-fA-F])*)"
    r"[pP][+-]?[0-9]{1,6}"
)
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_SPECIAL: Final = {"inf": "inf", "infinity": "inf", "nan": "nan"}
_LONGEST_NUMBER: Final = 4000  # Python refuses to read a whole number of more than 4300 digits


def format_double(value: float) -> str:
    """Return the shortest text that reads as `value`: `strconv.FormatFloat(value, 'g', -1, 64)`."""
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = _shortest(value)
    if -4 <= exponent < 6:
        return sign + _positional(digits, exponent)
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{sign}{mantissa}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def format_double_positional(value: float) -> str:
    """Return the shortest text without an exponent: `strconv.FormatFloat(value, 'f', -1, 64)`."""
    sign, digits, exponent = _shortest(value)
    return sign + _positional(digits, exponent)


def _shortest(value: float) -> tuple[str, str, int]:
    """Return sign, digits (d.ddd) and the exponent of the first digit."""
    mantissa, _, exponent = f"{value!r}".lower().partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return sign, "0", 0
    leading = len(whole) - 1 if whole.strip("0") else -(len(fraction) - len(fraction.lstrip("0"))) - 1
    return sign, digits.rstrip("0") or "0", leading + int(exponent or 0)


def _positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    if len(digits) <= exponent + 1:
        return digits + "0" * (exponent + 1 - len(digits))
    return digits[: exponent + 1] + "." + digits[exponent + 1 :]


def parse_double(text: str) -> float | None:
    """Return the number that `text` is for `strconv.ParseFloat`, or None. A number too large is none."""
    special = _SPECIAL.get(text.lstrip("+-").lower() if text[:1] in ("+", "-") else text.lower())
    if special is not None and len(text) <= 9:
        if (special == "nan" and text[0] in "+-") or text[:2] in ("++", "--", "+-", "-+"):
            return None
        return float("-inf") if text.startswith("-") else float(special)
    if len(text) <= _LONGEST_NUMBER and _FLOAT.fullmatch(text):
        value = float(text)
    elif len(text) <= _LONGEST_NUMBER and _HEX_FLOAT.fullmatch(text):
        try:
            value = float.fromhex(text.replace("_", ""))
        except OverflowError:
            return None
    else:
        return None
    return value if abs(value) != float("inf") else None


def parse_integer(text: str) -> int | None:
    """Return the whole number that `text` is in decimal, of any size; None if it is none."""
    if len(text) > _LONGEST_NUMBER or not _INTEGER.fullmatch(text):
        return None
    return int(text)


def key_text(key: Any) -> str:
    """Return a key, or another value, as it stands in messages: `%v`.

    Of a list or a map the type is enough: what is short to write can be endless to read. So it is of a time.
    """
    if type(key) is bool:
        return "true" if key else "false"
    if type(key) is float:
        return format_double(key)
    if type(key) in (tuple, type(None), Optional_, Duration, Timestamp) or isinstance(key, CelMap):
        return type_name(key)
    return str(int(key)) if type(key) is Uint else str(key)


KEYS: Final = frozenset((str, int, Uint, bool, float))
"""The types of what can stand in brackets."""


def qualify(value: Any, key: Any) -> Any:
    """Return the entry or element of `value` at `key`; raises CelError if there is none."""
    found = look_up(value, key)
    if found is not MISSING:
        return found
    if type(value) is tuple:
        raise runtime_error(f"index out of bounds: {key_text(key)}")
    raise runtime_error(f"no such key: {key_text(key)}")


def look_up(value: Any, key: Any) -> Any:
    """Return the entry or element of `value` at `key`, or MISSING; what has no entries has none at any key."""
    if isinstance(value, CelMap):
        return value.find(key)
    if type(value) is tuple:
        index = _index(key)
        return value[index] if 0 <= index < len(value) else MISSING
    return MISSING


def _index(key: Any) -> int:
    kind = type(key)
    if kind is int or (kind is Uint and key <= INT_MAX):
        return int(key)
    if kind is float and key.is_integer() and -(2**63) < key < 2**63:
        return int(key)
    if kind is float or kind is Uint:
        raise runtime_error(f"unsupported index value {key_text(key)} in list")
    raise runtime_error(f"unsupported index type '{type_name(key)}' in list")


def check_key(key: Any) -> Any:
    """Return `key` if it is of a type that can be a key; raises CelError if not."""
    if type(key) in KEYS:
        return key
    raise runtime_error(f"invalid qualifier type: {go_type(key)}")
