"""Shrinking: the smallest question that still shows a difference.

What was drawn at random has a hundred parts of which a difference needs five. So parts are left out, big ones first,
as long as the difference stays.
"""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

Wire = dict[str, Any]
Path = tuple[str | int, ...]

# Without these an object is no object of its kind any more, which is a difference of another kind.
_KEPT = frozenset(
    (
        *("name", "mode", "kubernetes", "apiVersion", "kind", "metadata", "spec", "driver", "pool", "device"),
        *("resourceSliceCount", "expression", "key", "counterSet", "value", "taint"),
    )
)


def shrink(question: Wire, shows: Callable[[Wire], bool], *, most_tries: int = 3000) -> Wire:
    """Return the smallest question found for which `shows` holds; it holds for `question`."""
    tries = iter(range(most_tries))
    # Parts that are one object in two places could not be left out in one of them.
    question = json.loads(json.dumps(question))
    before = None
    while before != question:
        before = question
        question = _with_less(question, shows, tries)
        if isinstance(question.get("expression"), str):
            question = _with_shorter_text(question, shows, tries)
    return question


def _with_less(question: Wire, shows: Callable[[Wire], bool], tries: Iterator[int]) -> Wire:
    """Leave out keys and items, level by level."""
    depth = 1
    while depth <= _depth(question):
        for path in _paths(question, depth):
            if next(tries, None) is None:
                return question
            candidate = _without(question, path)
            if shows(candidate):
                question = candidate
        depth += 1
    return question


def _depth(value: Any) -> int:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, parts), default=0) if parts else 0


def _paths(value: Any, depth: int, prefix: Path = ()) -> list[Path]:
    """Return the paths of all parts at a depth; the last of a list comes first, so that none moves another."""
    if not isinstance(value, dict | list):
        return []
    keys: list[str | int] = list(value) if isinstance(value, dict) else list(reversed(range(len(value))))
    if depth == 1:
        return [(*prefix, key) for key in keys if key not in _KEPT]
    return [path for key in keys for path in _paths(value[key], depth - 1, (*prefix, key))]  # type: ignore[index,call-overload]


def _without(question: Wire, path: Path) -> Wire:
    copy = deepcopy(question)
    container: Any = copy
    for key in path[:-1]:
        container = container[key]
    del container[path[-1]]
    return copy


def _with_shorter_text(question: Wire, shows: Callable[[Wire], bool], tries: Iterator[int]) -> Wire:
    """Cut pieces out of the expression, long ones first."""
    size = len(question["expression"]) // 2
    while size:
        start = 0
        while start + size <= len(text := question["expression"]):
            if next(tries, None) is None:
                return question
            candidate = {**question, "expression": text[:start] + text[start + size :]}
            if candidate["expression"] and shows(candidate):
                question = candidate
            else:
                start += max(1, size // 2)
        size //= 2
    return question
