"""The three patches of the API: merge-patch, JSON-patch and strategic merge patch.

A strategic merge patch knows the Go types: lists with a merge key are merged item by item, others are replaced.
Strategies and keys come from the struct tags in `types.json`.
Source: RFC 7386, RFC 6902, and k8s.io/apimachinery/pkg/util/strategicpatch.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jsonpatch
import jsonpointer
import orjson

from dra_operator.sim import schema
from dra_operator.sim.errors import bad_request, rejected_patch, unsupported_patch_type

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"


def merge(document: Any, patch: Any) -> Any:
    """Return `document` with an RFC 7386 merge-patch applied; neither is changed."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(document) if isinstance(document, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def apply_json_patch(document: Any, operations: Any) -> Any:
    """Return `document` with RFC 6902 operations applied.

    Raises StatusError: 400 if it is no list of operations, 422 if one of them cannot be applied or its test fails.
    """
    if not isinstance(operations, list):
        kind = "object" if isinstance(operations, dict) else type(operations).__name__
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
        )
    try:
        return jsonpatch.apply_patch(document, operations)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError):
        raise rejected_patch() from None


def strategic_merge(document: Mapping[str, Any], patch: Mapping[str, Any], struct: str) -> dict[str, Any]:
    """Return `document`, an object of a Go struct, with a strategic merge patch applied; neither is changed."""
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    result = dict(document)
    if _RETAIN in patch:
        kept = set(patch[_RETAIN])
        result = {name: value for name, value in result.items() if name in kept}
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            result.pop(name, None)
            continue
        result[name] = _merged_field(result.get(name), value, struct, name)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            result[field] = [item for item in result.get(field) or () if item not in value]
    for name, value in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            if result.get(field):
                key = schema.merge_keys(struct, field)[2]
                result[field] = _in_order(result[field], value, key)
    return result


def _merged_field(current: Any, value: Any, struct: str, name: str) -> Any:
    type_, strategy, key = schema.merge_keys(struct, name)
    inner = schema.element(type_)
    strategies = strategy.split(",")
    if isinstance(value, Mapping):
        if "replace" in strategies:
            return value
        if type_.startswith("{}"):
            return _merged_map(current or {}, value, inner)
        if type_ == "Raw" or not type_:
            return merge(current, value)
        return strategic_merge(current or {}, value, inner)
    if not isinstance(value, list) or "merge" not in strategies:
        return value
    if not key:
        present = list(current or ())
        return present + [item for item in value if item not in present]
    return _merged_list(list(current or ()), value, inner, key)


def _merged_map(current: Mapping[str, Any], patch: Mapping[str, Any], inner: str) -> dict[str, Any]:
    if patch.get(_DIRECTIVE) == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    result = dict(current)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(result.get(name), Mapping):
            result[name] = strategic_merge(result[name], value, inner)
        else:
            result[name] = value
    return result


def _merged_list(current: list[Any], patch: list[Any], inner: str, key: str) -> list[Any]:
    if any(item.get(_DIRECTIVE) == "replace" for item in patch if isinstance(item, Mapping)):
        return [item for item in patch if _DIRECTIVE not in item]
    for item in patch:
        if not isinstance(item, Mapping) or (key not in item and _DIRECTIVE not in item):
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        name = item.get(key)
        at = next((index for index, old in enumerate(current) if old.get(key) == name), None)
        if item.get(_DIRECTIVE) == "delete":
            current = [old for old in current if old.get(key) != name]
        elif at is None:
            current.append(strategic_merge({}, item, inner))
        else:
            current[at] = strategic_merge(current[at], item, inner)
    return current


def _in_order(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Return the items in the order given; items that the patch does not know keep their place."""

    def name_of(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, Mapping) else item

    names = [name_of(item) for item in order]
    known = sorted(
        (item for item in items if name_of(item) in names), key=lambda item: names.index(name_of(item))
    )
    remaining = iter(known)
    return [next(remaining) if name_of(item) in names else item for item in items]


MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def read(content_type: str, body: bytes, struct: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the change that a patch request makes to an object of a Go struct.

    Raises StatusError: 415 for another content type, 400 for a body that cannot be read.
    """
    if content_type not in (MERGE, JSON_PATCH, STRATEGIC):
        raise unsupported_patch_type()
    try:
        patch = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if content_type == JSON_PATCH:
        return lambda document: _as_object(apply_json_patch(document, patch))
    if not isinstance(patch, dict):
        kind = "array" if isinstance(patch, list) else type(patch).__name__
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        )
    if content_type == MERGE:
        return lambda document: _as_object(merge(document, patch))
    return lambda document: strategic_merge(document, patch, struct)


def _as_object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise rejected_patch()
    return document
