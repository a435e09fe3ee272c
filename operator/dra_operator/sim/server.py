"""The API server over HTTP: one handler that reads a request, asks the parts, and writes the answer.

It listens on loopback, speaks plain HTTP and believes everybody: it is for demos, tests and scale runs on one machine.

    async with ApiServer() as server:
        print(server.url, server.kubeconfig())
"""

import json
import secrets
import time
import uuid
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

import orjson
import yaml
from aiohttp import web

from dra_operator.sim import errors, lists, parameters, patches, schema, watch
from dra_operator.sim.admission import AdminAccess
from dra_operator.sim.discovery import Discovery, version_info
from dra_operator.sim.errors import StatusError
from dra_operator.sim.faults import Effect, Faults, Subject
from dra_operator.sim.objects import Stored
from dra_operator.sim.registry import Registry, Target, Written
from dra_operator.sim.resources import RESOURCES, Resource
from dra_operator.sim.routes import Route, Routes
from dra_operator.sim.store import Store

_JSON = "application/json"
_READABLE = (_JSON, "application/yaml", "application/vnd.kubernetes.protobuf")
_SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_START_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_MAX_BODY = 3 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What kind of API server to be.

    `resources` are the kinds and their versions; `history` is how many changes a kind remembers at least;
    `bookmark_seconds` is how far bookmarks are apart; `admin_access` says whether the namespace label is asked for.
    """

    resources: tuple[Resource, ...] = RESOURCES
    git_version: str = "v1.36.3"
    history: int = 16_384
    bookmark_seconds: float = 60.0
    admin_access: AdminAccess = AdminAccess.CHECKED


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request that came in: what it wanted and what it got (code 0 while unknown)."""

    verb: str
    kind: str
    namespace: str
    name: str
    subresource: str
    version: str
    parameters: Mapping[str, str]
    user_agent: str


@dataclass
class RequestLog:
    """The last requests, and how many there were by verb and kind (`patch ResourceClaim/status`)."""

    last: deque[RequestRecord] = field(default_factory=lambda: deque(maxlen=10_000))
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, record: RequestRecord) -> None:
        """Count a request."""
        self.last.append(record)
        what = f"{record.kind}/{record.subresource}" if record.subresource else record.kind
        self.counts[f"{record.verb} {what}"] += 1


