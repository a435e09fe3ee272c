"""The bodies of requests: read with a limit, decoded by content type, refused in Go's words where they are garbage.

Source: k8s.io/apiserver/pkg/endpoints/handlers/negotiation and k8s.io/apimachinery/pkg/runtime/serializer/json.
"""

from collections.abc import Mapping
from typing import Any

import orjson
import yaml
from aiohttp import web

from dra_operator.sim import errors, schema
from dra_operator.sim.errors import StatusError
from dra_operator.sim.registry import Target

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_NAMED = (JSON, YAML, PROTOBUF)
_MAX_BYTES = 3 * 1024 * 1024
_SHOWN = 30
_TYPE_META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
_UNREADABLE = (orjson.JSONDecodeError, orjson.JSONEncodeError, yaml.YAMLError, RecursionError)


class _YamlLoader(yaml.SafeLoader):
    """Reads what looks like a date as text, which JSON has no other form for."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own name
        first: [each for each in resolvers if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


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
    if content_type == PROTOBUF:
        raise errors.protobuf_is_not_read()
    if content_type not in (JSON, YAML):
        raise errors.unsupported_media_type(_NAMED)
    try:
        found = _value(content_type, body)
    except _UNREADABLE as error:
        raise _unrecognized(target, body, go_json_error(body, error)) from None
    if not isinstance(found, dict):
        raise _unrecognized(target, body, _no_object(found))
    for name in found.keys() & {"apiVersion", "kind"}:
        if not isinstance(found[name], str | None):
            why = f"json: cannot unmarshal {schema.go_kind(found[name])} into Go struct field .{name} of type string"
            raise _unrecognized(target, body, why)
    return found


def _value(content_type: str, body: bytes) -> Any:
    """Return what a body says. Raises one of _UNREADABLE."""
    if content_type == YAML:
        # As upstream has it, it becomes JSON first, whose keys are text.
        body = orjson.dumps(yaml.load(body, _YamlLoader), option=orjson.OPT_NON_STR_KEYS)  # noqa: S506
    return orjson.loads(body)


def _unrecognized(target: Target, body: bytes, why: str) -> StatusError:
    return errors.bad_request(
        f"the object provided is unrecognized (must be of type {target.resource.kind}): couldn't get version/kind; "
        f"json parse error: {why} ({_summary(body)})"
    )


def _summary(body: bytes) -> str:
    """Return the beginning of a body: as text if it may be JSON, else in hex."""
    begin = body[:_SHOWN]
    shown = (begin.decode(errors="replace") if begin.startswith(b"{") else begin.hex()) or "<empty>"
    return shown if len(body) <= _SHOWN else f"{shown} ..."


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
        found = _value(request.content_type, body)
    except _UNREADABLE as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(found, dict):
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {_no_object(found)}")
    try:
        return schema.decode(found, "meta/v1.DeleteOptions")[0]
    except schema.DecodeTextError as error:
        raise errors.bad_request(str(error)) from None


def _no_object(value: Any) -> str:
    return f"json: cannot unmarshal {schema.go_kind(value)} into Go value of type {_TYPE_META}"
