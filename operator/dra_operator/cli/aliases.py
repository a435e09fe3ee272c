"""Aliases of YAML: a document may name a part of itself again, and a few lines may stand for billions of values.

A part that stands in itself has no end, and one that is doubled thirty times over has none that anybody waits
for; both are refused before anything walks through them. What is repeated and stays small is what aliases are for.
"""

from collections.abc import Mapping
from typing import Any, Final

_MOST_VALUES: Final = 1_000_000
"""Values that a document with aliases may stand for; a slice with all it may hold has some 30,000."""


class _EndlessError(Exception):
    """A value stands in itself."""


def find_alias_problem(value: Any) -> str | None:
    """Return what is wrong with how a document repeats itself, or None if it can be walked through."""
    try:
        count = _count(value, {})
    except _EndlessError:
        return "an alias stands in what it names, so that the document has no end"
    except RecursionError:
        return "the document is nested too deeply"
    if count > _MOST_VALUES:
        return f"its aliases stand for {count:,} values; {_MOST_VALUES:,} are allowed"
    return None


def _count(value: Any, known: dict[int, int]) -> int:
    """Return how many values a value stands for, itself included; `known` has those of lists and maps met before."""
    if not isinstance(value, list | Mapping):
        return 1
    found = known.get(id(value))
    if found == 0:
        raise _EndlessError
    if found is None:
        # Met again while it is being counted, it stands in itself.
        known[id(value)] = 0
        items = value.values() if isinstance(value, Mapping) else value
        found = known[id(value)] = 1 + sum(_count(item, known) for item in items)
    return found
