"""Patches: JSON patch, merge-patch and strategic merge-patch, applied to the body of an object.

A strategic patch merges lists whose struct tag in `api.fields` says so by their keys, or as sets of scalars, and knows
`$patch` and `$deleteFromPrimitiveList/<field>`. Other directives of kubectl are about the order of items, which is left
as it is. Source: RFC 6902 and 7386; k8s.io/apimachinery/pkg/util/strategicpatch/patch.go.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jsonpatch
import jsonpointer
import orjson

from dra_operator.api.fields import element
from dra_operator.testing.errors import StatusError, bad_request, unsupported_media_type
from dra_operator.testing.schema import merge_keys

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_DIRECTIVE = "$patch"
_DELETE = "$deleteFromPrimitiveList/"


def read(content_type: str, body: bytes, struct: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return the change that a patch request makes to an object of a Go struct.

    Raises StatusError: 415 for another content type, 400 for a body that cannot be read; the change raises one, too.
    """
    if content_type not in (MERGE, JSON_PATCH, STRATEGIC):
        raise unsupported_media_type("patches as JSON")
    try:
        patch: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise bad_request("invalid JSON patch") from None
    is_fit = isinstance(patch, list if content_type == JSON_PATCH else dict)
    if not is_fit:
        raise bad_request(f"error decoding patch: {content_type} is no {type(patch).__name__}")
    if content_type == STRATEGIC:
        return lambda document: strategic_merge(document, patch, struct)
    apply = merge if content_type == MERGE else apply_json_patch

    def change(document: dict[str, Any]) -> dict[str, Any]:
        found = apply(document, patch)
        if not isinstance(found, dict):
            raise _rejected()
        return found

    return change


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
    """Return `document` with RFC 6902 operations applied. Raises StatusError (422) if one cannot be."""
    try:
        return jsonpatch.apply_patch(document, operations)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError):
        raise _rejected() from None


def _rejected() -> StatusError:
    return StatusError(422, "Invalid", "the patch cannot be applied")


def strategic_merge(document: Mapping[str, Any], patch: Mapping[str, Any], struct: str) -> dict[str, Any]:
    """Return `document`, an object of a Go struct, with a strategic merge patch applied; neither is changed.

    Raises StatusError (400) if an item of a keyed list lacks its key.
    """
    if _DIRECTIVE in patch:
        return _plain(patch) if patch[_DIRECTIVE] == "replace" else {}
    result = dict(document)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            result[field] = [item for item in result.get(field) or () if item not in value]
        elif value is None:
            result.pop(name, None)
        elif not name.startswith("$"):
            result[name] = _merged(result.get(name), value, *merge_keys(struct, name))
    return result


def _merged(current: Any, value: Any, type_: str, strategy: str, key: str) -> Any:
    """Return the new value of a field."""
    strategies = strategy.split(",")
    if isinstance(value, Mapping):
        if "replace" in strategies:
            return _plain(value)
        inner = "" if type_.startswith("{}") else element(type_)
        return strategic_merge(current if isinstance(current, Mapping) else {}, value, inner)
    if not isinstance(value, list) or "merge" not in strategies:
        return _plain(value)
    if not key:
        return list(dict.fromkeys([*value, *(current or ())]))
    return _merge_keyed(list(current or ()), value, element(type_), key)


def _merge_keyed(items: list[Any], patch: list[Any], struct: str, key: str) -> list[Any]:
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        items = []
    for item in patch:
        if item.get(_DIRECTIVE) == "replace":
            continue
        if key not in item:
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
        at = next((index for index, old in enumerate(items) if old.get(key) == item[key]), len(items))
        old = items[at : at + 1]
        is_deleted = item.get(_DIRECTIVE) == "delete"
        items[at : at + 1] = [] if is_deleted else [strategic_merge(old[0] if old else {}, item, struct)]
    return items


def _plain(value: Any) -> Any:
    """Return a new value without nulls and directives."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: _plain(item) for name, item in value.items() if item is not None and not name.startswith("$")
    }
