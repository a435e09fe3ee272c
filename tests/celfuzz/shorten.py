"""Shortening: a case that shows a fault, made as short as it goes while it still shows it."""

from collections.abc import Callable
from dataclasses import replace

from celfuzz.judge import Case

_MOST_TRIES = 150


def shortened(case: Case, shows: Callable[[Case], bool]) -> Case:
    """Return a case with less text and fewer attributes for which `shows` still holds."""
    tries = 0

    def holds(other: Case) -> bool:
        nonlocal tries
        tries += 1
        return tries <= _MOST_TRIES and shows(other)

    bare = replace(case, driver="x", device={"name": "x"})
    if holds(bare):
        case = bare
    size = max(1, len(case.expression) // 2)
    while size and tries <= _MOST_TRIES:
        start = 0
        while start < len(case.expression):
            text = case.expression[:start] + case.expression[start + size :]
            other = replace(case, expression=text)
            if holds(other):
                case = other
            else:
                start += size
        size //= 2
    return case
