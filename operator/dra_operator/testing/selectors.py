"""Label and field selectors: which objects a list or a watch shows.

Both are parsed once a request into a test of one object. Source: k8s.io/apimachinery/pkg/labels and pkg/fields.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dra_operator.api.kinds import RESOURCE_GROUP
from dra_operator.api.labels import labels_test
from dra_operator.testing.errors import bad_request
from dra_operator.testing.resources import Resource

Test = Callable[[Mapping[str, Any]], bool]


def everything(_body: Mapping[str, Any]) -> bool:
    """The test that every object passes."""
    return True


def parse_labels(text: str) -> Test:
    """Return the test for a label selector. Raises StatusError (400) if the text is none."""
    try:
        test = labels_test(text)
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return test or everything


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
