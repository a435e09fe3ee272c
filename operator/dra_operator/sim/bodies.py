"""The bodies of requests: read with a limit, decoded by content type, refused in Go's words where they are garbage.

Source: k8s.io/apiserver/pkg/endpoints/handlers/negotiation and k8s.io/apimachinery/pkg/runtime/serializer/json.
"""

from collections.abc import Mapping
from typing import Any

import orjson
import yaml
from aiohttp import web

from dra_operator.sim import errors
from dra_operator.sim.errors import StatusError
from dra_operator.sim.registry import Target

JSON = "application/json"
YAML = "application/yaml"
_READABLE = (JSON, YAML, "application/vnd.kubernetes.protobuf")
_MAX_BYTES = 3 * 1024 * 1024
_SHOWN = 64


async def read(request: web.BaseRequest) -> bytes:
    """Return the body of a request; StatusError (413) if it is larger than 3 MiB."""
    if not request.can_read_body:
        return b""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise StatusError(
                413, "RequestEntityTooLarge", f"Request entity too large: limit is {_MAX_BYTES}", {}
            )
    return bytes(body)


def decode_object(request: web.BaseRequest, body: bytes, target: Target) -> dict[str, Any]:
    """Return the object in a body.

    Raises StatusError: 415 for a content type that is not read here, 400 for what is no object.
    """
    content_type = request.content_type if "Content-Type" in request.headers else JSON
    if content_type not in (JSON, YAML):
        raise errors.unsupported_media_type(_READABLE)
    try:
        found = yaml.safe_load(body) if content_type == YAML else orjson.loads(body)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        shown = body[:_SHOWN].decode(errors="replace") or "<empty>"
        raise _unrecognized(target, f"{go_json_error(body, error)} ({shown})") from None
    if not isinstance(found, dict):
        kind = "array" if isinstance(found, list) else type(found).__name__
        raise _unrecognized(target, f"json: cannot unmarshal {kind} into Go value of type struct")
    return found


def _unrecognized(target: Target, why: str) -> StatusError:
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {target.resource.kind}): couldn't get version/kind; "
        f"json parse error: {why}"
    )


def go_json_error(body: bytes, error: Exception) -> str:
    """Return what Go's decoder says of JSON that cannot be read, in the cases that people meet."""
    text = body.strip()
    if not text:
        return "unexpected end of JSON input"
    if text.startswith(b"{") and not text[1:].lstrip().startswith((b'"', b"}")):
        rest = text[1:].lstrip()
        if not rest:
            return "unexpected end of JSON input"
        return f"invalid character '{chr(rest[0])}' looking for beginning of object key string"
    return str(error)


def decode_delete_options(request: web.BaseRequest, body: bytes) -> Mapping[str, Any]:
    """Return the DeleteOptions in a body, empty for none; StatusError (400) for what cannot be read."""
    if not body:
        return {}
    try:
        found = yaml.safe_load(body) if request.content_type == YAML else orjson.loads(body)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    return found if isinstance(found, dict) else {}
