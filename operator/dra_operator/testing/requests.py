"""Requests: what path, parameters and body of a request say, and what of them is refused.

Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go and pkg/endpoints/handlers.
"""

import random
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import orjson
from aiohttp import web

from dra_operator.testing import errors, lists, schema
from dra_operator.testing.discovery import Resource
from dra_operator.testing.lists import WatchOptions
from dra_operator.testing.registry import DeleteOptions, Target, WriteOptions

Query = Mapping[str, str]
JSON: Final = "application/json"
_OBJECT_VERBS: Final = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS: Final = {"GET": "list", "POST": "create"}
_MIN_WATCH_SECONDS: Final = 1800
_MAX_BYTES: Final = 3 * 1024 * 1024


def find_route(
    resources: tuple[Resource, ...], method: str, path: str, *, watch: bool
) -> tuple[str, Target] | None:
    """Return the RBAC verb and what it is about; None if the path is not below a group and version.

    StatusError 404 or 405 if it is, and the resource or the verb is not there.
    """
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        target = _target(resources, "", parts[1], parts[2:])
    elif parts[0] == "apis" and len(parts) > 3:
        target = _target(resources, parts[1], parts[2], parts[3:])
    else:
        return None
    verb = (_OBJECT_VERBS if target.name else _COLLECTION_VERBS).get(method, "")
    is_anywhere = verb == "create" and target.resource.namespaced and not target.namespace
    if verb not in target.resource.verbs(target.subresource) or is_anywhere:
        raise errors.method_not_allowed()
    return ("watch" if watch and verb == "list" else verb), target


def _target(resources: tuple[Resource, ...], group: str, version: str, rest: list[str]) -> Target:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] != "status":
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = [*rest, "", ""]
    for resource in resources:
        if (resource.group, resource.plural) == (group, plural) and version in resource.versions:
            is_inside = bool(namespace) == resource.namespaced or not (name or namespace)
            if is_inside and not any(more) and resource.verbs(subresource):
                return Target(resource, version, namespace, name, subresource)
    raise errors.no_resource()


def _integer(query: Query, name: str) -> int:
    text = query.get(name, "")
    if text and not text.isdecimal():
        raise errors.bad_request(f'{name}: "{text}" is no number')
    return int(text or 0)


def _is_set(query: Query, name: str) -> bool:
    return query.get(name, "") not in ("", "0", "false", "False")


def selection(query: Query, target: Target) -> lists.Test:
    """Return the test of both selectors; StatusError (400) where one makes no sense."""
    by_label = lists.parse_labels(query.get("labelSelector", ""))
    return lists.both(by_label, lists.parse_fields(query.get("fieldSelector", ""), target.resource))


def page(query: Query, target: Target, found: lists.Lists) -> lists.Page:
    """Return the page of a list that is asked for; StatusError 400 or 410 where there is none."""
    limit = _integer(query, "limit")
    if token := query.get("continue", ""):
        return found.following(token, limit)
    # A list at resourceVersion 0 comes from the watch cache, whole.
    limit = 0 if query.get("resourceVersion") == "0" else limit
    return found.first(target.resource, target.namespace, selection(query, target), limit)


def check_version(query: Query, current: int) -> None:
    """Refuse a resourceVersion that is none (400), or is yet to come (504)."""
    if (revision := _integer(query, "resourceVersion")) > current:
        raise errors.future_version(revision, current)


def for_watch(query: Query, target: Target, bookmark_seconds: float, cut_after: int | None) -> WatchOptions:
    """Return how to watch; without timeoutSeconds for 30 to 60 minutes, so that not all clients return at once."""
    spread = _MIN_WATCH_SECONDS * (1 + random.random())  # noqa: S311 - spreads load, guards nothing
    return WatchOptions(
        target,
        selection(query, target),
        _integer(query, "resourceVersion"),
        is_list=_is_set(query, "sendInitialEvents"),
        allow_bookmarks=_is_set(query, "allowWatchBookmarks"),
        seconds=_integer(query, "timeoutSeconds") or spread,
        bookmark_seconds=bookmark_seconds,
        cut_after=cut_after,
    )


def for_write(query: Query) -> WriteOptions:
    """Return how to create, update or patch."""
    is_strict = query.get("fieldValidation") == "Strict"
    return WriteOptions(_is_set(query, "dryRun"), is_strict, query.get("fieldManager", ""))


def for_delete(query: Query, request: web.BaseRequest, body: bytes) -> DeleteOptions:
    """Return how to delete: from DeleteOptions in the body, or else from the query."""
    if not body:
        grace = _integer(query, "gracePeriodSeconds") if "gracePeriodSeconds" in query else None
        return DeleteOptions(_is_set(query, "dryRun"), grace_period_seconds=grace)
    try:
        given, _ = schema.decode(read_object(request, body), "meta/v1.DeleteOptions")
    except schema.DecodeError as error:
        raise errors.bad_request(str(error)) from None
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        bool(given.get("dryRun")),
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        given.get("gracePeriodSeconds"),
    )


async def read_body(request: web.BaseRequest) -> bytes:
    """Return the body of a request; StatusError (413) if it is larger than 3 MiB."""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > _MAX_BYTES:
            message = f"Request entity too large: limit is {_MAX_BYTES}"
            raise errors.StatusError(413, "RequestEntityTooLarge", message)
    return bytes(body)


def read_object(request: web.BaseRequest, body: bytes) -> dict[str, Any]:
    """Return the object in a body. Raises StatusError: 415 if it is not sent as JSON, 400 for what is no object."""
    if "Content-Type" in request.headers and request.content_type != JSON:
        raise errors.unsupported_media_type("JSON, as kubectl apply -f sends it: use kubectl apply -f")
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise errors.bad_request(f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise errors.bad_request("the body is no object")
    return found
