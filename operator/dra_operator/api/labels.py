"""Label selectors, as `kubectl -l` and lists have them: a test of objects. Source: k8s.io/apimachinery/pkg/labels."""

import re
from collections.abc import Callable, Mapping
from typing import Any

Test = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"(\S+?)\s+(in|notin)\s*\(([^)]*)\)")
_COMPARISON = re.compile(r"([^\s=!<>,()]+)\s*(==|=|!=|>|<)\s*([^\s,=!<>()]*)")
_KEY = re.compile(r"(!?)\s*([^\s=!<>,()]+)")
_ITEM = re.compile(r"\s*(?:([^\s,()]+\s+(?:in|notin)\s*\([^)]*\))|([^,()]+))\s*(?:,|$)")


def labels_test(text: str) -> Test | None:
    """Return the test for a label selector such as `a=b,c in (d, e),!f`; None for an empty text, which selects all.

    Raises ValueError if the text is no selector.
    """
    requirements: list[Callable[[Mapping[str, str]], bool]] = []
    position = 0
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise _unparsable(text)
        requirements.append(_requirement((match[1] or match[2]).strip(), text))
        position = match.end()
    if not requirements:
        return None

    def test(body: Mapping[str, Any]) -> bool:
        labels = body["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return test


def _unparsable(text: str) -> ValueError:
    return ValueError(f"{text!r} is not a label selector")


def _requirement(item: str, text: str) -> Callable[[Mapping[str, str]], bool]:
    if match := _SET.fullmatch(item):
        key, values = match[1], frozenset(value.strip() for value in match[3].split(","))
        if match[2] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    if match := _COMPARISON.fullmatch(item):
        return _comparison(match[1], match[2], match[3], text)
    if match := _KEY.fullmatch(item):
        key = match[2]
        if match[1]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise _unparsable(text)


def _comparison(key: str, operator: str, value: str, text: str) -> Callable[[Mapping[str, str]], bool]:
    if operator in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    try:
        bound = int(value)
    except ValueError:
        raise _unparsable(text) from None

    def compare(labels: Mapping[str, str]) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if operator == ">" else number < bound

    return compare
