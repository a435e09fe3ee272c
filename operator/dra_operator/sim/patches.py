"""The three patches of the API: merge-patch, JSON-patch and strategic merge patch, by content type.

Source: RFC 7386, RFC 6902, and k8s.io/apiserver/pkg/endpoints/handlers/patch.go.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jsonpatch
import jsonpointer
import orjson

from dra_operator.sim.errors import bad_request, rejected_patch, unsupported_patch_type
from dra_operator.sim.schema import go_kind
from dra_operator.sim.strategic import strategic_merge


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
