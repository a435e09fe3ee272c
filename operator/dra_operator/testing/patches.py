"""Patches: JSON patch, merge-patch and strategic merge-patch, applied to the body of an object.

A strategic patch merges lists whose struct tag in `api.fields` says so by their keys, or as sets of scalars, and knows
`$patch`, `$retainKeys`, `$setElementOrder/<field>` and `$deleteFromPrimitiveList/<field>`.
Source: RFC 6902 and 7386; k8s.io/apimachinery/pkg/util/strategicpatch/patch.go, whose order of items this keeps.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jsonpatch
import jsonpointer
import orjson

from dra_operator.api import fields
from dra_operator.testing import schema
from dra_operator.testing.errors import bad_request, rejected_patch, unsupported_patch_type
from dra_operator.testing.schema import go_kind

_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE = "$deleteFromPrimitiveList/"

_NOTHING: Any = object()


def strategic_merge(document: Mapping[str, Any], patch: Mapping[str, Any], struct: str) -> dict[str, Any]:
    """Return `document`, an object of a Go struct, with a strategic merge patch applied; neither is changed.

    Raises StatusError (400) if an item of a keyed list lacks its key.
    """
    directive = patch.get(_DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    result = dict(document)
    if _RETAIN in patch:
        result = {name: value for name, value in result.items() if name in patch[_RETAIN]}
    ordered = {name.removeprefix(_ORDER): value for name, value in patch.items() if name.startswith(_ORDER)}
    for name, order in ordered.items():
        _merge_ordered(result, patch, struct, name, order)
    for name, value in patch.items():
        if name.startswith(_DELETE):
            field = name.removeprefix(_DELETE)
            if field in result:
                result[field] = [item for item in result[field] or () if item not in value]
        elif name not in ordered and not name.startswith("$"):
            _merge_field(result, name, value, struct)
    return result


def _merge_field(result: dict[str, Any], name: str, value: Any, struct: str) -> None:
    if value is None:
        result.pop(name, None)
        return
    current = result.get(name)
    type_, strategy, key = schema.merge_keys(struct, name)
    replaced = "replace" in strategy.split(",")
    if isinstance(current, Mapping) and isinstance(value, Mapping) and not replaced:
        inner = "" if type_.startswith("{}") else fields.element(type_)
        result[name] = strategic_merge(current, value, inner)
    elif isinstance(current, list) and isinstance(value, list) and "merge" in strategy.split(","):
        result[name] = _merge_list(current, value, fields.element(type_), key)
    else:
        kept = _without_directives(value)
        result.pop(name, None)
        if kept is not _NOTHING:
            result[name] = kept


def _without_directives(value: Any) -> Any:
    """Return a new value without nulls and without what only a directive was for."""
    if isinstance(value, Mapping):
        if _DIRECTIVE in value:
            return _NOTHING
        found = {
            name: _without_directives(item)
            for name, item in value.items()
            if item is not None and not name.startswith("$")
        }
        return {name: item for name, item in found.items() if item is not _NOTHING}
    if isinstance(value, list):
        items = (_without_directives(item) for item in value)
        return [item for item in items if item is not _NOTHING]
    return value


def _merge_list(current: list[Any], patch: list[Any], inner: str, key: str) -> list[Any]:
    name_of = _namer(key)
    if key:
        merged, patch, current = _merge_keyed(current, patch, inner, key)
    else:
        merged = list(dict.fromkeys([*current, *patch]))
    return _in_order(merged, [name_of(item) for item in patch], [name_of(item) for item in current], name_of)


def _merge_keyed(
    current: list[Any], patch: list[Any], inner: str, key: str
) -> tuple[list[Any], list[Any], list[Any]]:
    """Return the merged items, and patch and current items without what directives took."""
    for item in patch:
        if not isinstance(item, Mapping) or (key not in item and item.get(_DIRECTIVE) != "replace"):
            raise bad_request(f"map: {item} does not contain declared merge key: {key}")
    plain = [item for item in patch if _DIRECTIVE not in item]
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return plain, plain, []
    deleted = [item[key] for item in patch if item.get(_DIRECTIVE) == "delete"]
    current = [item for item in current if item.get(key) not in deleted]
    merged = list(current)
    for item in plain:
        at = next((index for index, old in enumerate(merged) if old.get(key) == item[key]), None)
        if at is None:
            merged.append(_without_directives(item))
        else:
            merged[at] = strategic_merge(merged[at], item, inner)
    return merged, plain, current


def _merge_ordered(
    result: dict[str, Any], patch: Mapping[str, Any], struct: str, name: str, order: list[Any]
) -> None:
    """Merge a list of which the patch gives the order, too."""
    type_, _, key = schema.merge_keys(struct, name)
    name_of = _namer(key)
    current = list(result.get(name) or ())
    given = patch.get(name)
    if given is None and name not in result:
        return
    merged = _merge_list(current, given, fields.element(type_), key) if given else current
    server = [name_of(item) for item in current]
    result[name] = _in_order(merged, [name_of(item) for item in order], server, name_of)


def _namer(key: str) -> Callable[[Any], Any]:
    return lambda item: item.get(key) if key and isinstance(item, Mapping) else item


def _in_order(
    items: list[Any], order: list[Any], server: list[Any], name_of: Callable[[Any], Any]
) -> list[Any]:
    """Return the items: the patch's in its order, the others in the server's, interleaved as the server had them.

    `order` and `server` are names. Where the server's order does not say, the patch's items come first.
    """
    left = sorted(
        (item for item in items if name_of(item) not in order), key=lambda i: server.index(name_of(i))
    )
    right = sorted((item for item in items if name_of(item) in order), key=lambda i: order.index(name_of(i)))
    merged = []
    while left and right:
        first, second = name_of(left[0]), name_of(right[0])
        before = first in server and second in server and server.index(first) < server.index(second)
        merged.append(left.pop(0) if before else right.pop(0))
    return merged + left + right


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
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(operations)} into Go value of type "
            "[]handlers.jsonPatchOp"
        )
    try:
        return jsonpatch.apply_patch(document, operations)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, KeyError):
        raise rejected_patch() from None


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
    except orjson.JSONDecodeError:
        raise bad_request("invalid JSON patch") from None
    if content_type == JSON_PATCH:
        return lambda document: _as_object(apply_json_patch(document, patch))
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of type "
            "map[string]interface {}"
        )
    if content_type == MERGE:
        return lambda document: _as_object(merge(document, patch))
    return lambda document: strategic_merge(document, patch, struct)


def _as_object(document: Any) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise rejected_patch()
    return document
