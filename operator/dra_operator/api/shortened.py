"""What is told, in one line: the first few of a list and how many there are besides, the beginning of a value.

What is told stands in an Event, which has an end, and nobody reads the fortieth value; and at a terminal, which
obeys some characters.
"""

import json
from collections.abc import Sequence
from typing import Any

_MOST = 3
_LONGEST_VALUE = 80


def shortened(texts: Sequence[str]) -> list[str]:
    """Return the first of some texts, and behind them how many more there are, if there are more."""
    more = [f"{len(texts) - _MOST} more"] if len(texts) > _MOST else []
    return [*texts[:_MOST], *more]


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
