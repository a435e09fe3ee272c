"""Literals: the value that a token of the source text stands for.

Source: cel-go `parser/parser.go` (numbers) and `parser/unescape.go` (strings).
"""

import re
from typing import Final

from dra_operator.cel.errors import compile_error
from dra_operator.cel.values import Uint

_IGNORED_AFTER_SIGN: Final = r"(?<=^-)(?:[\t\n\f\r ]|//[^\n]*\n)+"
_ESCAPE: Final = r"(?s)\\(?:[0-3][0-7]{2}|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)"
_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip


def integer(text: str, position: int) -> int:
    """Return the value of an int literal with or without its sign; raises CelError beyond 64 bits."""
    value = _number(text)
    if not -(2**63) <= value < 2**63:
        raise compile_error("invalid int literal", position)
    return value


def unsigned(text: str, position: int) -> Uint:
    """Return the value of a uint literal; raises CelError beyond 64 bits."""
    value = _number(text[:-1])
    if value >= 2**64:
        raise compile_error("invalid uint literal", position)
    return Uint(value)


def _number(text: str) -> int:
    text = _without_ignored(text)
    return int(text, 16) if "0x" in text else int(text) if len(text) <= 30 else _long_decimal(text)


def _without_ignored(text: str) -> str:
    """Return a number without what may stand between it and its sign."""
    return re.sub(_IGNORED_AFTER_SIGN, "", text) if text[0] == "-" else text


def _long_decimal(text: str) -> int:
    """Zeros in front may be many; anything else of that length is out of range, whatever its digits."""
    digits = text.lstrip("-").lstrip("0") or "0"
    value = int(digits) if len(digits) <= 30 else 2**64
    return -value if text.startswith("-") else value


def double(text: str, position: int) -> float:
    """Return the value of a double literal; raises CelError if it is too large for one."""
    value = float(_without_ignored(text))
    if value in (float("inf"), float("-inf")):
        raise compile_error("invalid double literal", position)
    return value


def string(text: str, position: int) -> str:
    """Return what a quoted string says; raises CelError for an escape that is no character."""
    body, raw = _unquoted(text)
    if raw or "\\" not in body:
        return body

    def character(match: re.Match[str]) -> str:
        escape = match.group()[1:]
        simple = _SIMPLE.get(escape)
        if simple is not None:
            return simple
        code = int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise compile_error("invalid unicode code point", position)
        return chr(code)

    return re.sub(_ESCAPE, character, body)


def binary(text: str, position: int) -> bytes:
    """Return what a bytes literal says; characters are UTF-8, hexadecimal and octal escapes are bytes."""
    body, raw = _unquoted(text[1:])
    if raw or "\\" not in body:
        return body.encode()
    parts, end = [], 0
    for match in re.finditer(_ESCAPE, body):
        parts.append(body[end : match.start()].encode())
        parts.append(_byte(match.group()[1:], position))
        end = match.end()
    return b"".join((*parts, body[end:].encode()))


def _byte(escape: str, position: int) -> bytes:
    simple = _SIMPLE.get(escape)
    if simple is not None:
        return simple.encode()
    if escape[0] in "uU":
        raise compile_error("unable to unescape string", position)
    return bytes((int(escape, 8) if escape[0] in "0123" else int(escape[1:], 16),))


def _unquoted(text: str) -> tuple[str, bool]:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw
