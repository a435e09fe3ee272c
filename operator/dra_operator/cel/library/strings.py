"""Strings: the functions of CEL's core and of its strings extension, version 2.

Positions count characters, as Python's do. Errors name the position that is out of range.
Source: cel-go `common/types/string.go`, `ext/strings.go`.
"""

from typing import Any, Final

from dra_operator.api.text import ESCAPES
from dra_operator.cel.cost.prices import (
    AFFIX,
    CONTAINS,
    JOIN,
    QUOTED,
    REPLACE,
    SPLIT,
    TRANSFORMING,
    TRAVERSAL,
    Implementation,
    Row,
)
from dra_operator.cel.errors import CelError, check_length, runtime_error
from dra_operator.cel.values import key_text

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_LOWER: Final = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_UPPER: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_QUOTED: Final = str.maketrans(ESCAPES)


def _out_of_range(position: int) -> CelError:
    return runtime_error(f"index out of range: {position}")


def char_at(text: str, position: int) -> str:
    """Return the character at `position`; the one behind the last is empty."""
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def index_of_from(text: str, part: str, start: int) -> int:
    """Return where `part` first occurs at or behind `start`, or -1; nothing is found at `start`, or at the end."""
    if start < 0:
        raise _out_of_range(start)
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def last_index_of(text: str, part: str) -> int:
    """Return where `part` last occurs, or -1; Python looks for texts in linear time only from the left."""
    position = text[::-1].find(part[::-1])
    return position if position < 0 else len(text) - position - len(part)


def last_index_of_until(text: str, part: str, last: int) -> int:
    """Return where `part` last occurs at or before `last`, or -1; a `last` behind the text finds nothing."""
    if last < 0:
        raise _out_of_range(last)
    if not part:
        return min(last, len(text))
    if last >= len(text):
        return -1
    return last_index_of(text[: last + len(part)], part)


def join(parts: tuple[Any, ...], separator: str = "") -> str:
    """Return the strings of a list, joined."""
    for part in parts:
        if type(part) is not str:
            raise runtime_error(f"join: invalid input: {key_text(part)}")
    check_length(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def lower_ascii(text: str) -> str:
    """Return `text` with ASCII letters in lower case; others stay."""
    return text.lower() if text.isascii() else text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """Return `text` with ASCII letters in upper case; others stay."""
    return text.upper() if text.isascii() else text.translate(_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Return `text` with `new` for the first `limit` occurrences of `old`; negative is all."""
    growth = len(new) - len(old)
    if growth > 0:
        count = text.count(old)
        check_length(len(text) + growth * (count if limit < 0 else min(count, limit)))
    return text.replace(old, new, limit)


def split(text: str, separator: str, limit: int = -1) -> tuple[str, ...]:
    """Return the parts of `text`, at most `limit` of them (negative is all); no separator splits characters."""
    if limit == 0:
        return ()
    if separator:
        return tuple(text.split(separator, limit - 1 if limit > 0 else -1))
    if limit < 0 or limit >= len(text):
        return tuple(text)
    return (*text[: limit - 1], text[limit - 1 :])


def substring(text: str, start: int) -> str:
    """Return `text` from `start`."""
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def substring_between(text: str, start: int, end: int) -> str:
    """Return `text` from `start` to before `end`."""
    if start > end:
        raise runtime_error(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, end):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


def trim(text: str) -> str:
    """Return `text` without white space at its ends, as Unicode sees it."""
    return text.strip(_SPACE)


def quote(text: str) -> str:
    """Return `text` in double quotes, with the escapes of a CEL literal."""
    check_length(2 * len(text))
    return f'"{text.translate(_QUOTED)}"'


FUNCTIONS: Final[dict[str, Row]] = {
    "contains contains_string: string.(string) -> bool": Implementation(str.__contains__, CONTAINS),
    "startsWith starts_with_string: string.(string) -> bool": Implementation(str.startswith, AFFIX),
    "endsWith ends_with_string: string.(string) -> bool": Implementation(str.endswith, AFFIX),
    "charAt string_char_at_int: string.(int) -> string": char_at,
    "indexOf string_index_of_string: string.(string) -> int": Implementation(str.find, TRAVERSAL),
    "indexOf string_index_of_string_int: string.(string, int) -> int": Implementation(
        index_of_from, TRAVERSAL
    ),
    "lastIndexOf string_last_index_of_string: string.(string) -> int": Implementation(
        last_index_of, TRAVERSAL
    ),
    "lastIndexOf string_last_index_of_string_int: string.(string, int) -> int": Implementation(
        last_index_of_until, TRAVERSAL
    ),
    "join list_join: list(string).() -> string": Implementation(join, JOIN),
    "join list_join_string: list(string).(string) -> string": Implementation(join, JOIN),
    "lowerAscii string_lower_ascii: string.() -> string": Implementation(lower_ascii, TRANSFORMING),
    "upperAscii string_upper_ascii: string.() -> string": Implementation(upper_ascii, TRANSFORMING),
    "replace string_replace_string_string: string.(string, string) -> string": Implementation(
        replace, REPLACE
    ),
    "replace string_replace_string_string_int: string.(string, string, int) -> string": Implementation(
        replace, REPLACE
    ),
    "split string_split_string: string.(string) -> list(string)": Implementation(split, SPLIT),
    "split string_split_string_int: string.(string, int) -> list(string)": Implementation(split, SPLIT),
    "substring string_substring_int: string.(int) -> string": Implementation(substring, TRANSFORMING),
    "substring string_substring_int_int: string.(int, int) -> string": Implementation(
        substring_between, TRANSFORMING
    ),
    "trim string_trim: string.() -> string": Implementation(trim, TRANSFORMING),
    "strings.quote strings_quote: (string) -> string": Implementation(quote, QUOTED),
}
