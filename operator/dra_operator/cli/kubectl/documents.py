"""Answers as documents: JSON and YAML of dataclasses, keys in camelCase.

What is empty is left out, as in the Kubernetes API. Source: docs/kubectl-dra.schema.json.
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
