"""Label and field selectors: which objects a list or a watch shows.

Both are parsed once a request into a test of one object. Source: k8s.io/apimachinery/pkg/labels and pkg/fields.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from dra_operator.api.kinds import RESOURCE_GROUP
from dra_operator.sim.errors import StatusError, bad_request
from dra_operator.sim.resources import Resource

Test = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"(\S+?)\s+(in|notin)\s*\(([^)]*)\)")
_COMPARISON = re.compile(r"([^\s=!<>,()]+)\s*(==|=|!=|>|<)\s*([^\s,=!<>()]*)")
_KEY = re.compile(r"(!?)\s*([^\s=!<>,()]+)")
_ITEM = re.compile(r"\s*(?:([^\s,()]+\s+(?:in|notin)\s*\([^)]*\))|([^,()]+))\s*(?:,|$)")


def everything(_body: Mapping[str, Any]) -> bool:
    """The test that every object passes."""
    return True


def parse_labels(text: str) -> Test:
    """Return the test for a label selector such as `a=b,c in (d, e),!f`; an empty text selects everything.

    Raises StatusError (400) if the text is no selector.
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
        return everything

    def test(body: Mapping[str, Any]) -> bool:
        labels = body["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return test


def _unparsable(text: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {text!r} is not a label selector")


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


def parse_fields(text: str, resource: Resource, version: str = "v1") -> Test:
    """Return the test for a field selector such as `spec.nodeName=node-1,status.phase!=Failed`.

    Raises StatusError (400) if the text is no selector or names a field that the kind does not offer.
    """
    terms = [_field_term(term, resource, version) for term in text.split(",") if term]
    if not terms:
        return everything
    return lambda body: all((_text_at(body, path) == value) == equal for path, equal, value in terms)


def _field_term(term: str, resource: Resource, version: str) -> tuple[tuple[str, ...], bool, str]:
    fields = _fields(resource)
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        name, found, value = term.partition(operator)
        if not found:
            continue
        if name not in fields:
            raise bad_request(_not_selectable(name, resource, version))
        return fields[name], equal, value
    raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")


def _not_selectable(name: str, resource: Resource, version: str) -> str:
    """Return the refusal of a field; kinds with fields of their own have words of their own."""
    if not resource.fields:
        known = ", ".join(f'"{field}"' for field in sorted(_fields(resource)))
        return f'"{name}" is not a known field selector: only {known}'
    of = (
        f" for {resource.api_version(version)}, Kind={resource.kind}"
        if resource.group == RESOURCE_GROUP
        else ""
    )
    return f"field label not supported{of}: {name}"


def _fields(resource: Resource) -> Mapping[str, tuple[str, ...]]:
    """Return the path of each field that a kind can be selected by."""
    namespace = {"metadata.namespace": ("metadata", "namespace")} if resource.namespaced else {}
    return {"metadata.name": ("metadata", "name"), **namespace, **resource.fields}


def _text_at(body: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = body
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        # A node that was never cordoned has unschedulable=false; other absent fields are empty text.
        return "false" if path == ("spec", "unschedulable") else ""
    return str(value)


def both(first: Test, second: Test) -> Test:
    """Return the test that an object passes if it passes both."""
    if first is everything:
        return second
    if second is everything:
        return first
    return lambda body: first(body) and second(body)
