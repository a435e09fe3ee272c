"""Answers as documents: JSON and YAML of dataclasses, keys in camelCase, and the schema they follow.

What is empty is left out, as in the Kubernetes API. The schema is published as docs/kubectl-dra.schema.json.
"""

from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from typing import Any, Final

API_VERSION: Final = "kubectl.dra-operator.io/v1"


def camel(name: str) -> str:
    """Return a field's name as in JSON: `is_at_most` is `isAtMost`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def document(kind: str, answer: Any) -> dict[str, Any]:
    """Return an answer as what JSON holds; `kind` is its type."""
    return {"apiVersion": API_VERSION, "kind": kind, **_plain(answer)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        found = {camel(each.name): _plain(getattr(value, each.name)) for each in fields(value)}
        return {name: item for name, item in found.items() if item is not None and item not in ("", [], {})}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Decimal) else value


def schema(kinds: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON schema of some types of answers, by their kinds."""
    from pydantic import TypeAdapter

    definitions: dict[str, Any] = {}
    answers = []
    for kind, type_ in sorted(kinds.items()):
        found = TypeAdapter(type_).json_schema(ref_template="#/$defs/{model}")
        definitions |= {name: _camelled(each) for name, each in found.pop("$defs", {}).items()}
        found = _camelled(found)
        found["properties"] = {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": kind},
            **found["properties"],
        }
        found["required"] = ["apiVersion", "kind"]
        found["title"] = kind
        definitions[kind] = found
        answers.append({"$ref": f"#/$defs/{kind}"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Answers of kubectl dra",
        "oneOf": answers,
        "$defs": dict(sorted(definitions.items())),
    }


def _camelled(found: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type with the names that JSON has; as empty fields are left out, none is required."""
    if "properties" not in found:
        return found
    properties = {camel(name): _without_default(each) for name, each in found["properties"].items()}
    return {**{name: each for name, each in found.items() if name != "required"}, "properties": properties}


def _without_default(found: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in found.items() if name not in ("default", "title")}
