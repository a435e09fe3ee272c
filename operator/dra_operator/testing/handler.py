"""One HTTP request: what it wants, which fault meets it, and who answers.

Everything that decides is elsewhere; here is the order in which the parts are asked, and what of HTTP is left: headers,
streams, connections that break on purpose.
"""

import json
from collections import Counter
from functools import partial

import orjson
from aiohttp import web

from dra_operator.testing import patches, requests, watch
from dra_operator.testing.discovery import AGGREGATED, Discovery, OpenApi, version_info
from dra_operator.testing.errors import StatusError
from dra_operator.testing.interceptor import DroppedError, Interceptor, RequestInfo
from dra_operator.testing.lists import Lists, Page
from dra_operator.testing.registry import Registry, Target, Written
from dra_operator.testing.requests import Route, Routes
from dra_operator.testing.resources import deprecation
from dra_operator.testing.store import Store, StoredObject


class Handler:
    """Answers requests from the parts of one server. `stopping` says that watches should end."""

    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        lists: Lists,
        interceptor: Interceptor,
        routes: Routes,
        discovery: Discovery,
        openapi: OpenApi,
        bookmark_seconds: float,
    ) -> None:
        self.requests: Counter[str] = Counter()
        """How many there were so far, by verb and kind, such as `patch ResourceClaim/status`."""
        self.stopping = False
        self._store = store
        self._registry = registry
        self._lists = lists
        self._interceptor = interceptor
        self._routes = routes
        self._discovery = discovery
        self._openapi = openapi
        self._bookmark_seconds = bookmark_seconds

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; whatever is refused is answered with a Status."""
        try:
            watching = request.query.get("watch", "") in ("1", "true")
            route = self._routes.find(request.method, request.raw_path.partition("?")[0], watch=watching)
        except StatusError as error:
            return _status_response(error)
        if route is None:
            return self._answer_about_itself(request)
        try:
            response = await self._answer(request, route)
        except StatusError as error:
            response = _status_response(error)
        if not response.prepared:
            _warn_of_version(response, route.target)
        return response

    def _answer_about_itself(self, request: web.BaseRequest) -> web.Response:
        path, accept = request.path, request.headers.get("Accept", "")
        if path in ("/healthz", "/readyz", "/livez"):
            return web.Response(text="ok")
        if path == "/version":
            return _json_response(orjson.dumps(version_info(), option=orjson.OPT_INDENT_2))
        if path.startswith("/openapi/v3"):
            document = self._openapi.answer(path)
            return _not_found() if document is None else _json_response(document)
        # Clients list several versions of aggregated discovery; v2 is the one that is offered.
        aggregated = any(
            "as=APIGroupDiscoveryList" in part and "v=v2;" in f"{part};" for part in accept.split(",")
        )
        found = self._discovery.answer(path, aggregated=aggregated, address=request.host)
        if found is None:
            return _not_found()
        if found["kind"] == "APIGroupDiscoveryList":
            return web.Response(
                body=orjson.dumps(found), headers={"Content-Type": AGGREGATED, "Vary": "Accept"}
            )
        return _json_response(orjson.dumps(found))

    async def _answer(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        target = route.target
        info = RequestInfo(route.verb, target.resource.kind, target.subresource, target.name)
        what = f"{info.kind}/{info.subresource}" if info.subresource else info.kind
        self.requests[f"{info.verb} {what}"] += 1
        body = await requests.read(request) if request.method != "GET" else b""
        try:
            await self._interceptor.admit(info)
        except DroppedError:
            return _break(request)
        except StatusError as error:
            if route.verb == "watch" and error.code == 410:
                return await _send_watch_error(request, target, error)
            raise
        requests.check_accepted(request.headers.get("Accept", ""))
        if route.verb == "watch":
            return await self._watch(request, target, info)
        answer = self._act(request, route.verb, target, body)
        if self._interceptor.drops_answer(info):
            return _break(request)
        return answer

    def _act(self, request: web.BaseRequest, verb: str, target: Target, body: bytes) -> web.Response:
        query, registry = request.query, self._registry
        match verb:
            case "get":
                requests.check_not_future(query, self._store.revision)
                return _json_response(_encoded(target, registry.get(target)))
            case "list":
                return _list_response(target, self._lists.page(target, requests.for_list(query, target)))
            case "create":
                wire = requests.decode_object(request, body, target)
                return _written(target, registry.create(target, wire, requests.for_write(query, verb)))
            case "update":
                wire = requests.decode_object(request, body, target)
                return _written(target, registry.update(target, wire, requests.for_write(query, verb)))
            case "patch":
                change = patches.read(request.content_type, body, target.resource.struct(target.version))
                return _written(target, registry.patch(target, change, requests.for_write(query, verb)))
        options = requests.for_delete(query, requests.decode_delete_options(request, body))
        if verb == "deletecollection":
            gone = registry.delete_collection(target, requests.for_list(query, target).test, options)
            return _list_response(target, Page(tuple(gone), self._store.revision))
        outcome = registry.delete(target, options)
        if isinstance(outcome, Written):
            return _written(target, outcome)
        return _json_response(orjson.dumps(outcome))

    # --- watches ----------------------------------------------------------------------------------------------------

    async def _watch(self, request: web.BaseRequest, target: Target, info: RequestInfo) -> web.StreamResponse:
        options = requests.for_watch(request.query, target, self._bookmark_seconds)
        watch.check(options)
        watching = watch.Watch(
            self._store,
            target,
            options,
            self._interceptor,
            partial(_encoded, target),
            cut_after=self._interceptor.events_until_cut(info),
            stopping=lambda: self.stopping,
        )
        response = await _start_stream(request, target)
        chunks = watching.chunks()
        try:
            async for chunk in chunks:
                await response.write(chunk)
            await response.write_eof()
        except watch.WatchBrokenError:
            _break(request)
        except ConnectionError:
            pass  # the client went away, as watches end
        finally:
            await chunks.aclose()
        return response


# --- answers --------------------------------------------------------------------------------------------------------


def _json_response(body: bytes, code: int = 200) -> web.Response:
    return web.Response(status=code, body=body + b"\n", content_type=requests.JSON)


def _encoded(target: Target, stored: StoredObject) -> bytes:
    return stored.encoded(target.resource, target.version)


def _list_response(target: Target, page: Page) -> web.Response:
    resource, version = target.resource, target.version
    head = {
        "kind": f"{resource.kind}List",
        "apiVersion": resource.api_version(version),
        "metadata": page.metadata(),
    }
    items = b",".join(stored.list_item(resource, version) for stored in page.items)
    return _json_response(orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}")


def _written(target: Target, written: Written) -> web.Response:
    response = _json_response(_encoded(target, written.stored), 201 if written.created else 200)
    for warning in written.warnings:
        _warn(response, warning)
    return response


def _warn(response: web.StreamResponse, text: str) -> None:
    response.headers.add("Warning", f"299 - {json.dumps(text, ensure_ascii=False)}")


def _warn_of_version(response: web.StreamResponse, target: Target) -> None:
    warning = deprecation(target.resource, target.version)
    if warning:
        _warn(response, warning)


def _status_response(error: StatusError) -> web.Response:
    response = _json_response(orjson.dumps(error.status()), error.code)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


def _not_found() -> web.Response:
    return web.Response(status=404, text="404 page not found\n")


async def _start_stream(request: web.BaseRequest, target: Target) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": requests.JSON})
    _warn_of_version(response, target)
    response.enable_chunked_encoding()
    await response.prepare(request)
    return response


async def _send_watch_error(
    request: web.BaseRequest, target: Target, error: StatusError
) -> web.StreamResponse:
    response = await _start_stream(request, target)
    await response.write(watch.error_line(error))
    await response.write_eof()
    return response


def _break(request: web.BaseRequest) -> web.Response:
    """Close the connection at once; what is returned is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
