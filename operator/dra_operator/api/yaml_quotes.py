"""Quotes: a value that is of another type in YAML than its field only because of quotes, or for want of them."""

import re
from typing import Any

_MEANT = {int: re.compile(r"-?\d+"), bool: re.compile("true|false")}
"""What is meant by a text where there should be none."""


def about_quotes(expected: type | None, given: Any) -> str:
    """Return what to do about the quotes of a value that is not of the type expected; nothing if they are right."""
    # YAML reads y, n, yes, no, on and off as true and false, as kubectl does.
    if expected is str and isinstance(given, bool | int | float):
        return ": write it in quotes"
    pattern = _MEANT.get(expected) if expected is not None and isinstance(given, str) else None
    return ": write it without quotes" if pattern is not None and pattern.fullmatch(given) else ""