class ApiServer:
    """An API server in memory. `port` 0 takes a free one; `url` says which, once started."""

    def __init__(
        self, port: int = 0, options: ServerOptions = ServerOptions(), host: str = "127.0.0.1"
    ) -> None:
        self.options = options
        self.store = Store(history=options.history)
        self.registry = Registry(
            self.store,
            clock=lambda: datetime.now(UTC),
            new_uid=lambda: str(uuid.uuid4()),
            new_suffix=lambda length: "".join(secrets.choice(_SUFFIX_LETTERS) for _ in range(length)),
            admin_access=options.admin_access,
        )
        self.lists = lists.Lists(self.store, time.monotonic)
        self.faults = Faults(self._expire, self._wake_watches)
        self.requests = RequestLog()
        self._routes = Routes(options.resources)
        self._discovery = Discovery(options.resources)
        self._host, self._port = host, port
        self._runner: web.ServerRunner | None = None
        self._stopping = False
        for name in _START_NAMESPACES:
            self.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen."""
        server = web.Server(self._handle, access_log=None)
        self._runner = web.ServerRunner(server)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, shutdown_timeout=0.5, backlog=1024)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self._stopping = False

    async def stop(self) -> None:
        """End all watches and stop listening. What is stored stays; `start` goes on with it on the same port."""
        self._stopping = True
        self._wake_watches()
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
        return f"http://{self._host}:{self._port}"

    def kubeconfig(self) -> str:
        """Return the text of a kubeconfig for this server."""
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "sim", "cluster": {"server": self.url}}],
                "users": [{"name": "sim", "user": {}}],
                "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "sim"}}],
                "current-context": "sim",
            },
            sort_keys=False,
        )

    def _expire(self) -> None:
        self.store.forget_history()
        self.lists.expire()

    def _wake_watches(self) -> None:
        for table in self.store.tables().values():
            table.history.wake()

    # --- objects without HTTP ---------------------------------------------------------------------------------------

    def put(self, *bodies: Mapping[str, Any]) -> None:
        """Create the objects, or replace spec and status of those that are there, without validation or limits.

        Bodies say their kind and apiVersion. For tests and scale runs: watches see it like any write.
        """
        for body in bodies:
            target = self._target_of(body)
            created = self.store.get(target.resource, target.namespace, target.name)
            self.registry.load(target, body, created)

    def load(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Put many objects."""
        self.put(*bodies)

    def get(self, kind: str, name: str, namespace: str = "") -> dict[str, Any] | None:
        """Return a copy of an object in its preferred version, or None."""
        resource = next(resource for resource in self.options.resources if resource.kind == kind)
        stored = self.store.get(resource, namespace, name)
        if stored is None:
            return None
        return self.registry.wire_body(Target(resource, resource.versions[0]), stored)

    def remove(self, kind: str, name: str, namespace: str = "") -> None:
        """Remove an object at once, finalizers or not."""
        resource = next(resource for resource in self.options.resources if resource.kind == kind)
        stored = self.store.get(resource, namespace, name)
        if stored is not None:
            self.store.remove(resource, stored)

    def _target_of(self, body: Mapping[str, Any]) -> Target:
        group, _, version = str(body["apiVersion"]).rpartition("/")
        for resource in self.options.resources:
            if resource.kind == body["kind"] and resource.group == group and version in resource.versions:
                metadata = body["metadata"]
                namespace = metadata.get("namespace", "default") if resource.namespaced else ""
                return Target(resource, version, namespace, metadata["name"])
        raise ValueError(f"{body['kind']} of {body['apiVersion']} is not served here")

    # --- requests ---------------------------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            return await self._answer(request)
        except StatusError as error:
            return _status_response(error)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path, query = request.path, request.query
        if path in ("/healthz", "/readyz", "/livez"):
            return web.Response(text="ok")
        if path == "/version":
            return _json_response(version_info(self.options.git_version))
        watching = query.get("watch", "") in ("1", "true")
        route = self._routes.find(request.method, request.raw_path.partition("?")[0], watch=watching)
        if route is None:
            return self._answer_without_resource(request, path)
        return await self._answer_resource(request, route)

    def _answer_without_resource(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        accept = request.headers.get("Accept", "")
        aggregated = "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")
        found = self._discovery.answer(path, aggregated=aggregated, address=f"{self._host}:{self._port}")
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        if found["kind"] == "APIGroupDiscoveryList":
            headers = {"Content-Type": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
            return web.Response(body=orjson.dumps(found) + b"\n", headers=headers)
        return _json_response(found)

    async def _answer_resource(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        target = route.target
        subject = Subject(route.verb, target.resource.kind, target.subresource, target.name)
        self.requests.add(
            RequestRecord(
                route.verb,
                target.resource.kind,
                target.namespace,
                target.name,
                target.subresource,
                target.version,
                dict(request.query),
                request.headers.get("User-Agent", ""),
            )
        )
        body = await self._read(request) if request.method != "GET" else b""
        await self.faults.wait(subject)
        if self.faults.take(Effect.REFUSE, subject) is not None:
            return _cut(request)
        fault = self.faults.take(Effect.ANSWER, subject)
        if fault is not None:
            error = StatusError(
                fault.code, fault.reason, fault.message or fault.reason, retry_after=fault.retry_after
            )
            if route.verb == "watch" and fault.code == 410:
                return await self._send_watch_error(request, error)
            raise error
        answer = await self._do(request, route, body, subject)
        if self.faults.take(Effect.LOSE_ANSWER, subject) is not None:
            return _cut(request)
        return answer

    async def _do(
        self, request: web.BaseRequest, route: Route, body: bytes, subject: Subject
    ) -> web.StreamResponse:
        query, target = request.query, route.target
        match route.verb:
            case "get":
                parameters.check_not_future(query, self.store.revision)
                return self._object_response(request, target, self.registry.get(target))
            case "list":
                return self._list_response(
                    request, target, self.lists.page(target, parameters.for_list(query, target))
                )
            case "watch":
                return await self._watch(request, target, subject)
            case "create":
                wire = _decode_body(request, body, target)
                return self._written_response(
                    request, target, self.registry.create(target, wire, parameters.for_write(query))
                )
            case "update":
                wire = _decode_body(request, body, target)
                return self._written_response(
                    request, target, self.registry.update(target, wire, parameters.for_write(query))
                )
            case "patch":
                return self._patch(request, target, body)
            case "delete":
                outcome = self.registry.delete(
                    target, parameters.for_delete(query, _decode_options(request, body))
                )
                if isinstance(outcome, Written):
                    return self._object_response(request, target, outcome.stored)
                return _json_response(outcome)
        options = parameters.for_delete(query, _decode_options(request, body))
        gone = self.registry.delete_collection(target, parameters.for_list(query, target).test, options)
        return self._list_response(request, target, lists.Page(tuple(gone), self.store.revision))

    @staticmethod
    async def _read(request: web.BaseRequest) -> bytes:
        body = await request.content.read(_MAX_BODY + 1) if request.can_read_body else b""
        while request.can_read_body and not request.content.at_eof():
            more = await request.content.read(_MAX_BODY + 1)
            body += more
            if len(body) > _MAX_BODY:
                message = f"Request entity too large: limit is {_MAX_BODY}"
                raise StatusError(413, "RequestEntityTooLarge", message, {})
        return body

    # --- answers ----------------------------------------------------------------------------------------------------

    def _object_response(
        self,
        request: web.BaseRequest,
        target: Target,
        stored: Stored,
        *,
        code: int = 200,
        warnings: tuple[str, ...] = (),
    ) -> web.Response:
        shown = stored.encoded(target.resource, target.version)
        response = web.Response(status=code, body=shown + b"\n", content_type=_JSON)
        for warning in warnings:
            response.headers.add("Warning", f"299 - {json.dumps(warning)}")
        return response

    def _written_response(self, request: web.BaseRequest, target: Target, written: Written) -> web.Response:
        return self._object_response(
            request, target, written.stored, code=201 if written.created else 200, warnings=written.warnings
        )

    def _list_response(self, request: web.BaseRequest, target: Target, page: lists.Page) -> web.Response:
        resource, version = target.resource, target.version
        head = {
            "kind": f"{resource.kind}List",
            "apiVersion": resource.api_version(version),
            "metadata": page.metadata(),
        }
        items = b",".join(stored.list_item(resource, version) for stored in page.items)
        body = orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}\n"
        return web.Response(body=body, content_type=_JSON)

    def _patch(self, request: web.BaseRequest, target: Target, body: bytes) -> web.Response:
        struct = schema.struct_name(target.resource.group, target.version, target.resource.kind)
        patch = patches.read(request.content_type, body, struct)
        written = self.registry.patch(target, patch, parameters.for_write(request.query))
        return self._written_response(request, target, written)

    async def _watch(self, request: web.BaseRequest, target: Target, subject: Subject) -> web.StreamResponse:
        options = parameters.for_watch(request.query, target, self.options.bookmark_seconds)
        watch.check(options)
        cut = self.faults.take(Effect.CUT_WATCH, subject)

        def show(stored: Stored) -> bytes:
            return stored.encoded(target.resource, target.version)

        response = await _start_stream(request)
        lines = watch.stream(
            self.store, target, options, self.faults, show, cut_after=cut.events if cut is not None else None
        )
        try:
            async for chunk in lines:
                await response.write(chunk)
                if self._stopping:
                    break
            await response.write_eof()
        except watch.WatchBrokenError:
            _abort(request)
        except (ConnectionResetError, ConnectionError):
            pass
        finally:
            await lines.aclose()
        return response

    async def _send_watch_error(self, request: web.BaseRequest, error: StatusError) -> web.StreamResponse:
        response = await _start_stream(request)
        await response.write(watch.error_line(error))
        await response.write_eof()
        return response


async def _start_stream(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": _JSON})
    response.enable_chunked_encoding()
    await response.prepare(request)
    # Without a first byte on the wire some clients do not see that the watch began.
    return response


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


def _cut(request: web.BaseRequest) -> web.Response:
    """Close the connection; what is returned is never sent."""
    _abort(request)
    return web.Response()


def _json_response(body: Mapping[str, Any], code: int = 200) -> web.Response:
    return web.Response(status=code, body=orjson.dumps(body) + b"\n", content_type=_JSON)


def _status_response(error: StatusError) -> web.Response:
    response = _json_response(error.status(), error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _decode_body(request: web.BaseRequest, body: bytes, target: Target) -> dict[str, Any]:
    kind = target.resource.kind
    content_type = request.content_type if "Content-Type" in request.headers else _JSON
    prefix = f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error: "
    if content_type == "application/yaml":
        try:
            read = yaml.safe_load(body)
        except yaml.YAMLError as error:
            raise errors.bad_request(f"{prefix}{error}") from None
    elif content_type == _JSON:
        try:
            read = orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise errors.bad_request(f"{prefix}{error}") from None
    else:
        raise errors.unsupported_media_type(_READABLE)
    if not isinstance(read, dict):
        raise errors.bad_request(f"{prefix}json: the body is not an object")
    return read


def _decode_options(request: web.BaseRequest, body: bytes) -> Mapping[str, Any]:
    if not body:
        return {}
    try:
        read = yaml.safe_load(body) if request.content_type == "application/yaml" else orjson.loads(body)
    except (orjson.JSONDecodeError, yaml.YAMLError) as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    return read if isinstance(read, dict) else {}
