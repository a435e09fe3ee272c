"""One HTTP request: what it wants, which fault meets it, and who answers.

Everything that decides is elsewhere; here is the order in which the parts are asked, and what of HTTP is left: headers,
streams, connections that break on purpose.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from dra_operator.testing import discovery, patches, requests
from dra_operator.testing.errors import DroppedError, Interceptor, RequestInfo, StatusError
from dra_operator.testing.lists import Lists, Page
from dra_operator.testing.registry import Registry, Target
from dra_operator.testing.resources import Resource
from dra_operator.testing.store import StoredObject
from dra_operator.testing.watch import Watch, WatchBrokenError, error_line


class Handler:
    """Answers requests from the parts of one server. `stopping` says that watches should end."""

    def __init__(
        self,
        registry: Registry,
        lists: Lists,
        interceptor: Interceptor,
        resources: tuple[Resource, ...],
        bookmark_seconds: float,
    ) -> None:
        self.requests: Counter[str] = Counter()
        """How many there were so far, by verb and kind, such as `patch ResourceClaim/status`."""
        self.stopping = False
        self.version = discovery.GIT_VERSION
        """What it says that its version is, as `gitVersion`."""
        self._registry = registry
        self._lists = lists
        self._interceptor = interceptor
        self._resources = resources
        self._bookmark_seconds = bookmark_seconds

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request; whatever is refused is answered with a Status."""
        is_watch = request.query.get("watch", "") in ("1", "true")
        path = request.raw_path.partition("?")[0]
        try:
            route = requests.find_route(self._resources, request.method, path, watch=is_watch)
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
        body = await requests.read_body(request) if request.can_read_body else b""
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
        requests.check_version(request.query, self._registry.store.revision)
        answer = self._act(request, verb, target, body)
        return _break(request) if self._interceptor.drops_answer(info) else answer

    def _act(self, request: web.BaseRequest, verb: str, target: Target, body: bytes) -> web.Response:
        query, registry = request.query, self._registry
        is_new = verb == "create"
        outcome: StoredObject | Mapping[str, Any]
        match verb:
            case "list":
                return _list_response(target, requests.page(query, target, self._lists))
            case "create":
                wire = requests.read_object(request, body)
                outcome = registry.create(target, wire, requests.for_write(query))
            case "update":
                wire = requests.read_object(request, body)
                outcome, is_new = registry.update(target, wire, requests.for_write(query))
            case "patch":
                change = patches.read(request.content_type, body, target.resource.struct(target.version))
                outcome = registry.patch(target, change, requests.for_write(query))
            case "delete":
                outcome = registry.delete(target, requests.for_delete(query, request, body))
            case _:
                outcome = registry.get(target)
        code = 201 if is_new else 200
        if isinstance(outcome, StoredObject):
            return _json_response(outcome.encoded(target.resource, target.version), code)
        return _json_response(outcome, code)

    async def _watch(self, request: web.BaseRequest, target: Target, info: RequestInfo) -> web.StreamResponse:
        cut_after = self._interceptor.events_until_cut(info)
        options = requests.for_watch(request.query, target, self._bookmark_seconds, cut_after)
        watching = Watch(self._registry.store, options, self._interceptor, lambda: self.stopping)
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


def _json_response(body: bytes | Mapping[str, Any], code: int = 200) -> web.Response:
    encoded = body if isinstance(body, bytes) else orjson.dumps(body)
    return web.Response(status=code, body=encoded + b"\n", content_type=requests.JSON)


def _list_response(target: Target, page: Page) -> web.Response:
    resource, version = target.resource, target.version
    api_version = resource.api_version(version)
    head = {"kind": f"{resource.kind}List", "apiVersion": api_version, "metadata": page.metadata()}
    items = b",".join(stored.list_item(resource, version) for stored in page.items)
    return _json_response(orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}")


async def _start_stream(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": requests.JSON})
    response.enable_chunked_encoding()
    await response.prepare(request)
    return response


def _break(request: web.BaseRequest) -> web.Response:
    """Close the connection at once; what is returned is never sent."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()
