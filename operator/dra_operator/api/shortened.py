"""What is told, in one line: the first few of a list and how many there are besides, a text without its middle.

What is told stands in an Event, which has an end, and nobody reads the fortieth value; and at a terminal, which
obeys some characters.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

_MOST = 3
_LONGEST_VALUE = 80
_CUT = " ... "
_ITEMS = re.compile(r"[,;] ")
_WORDS = re.compile(r"\s")


def shortened(texts: Sequence[str]) -> list[str]:
    """Return the first of some texts, and behind them how many more there are, if there are more."""
    more = [f"{len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return [*texts[:_MOST], *more]


def listed(texts: Sequence[str]) -> str:
    """Return the first of some texts in one line, and behind them how many more there are, if there are more."""
    return ", ".join(shortened(texts))


def cut(text: str, most: int) -> str:
    """Return a text cut to so many bytes of UTF-8, in the middle.

    How it begins says what it is about, and how it ends what follows from it. It is cut between items of a list, or at
    least between words; where a word is too long for that, between characters.
    """
    encoded = text.encode()
    if len(encoded) <= most:
        return text
    half = (most - len(_CUT)) // 2
    return f"{_head(encoded[:half].decode(errors='ignore'))}{_CUT}{_tail(encoded[-half:].decode(errors='ignore'))}"


def _head(text: str) -> str:
    for separator in (_ITEMS, _WORDS):
        if ends := [found.start() for found in separator.finditer(text, len(text) * 3 // 4)]:
            return text[: ends[-1]]
    return text


def _tail(text: str) -> str:
    for separator in (_ITEMS, _WORDS):
        if found := separator.search(text, 0, len(text) // 4):
            return text[found.end() :]
    return text


def shown(value: Any) -> str:
    """Return a value as JSON, cut to 80 characters."""
    text = json.dumps(value, default=repr, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."


def printable(text: str) -> str:
    """Return a text in which what does not print is written as in a literal: an end of line by its escape.

    Attributes of devices may hold any characters: ends of lines, orders to a terminal, blanks that nobody sees.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
