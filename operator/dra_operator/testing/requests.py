"""Requests: what path, parameters and body of a request say, and what of them is refused.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go and pkg/endpoints/handlers.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import orjson
import yaml
from aiohttp import web

from dra_operator.testing import errors, schema, selectors
from dra_operator.testing.errors import StatusError
from dra_operator.testing.lists import ListOptions, parse_revision
from dra_operator.testing.registry import DeleteOptions, FieldValidation, Target, WriteOptions
from dra_operator.testing.resources import Resource
from dra_operator.testing.watch import WatchOptions

_OBJECT_VERBS = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class Route:
    """What a request wants: an RBAC verb and what it is about."""

    verb: str
    target: Target


class Routes:
    """The paths of the resources that a server offers."""

    def __init__(self, resources: tuple[Resource, ...]) -> None:
        self._resources: Mapping[tuple[str, str, str], Resource] = {
            (resource.group, version, resource.plural): resource
            for resource in resources
            for version in resource.versions
        }

    def find(self, method: str, path: str, *, watch: bool) -> Route | None:
        """Return the route; None if the path is not below a served group and version.

        StatusError 404 or 405 if it is, and the resource or the verb is not there.
        """
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[0] == "api" and len(parts) > 2:
            group, version, rest = "", parts[1], parts[2:]
        elif parts[0] == "apis" and len(parts) > 3:
            group, version, rest = parts[1], parts[2], parts[3:]
        else:
            return None
        watched = rest[0] == "watch" and len(rest) > 1
        if watched:
            rest = rest[1:]
        target = self._target(group, version, rest)
        if watched and method == "GET":
            return Route("watch", target)
        return Route(_verb(method, target, watch=watch), target)

    def _target(self, group: str, version: str, rest: list[str]) -> Target:
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        resource = self._resources.get((group, version, rest[0]))
        if resource is None or (namespace and not resource.namespaced) or len(rest) > 3:
            raise errors.no_resource()
        name = rest[1] if len(rest) > 1 else ""
        subresource = rest[2] if len(rest) > 2 else ""
        if subresource and not (subresource == "status" and resource.has_status):
            raise errors.no_resource()
        if name and resource.namespaced and not namespace:
            raise errors.no_resource()
        return Target(resource, version, namespace, name, subresource)


def _verb(method: str, target: Target, *, watch: bool) -> str:
    verb = (_OBJECT_VERBS if target.name else _COLLECTION_VERBS).get(method)
    if verb is None or (verb not in target.resource.verbs):
        raise errors.method_not_allowed()
    if target.subresource and verb not in ("get", "update", "patch"):
        raise errors.method_not_allowed()
    if verb == "create" and target.resource.namespaced and not target.namespace:
        raise errors.method_not_allowed()
    if verb == "list" and watch:
        return "watch"
    return verb


Query = Mapping[str, str]

_MIN_WATCH_SECONDS = 1800


def _integer(query: Query, name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _flag(query: Query, name: str) -> bool | None:
    text = query.get(name)
    if text is None:
        return None
    return text not in ("0", "false", "False", "")


def _test(query: Query, target: Target) -> selectors.Test:
    by_label = selectors.parse_labels(query.get("labelSelector", ""))
    by_field = selectors.parse_fields(query.get("fieldSelector", ""), target.resource, target.version)
    test = selectors.both(by_label, by_field)
    if target.name:
        # A watch of one object by its path.
        name = target.name
        return selectors.both(test, lambda body: body["metadata"]["name"] == name)
    return test


def for_list(query: Query, target: Target) -> ListOptions:
    """Return how to list; StatusError (400) where the query makes no sense."""
    return ListOptions(
        _test(query, target),
        max(_integer(query, "limit") or 0, 0),
        query.get("continue", ""),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
    )


def for_watch(query: Query, target: Target, bookmark_seconds: float) -> WatchOptions:
    """Return how to watch; without timeoutSeconds for 30 to 60 minutes, so that not all clients return at once."""
    seconds = _integer(query, "timeoutSeconds")
    return WatchOptions(
        _test(query, target),
        query.get("resourceVersion", ""),
        query.get("resourceVersionMatch", ""),
        _flag(query, "sendInitialEvents"),
        bool(_flag(query, "allowWatchBookmarks")),
        seconds or _MIN_WATCH_SECONDS * (1 + random.random()),  # noqa: S311 - spreads load, guards nothing
        bookmark_seconds,
    )


def for_write(query: Query, verb: str) -> WriteOptions:
    """Return how to create, update or patch; StatusError (422) where the query makes no sense."""
    kind = f"{verb.title()}Options"
    text = query.get("fieldValidation", "") or "Warn"
    try:
        field_validation = FieldValidation(text)
    except ValueError:
        allowed = ("", *(mode.value for mode in FieldValidation))
        raise errors.invalid_options(kind, errors.unsupported("fieldValidation", text, allowed)) from None
    return WriteOptions(
        _dry_run(_given(query, "dryRun"), kind), field_validation, query.get("fieldManager", "")
    )


def _given(query: Query, name: str) -> list[str]:
    return [query[name]] if name in query else []


def _dry_run(values: list[str], kind: str) -> bool:
    if any(value != "All" for value in values):
        raise errors.invalid_options(kind, errors.unsupported("dryRun", values, ("All",)))
    return bool(values)


def for_delete(query: Query, body: Mapping[str, Any]) -> DeleteOptions:
    """Return how to delete: from DeleteOptions in the body, or else from the query."""
    given = body or {
        "dryRun": _given(query, "dryRun"),
        "gracePeriodSeconds": _integer(query, "gracePeriodSeconds"),
    }
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        _dry_run(list(given.get("dryRun") or ()), "DeleteOptions"),
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        given.get("gracePeriodSeconds"),
    )


def check_not_future(query: Query, current: int) -> None:
    """Refuse a get at a resourceVersion that is yet to come (504)."""
    revision = parse_revision(query.get("resourceVersion", ""), "invalid resource version: ")
    if revision > current:
        raise errors.too_large_resource_version(revision, current)


def check_accepted(accept: str) -> None:
    """Refuse what is not answered here (406): all but whole objects as JSON."""
    for choice in accept.split(",") if accept else ("*/*",):
        media_type, *options = (part.strip() for part in choice.split(";"))
        if media_type in ("application/json", "application/*", "*/*") and not any(
            option.startswith("as=") for option in options
        ):
            return
    message = f"406: Not Acceptable\n\nAvailable representations: {_REPRESENTATIONS}"
    raise errors.StatusError(406, "NotAcceptable", message, {})


JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_NAMED = (JSON, YAML, PROTOBUF)
_REPRESENTATIONS = f"{JSON}, {YAML}, {PROTOBUF}, {JSON};stream=watch, {PROTOBUF};stream=watch"
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
