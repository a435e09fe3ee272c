"""Conversions between the primitive types.

A conversion that would lose the magnitude of a number is an error, never a wrap-around; fractions are cut
off.
Source: cel-go `common/types`, `ConvertToType` of each type.
"""

from typing import Any, Final

from dra_operator.cel.cost.prices import TO_BYTES, TO_TEXT, Implementation, Row
from dra_operator.cel.errors import conversion_error, runtime_error
from dra_operator.cel.library.times import (
    NANOS,
    duration_to_string,
    int_to_timestamp,
    parse_duration,
    parse_timestamp,
    timestamp_to_string,
)
from dra_operator.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Uint,
    format_double,
    parse_double,
    parse_integer,
)

_DURATION: Final = "google.protobuf.Duration"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_TRUE: Final = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE: Final = frozenset(("0", "f", "F", "false", "FALSE", "False"))


def string_to_bool(text: str) -> bool:
    """Return the truth value that `text` names; not every spelling counts. Source: Go `strconv.ParseBool`."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise conversion_error("bool")


def string_to_bytes(text: str) -> bytes:
    """Return the UTF-8 of `text`."""
    return text.encode()


def bytes_to_string(data: bytes) -> str:
    """Return the text that `data` is in UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise runtime_error("invalid UTF-8 in bytes, cannot convert to string") from None


def string_to_double(text: str) -> float:
    """Return the double that `text` stands for."""
    value = parse_double(text)
    if value is None:
        raise conversion_error("double")
    return value


def string_to_int(text: str) -> int:
    """Return the int that `text` is in decimal."""
    value = parse_integer(text)
    if value is None or not INT_MIN <= value <= INT_MAX:
        raise conversion_error("int")
    return value


def string_to_uint(text: str) -> Uint:
    """Return the uint that `text` is in decimal, without a sign."""
    value = parse_integer(text)
    if value is None or text[0] in "+-" or value > UINT_MAX:
        raise conversion_error("uint")
    return Uint(value)


def double_to_int(value: float) -> int:
    """Return the whole part of `value`; the bounds of int themselves are out of range, as in cel-go."""
    if not float(INT_MIN) < value < float(INT_MAX):
        raise runtime_error("integer overflow")
    return int(value)


def double_to_uint(value: float) -> Uint:
    """Return the whole part of `value`."""
    if not 0 <= value < float(UINT_MAX):
        raise runtime_error("unsigned integer overflow")
    return Uint(int(value))


def int_to_uint(value: int) -> Uint:
    """Return `value` as a uint."""
    if value < 0:
        raise runtime_error("unsigned integer overflow")
    return Uint(value)


def uint_to_int(value: Uint) -> int:
    """Return `value` as an int."""
    if value > INT_MAX:
        raise runtime_error("integer overflow")
    return int(value)


def unchanged(value: Any) -> Any:
    """Return a value as it is, which is of the type already."""
    return value


def _bool_to_string(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"


def _whole_to_string(value: int) -> str:
    return str(int(value))


def _no_duration(_value: int) -> Any:
    """1.36 declares this conversion and has none."""
    raise runtime_error("type conversion error from 'int' to 'google.protobuf.Duration'")


FUNCTIONS: Final[dict[str, Row]] = {
    "bool bool_to_bool: (bool) -> bool": unchanged,
    "bool string_to_bool: (string) -> bool": string_to_bool,
    "bytes bytes_to_bytes: (bytes) -> bytes": unchanged,
    "bytes string_to_bytes: (string) -> bytes": Implementation(string_to_bytes, TO_BYTES),
    "double double_to_double: (double) -> double": unchanged,
    "double int64_to_double: (int) -> double": float,
    "double string_to_double: (string) -> double": string_to_double,
    "double uint64_to_double: (uint) -> double": float,
    f"duration duration_to_duration: ({_DURATION}) -> {_DURATION}": unchanged,
    f"duration string_to_duration: (string) -> {_DURATION}": parse_duration,
    "int int64_to_int64: (int) -> int": unchanged,
    "int double_to_int64: (double) -> int": double_to_int,
    f"int duration_to_int64: ({_DURATION}) -> int": lambda duration: duration.nanos,
    "int string_to_int64: (string) -> int": string_to_int,
    f"int timestamp_to_int64: ({_TIMESTAMP}) -> int": lambda timestamp: timestamp.nanos // NANOS,
    "int uint64_to_int64: (uint) -> int": uint_to_int,
    "string string_to_string: (string) -> string": unchanged,
    "string bool_to_string: (bool) -> string": _bool_to_string,
    "string bytes_to_string: (bytes) -> string": Implementation(bytes_to_string, TO_TEXT),
    "string double_to_string: (double) -> string": format_double,
    f"string duration_to_string: ({_DURATION}) -> string": duration_to_string,
    "string int64_to_string: (int) -> string": _whole_to_string,
    f"string timestamp_to_string: ({_TIMESTAMP}) -> string": timestamp_to_string,
    "string uint64_to_string: (uint) -> string": _whole_to_string,
    f"timestamp timestamp_to_timestamp: ({_TIMESTAMP}) -> {_TIMESTAMP}": unchanged,
    f"timestamp int64_to_timestamp: (int) -> {_TIMESTAMP}": int_to_timestamp,
    f"timestamp string_to_timestamp: (string) -> {_TIMESTAMP}": parse_timestamp,
    "uint uint64_to_uint64: (uint) -> uint": unchanged,
    "uint double_to_uint64: (double) -> uint": double_to_uint,
    "uint int64_to_uint64: (int) -> uint": int_to_uint,
    "uint string_to_uint64: (string) -> uint": string_to_uint,
}
OLDER: Final[dict[str, dict[str, Row]]] = {
    "durations_of_texts": {f"duration int64_to_duration: (int) -> {_DURATION}": _no_duration},
}
"""What stands in the place of the overloads with these arguments, by the rule that must not hold."""
