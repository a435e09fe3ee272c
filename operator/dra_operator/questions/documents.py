"""Documents that commands and the library read: whether anybody can walk through one, and why a file cannot be read.

Documents that nobody can walk through, by aliases or nesting, are refused before anything tries. Light on purpose:
`cel check` loads it, and has to start at once.
Source: docs/cli.md, "All commands".
"""

import errno
import io
import sys
import zlib
from collections.abc import Mapping
from math import inf
from typing import IO, Any, Final

UNREADABLE: Final = (OSError, EOFError, zlib.error)
"""What reading a file may raise; the last two where what is packed is cut short or garbled."""

_MOST_VALUES: Final = 1_000_000
"""Values that a document with aliases may stand for; a slice with all it may hold has some 30,000."""
MOST_LEVELS: Final = 200
"""Levels of lists and maps that a document may have; an object of Kubernetes has some twenty."""
TOO_DEEP: Final = f"the document is nested too deeply: {MOST_LEVELS} levels are allowed"


_KEPT: Final[dict[str, Any]] = {}
"""Of stdin what was read: a pipe can be read once, and a command looks for namespaces in it before it asks."""


def find_problem(value: Any, text: str) -> str | None:
    """Return what is wrong with a document, in YAML or JSON, or None if it can be walked through; `text` has it."""
    # Without an alias nothing repeats itself, and counting takes as long as much of the rest.
    problem = _find_alias_problem(value) if "*" in text else None
    return TOO_DEEP if problem is None and _is_too_deep(value) else problem


def _find_alias_problem(value: Any) -> str | None:
    try:
        count = _count(value, {})
    except RecursionError:
        return TOO_DEEP
    if count == inf:
        return "an alias is part of the value that it refers to, so the document has no end"
    if count > _MOST_VALUES:
        return f"its aliases stand for {count:,} values; {_MOST_VALUES:,} are allowed"
    return None


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        holders = (each for each in level if isinstance(each, dict | list))
        level = [item for each in holders for item in (each.values() if isinstance(each, dict) else each)]
    return bool(level)


def _count(value: Any, known: dict[int, float]) -> float:
    """Return how many values a value stands for, itself included; `known` has those of lists and maps met before."""
    if not isinstance(value, list | Mapping):
        return 1
    found = known.get(id(value))
    if found is None:
        # Met again while it is being counted, it stands in itself.
        known[id(value)] = inf
        items = value.values() if isinstance(value, Mapping) else value
        found = known[id(value)] = 1 + sum(_count(item, known) for item in items)
    return found


def stdin() -> IO[bytes]:
    """Return stdin from its beginning, however often it is asked for. Raises OSError if it is closed."""
    if sys.stdin is None:
        raise OSError(errno.EBADF, "it is closed")
    if _KEPT.get("stream") is not sys.stdin:
        _KEPT.update(stream=sys.stdin, content=sys.stdin.buffer.read())
    return io.BytesIO(_KEPT["content"])


def why(error: BaseException) -> str:
    """Return why a file cannot be read or written, without the name of the file."""
    return str(getattr(error, "strerror", None) or error)
