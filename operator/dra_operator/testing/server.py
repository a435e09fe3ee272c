"""The API server: its parts put together, its life, and a way in for tests that need no HTTP.

It listens on loopback, speaks plain HTTP and believes everybody: it is for demos, tests and scale runs on one machine.

    async with ApiServer() as server:
        print(server.url, server.kubeconfig())
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self
from urllib.parse import unquote

import orjson
import yaml
from aiohttp import web

from dra_operator.testing import discovery, errors, lists, patches, schema
from dra_operator.testing.discovery import RESOURCES, Resource
from dra_operator.testing.errors import DroppedError, Interceptor, RequestInfo, StatusError
from dra_operator.testing.lists import Lists, Page, Watch, WatchBrokenError, error_line
from dra_operator.testing.registry import DeleteOptions, Registry, Target, WriteOptions
from dra_operator.testing.store import Store, StoredObject, wire_body

# --- The server.


_HOST = "127.0.0.1"
_START_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


class ApiServer:
    """An API server in memory. `port` 0 takes a free one, which it keeps; `url` says which, once started.

    `resources` are the kinds and their versions; `history` is how many changes a kind remembers at least;
    `bookmark_seconds` is how far bookmarks are apart; `checks_admin_access` says whether the namespace's label counts.
    """

    def __init__(
        self,
        port: int = 0,
        interceptor: Interceptor | None = None,
        *,
        resources: tuple[Resource, ...] = RESOURCES,
        history: int = 16_384,
        bookmark_seconds: float = 60.0,
        checks_admin_access: bool = True,
    ) -> None:
        self.store = Store(history=history)
        self.registry = Registry(self.store, checks_admin_access=checks_admin_access)
        self.lists = Lists(self.store, time.monotonic)
        self.requests: Counter[str] = Counter()
        """How many there were so far, by verb and kind, such as `patch ResourceClaim/status`."""
        self.version = discovery.GIT_VERSION
        """What it says that its version is, as `gitVersion`. It answers as 1.37 does all the same."""
        self._interceptor = interceptor or Interceptor()
        self._resources = resources
        self._bookmark_seconds = bookmark_seconds
        self._is_stopping = False
        self._port = port
        self._runner: web.ServerRunner | None = None
        for name in _START_NAMESPACES:
            self.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen."""
        self._is_stopping = False
        server = web.Server(self._handle, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, self._port, backlog=1024, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End all watches and stop listening. What is stored stays; `start` goes on with it, on the same port."""
        self._is_stopping = True
        self.wake_watches()
        await asyncio.sleep(0)
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{_HOST}:{self._port}"

    def kubeconfig(self) -> str:
        """Return the text of a kubeconfig for this server."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sim", "cluster": {"server": self.url}}],
            "users": [{"name": "sim", "user": {}}],
            "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "sim"}}],
            "current-context": "sim",
        }
        return str(yaml.safe_dump(config, sort_keys=False))

    def expire_history(self) -> None:
        """Forget all history: watches from any earlier resourceVersion, and continue tokens, get 410."""
        self.store.forget_history()
        self.lists.expire()

    def wake_watches(self) -> None:
        """Let open watches look again at what there is, and whether they are to end."""
        self.store.wake()

    # --- requests: which fault meets them, and who answers ------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; whatever is refused is answered with a Status."""
        is_watch = request.query.get("watch", "") in ("1", "true")
        path = request.raw_path.partition("?")[0]
        try:
            route = find_route(self._resources, request.method, path, watch=is_watch)
            if route is None:
                return self._answer_about_itself(request)
            return await self._answer(request, *route)
        except StatusError as error:
            response = _json_response(error.status(), error.code)
            if error.retry_after is not None:
                response.headers["Retry-After"] = str(error.retry_after)
            return response

    def _answer_about_itself(self, request: web.BaseRequest) -> web.Response:
        if request.path in ("/healthz", "/readyz", "/livez"):
            return web.Response(text="ok")
        found = discovery.answer(self._resources, request.path, request.host, self.version)
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        return _json_response(found)

    async def _answer(self, request: web.BaseRequest, verb: str, target: Target) -> web.StreamResponse:
        info = RequestInfo(verb, target.resource.kind, target.subresource, target.name)
        what = f"{info.kind}/{info.subresource}" if info.subresource else info.kind
        self.requests[f"{info.verb} {what}"] += 1
        body = await read_body(request) if request.can_read_body else b""
        try:
            await self._interceptor.admit(info)
        except DroppedError:
            return _break(request)
        except StatusError as error:
            if verb != "watch" or error.code != 410:
                raise
            # As the real server has it: status 200, one event.
            response = await _start_stream(request)
            await response.write(error_line(error))
            await response.write_eof()
            return response
        if verb == "watch":
            return await self._watch(request, target, info)
        check_version(request.query, self.store.revision)
        answer = self._act(request, verb, target, body)
        return _break(request) if self._interceptor.drops_answer(info) else answer

    def _act(self, request: web.BaseRequest, verb: str, target: Target, body: bytes) -> web.Response:
        query, registry = request.query, self.registry
        is_new = verb == "create"
        outcome: StoredObject | Mapping[str, Any]
        match verb:
            case "list":
                return _list_response(target, page(query, target, self.lists))
            case "create":
                wire = read_object(request, body)
                outcome = registry.create(target, wire, for_write(query))
            case "update":
                wire = read_object(request, body)
                outcome, is_new = registry.update(target, wire, for_write(query))
            case "patch":
                change = patches.read(request.content_type, body, target.resource.struct(target.version))
                outcome = registry.patch(target, change, for_write(query))
            case "delete":
                outcome = registry.delete(target, for_delete(query, request, body))
            case _:
                outcome = registry.get(target)
        code = 201 if is_new else 200
        if isinstance(outcome, StoredObject):
            return _json_response(outcome.encoded(target.resource, target.version), code)
        return _json_response(outcome, code)

    async def _watch(self, request: web.BaseRequest, target: Target, info: RequestInfo) -> web.StreamResponse:
        query, faults = request.query, self._interceptor
        # Without timeoutSeconds for 30 to 60 minutes, so that not all clients return at once.
        spread = _MIN_WATCH_SECONDS * (1 + random.random())  # noqa: S311 - spreads load, guards nothing
        watching = Watch(
            self.store,
            target,
            selection(query, target),
            _integer(query, "resourceVersion"),
            is_list=_is_set(query, "sendInitialEvents"),
            allow_bookmarks=_is_set(query, "allowWatchBookmarks"),
            seconds=_integer(query, "timeoutSeconds") or spread,
            bookmark_seconds=self._bookmark_seconds,
            left=faults.events_until_cut(info),
            interceptor=faults,
            cuts=faults.cuts,
            stopping=lambda: self._is_stopping,
        )
        response = await _start_stream(request)
        chunks = watching.chunks()
        try:
            async for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
        except WatchBrokenError:
            _break(request)
        except ConnectionError:
            pass  # the client went away, as watches end
        finally:
            await chunks.aclose()
        return response

    # --- objects without HTTP ---------------------------------------------------------------------------------------

    def put(self, body: Mapping[str, Any]) -> None:
        """Create an object as it is, status included, or replace the one of this name.

        The body says its kind and apiVersion. Defaults are applied, nothing is validated; watches see it as any write.
        Raises ValueError for a kind that is not served.
        """
        self.registry.load(self._target_of(body), body)

    def touch(
        self, kind: str, name: str, namespace: str, change: Callable[[dict[str, Any]], Mapping[str, Any]]
    ) -> None:
        """Store an object anew as `change` makes it of the stored body, with no check at all: for bursts of events.

        The body given is the store's own and must not be altered. Raises KeyError if the object is not there.
        """
        resource = self._resource(kind)
        stored = self.store.get(resource, namespace, name)
        if stored is None:
            raise KeyError(name)
        body = dict(change(dict(stored.body)))
        body["metadata"] = dict(body["metadata"])
        self.store.put(resource, body)

    def load(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Put many objects."""
        for body in bodies:
            self.put(body)

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return a copy of an object in its preferred version, or None."""
        resource = self._resource(kind)
        stored = self.store.get(resource, namespace, name)
        if stored is None:
            return None
        return wire_body(stored.body, resource, resource.versions[0])

    def list(self, kind: str, namespace: str = "") -> list[dict[str, Any]]:
        """Return copies of all objects of a kind (in a namespace), by namespace and name."""
        resource = self._resource(kind)
        found = self.store.table(resource).in_order(namespace)
        return [wire_body(stored.body, resource, resource.versions[0]) for stored in found]

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Remove an object at once, finalizers or not; it is fine if it is not there."""
        resource = self._resource(kind)
        stored = self.store.get(resource, namespace, name)
        if stored is not None:
            self.store.remove(resource, stored)

    def _resource(self, kind: str) -> Resource:
        for resource in self._resources:
            if resource.kind == kind:
                return resource
        raise ValueError(f"{kind} is not served here")

    def _target_of(self, body: Mapping[str, Any]) -> Target:
        group, _, version = str(body["apiVersion"]).rpartition("/")
        for resource in self._resources:
            if resource.kind == body["kind"] and resource.group == group and version in resource.versions:
                metadata = body["metadata"]
                namespace = metadata.get("namespace", "default") if resource.namespaced else ""
                return Target(resource, version, namespace, metadata["name"])
        raise ValueError(f"{body['kind']} of {body['apiVersion']} is not served here")


def _json_response(body: bytes | Mapping[str, Any], code: int = 200) -> web.Response:
    encoded = body if isinstance(body, bytes) else orjson.dumps(body)
    return web.Response(status=code, body=encoded + b"\n", content_type=JSON)


def _list_response(target: Target, page: Page) -> web.Response:
    resource, version = target.resource, target.version
    api_version = resource.api_version(version)
    head = {"kind": f"{resource.kind}List", "apiVersion": api_version, "metadata": page.metadata()}
    items = b",".join(stored.list_item(resource, version) for stored in page.items)
    return _json_response(orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}")


async def _start_stream(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": JSON})
    response.enable_chunked_encoding()
    await response.prepare(request)
    return response


def _break(request: web.BaseRequest) -> web.Response:
    """Close the connection at once; what is returned is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


# --- Requests: what path, parameters and body of a request say, and what of them is refused.
# Source: k8s.io/apiserver/pkg/endpoints/request/requestinfo.go and pkg/endpoints/handlers.


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
