"""A scripted API server: a test says what each request gets, and sees what was asked."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import kopf
import orjson
from aiohttp import web

from dra_operator.api.kinds import KINDS
from dra_operator.cluster.credentials import Login
from dra_operator.cluster.delivery import PROTOBUF
from dra_operator.cluster.discovery import Served

CLAIMS = Served(KINDS["ResourceClaim"], "v1")
CLASSES = Served(KINDS["DeviceClass"], "v1")


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@dataclass
class Script:
    """An HTTP server whose answers a test scripts; `answers` are taken in order, then `default`.

    An answer is a function from the request to a response, or a response-making coroutine.
    """

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answers: list[Callable[[web.Request], Any]] = field(default_factory=list)
    default: Callable[[web.Request], Any] | None = None

    def then(self, *answers: Callable[[web.Request], Any]) -> None:
        """Add answers to the end of the script."""
        self.answers.extend(answers)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Record a request and play the next answer."""
        raw = await request.read()
        self.asked.append(
            Asked(
                request.method,
                request.path,
                dict(request.query),
                raw if request.content_type == PROTOBUF else orjson.loads(raw) if raw else None,
                dict(request.headers),
            )
        )
        answer = self.answers.pop(0) if self.answers else self.default
        if answer is None:
            return status(500, "the script has ended")(request)
        result = answer(request)
        return await result if asyncio.iscoroutine(result) else result


def ok(body: Any, code: int = 200) -> Callable[[web.Request], web.Response]:
    """An answer: a JSON body."""
    return lambda _: web.Response(status=code, body=orjson.dumps(body), content_type="application/json")


def status(
    code: int,
    message: str = "",
    reason: str = "",
    headers: dict[str, str] | None = None,
    details: Any = None,
) -> Callable[[web.Request], web.Response]:
    """An answer: a Status of the API server."""
    body = {"kind": "Status", "code": code, "message": message, "reason": reason, "details": details}
    return lambda _: web.Response(
        status=code, body=orjson.dumps(body), content_type="application/json", headers=headers
    )


def cut(request: web.Request) -> web.Response:
    """An answer: the connection breaks without one."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def lines(*events: Any, then: str = "end") -> Callable[[web.Request], Any]:
    """An answer: the events of a watch, then the stream does `end`, is `cut`, or falls silent (`stall`)."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            line = event if isinstance(event, bytes) else orjson.dumps(event)
            await response.write(line + b"\n")
        if then == "cut":
            assert request.transport is not None
            request.transport.abort()
        if then == "stall":
            await asyncio.sleep(30)
        return response

    return answer


def listed(*items: dict[str, Any], version: str = "100", proceed: str = "") -> Callable[[web.Request], Any]:
    """An answer: a list, or a page of one with a continue token."""
    metadata = {"resourceVersion": version} | ({"continue": proceed} if proceed else {})
    return ok({"kind": "List", "metadata": metadata, "items": list(items)})


def thing(name: str, version: int, uid: str = "", namespace: str = "ns", **more: Any) -> dict[str, Any]:
    """An object with the metadata that matters here; `more` are further fields of its metadata."""
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    return {"metadata": metadata | {"resourceVersion": str(version)} | more}


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    """One event of a watch."""
    return {"type": kind, "object": body}


def credentials(
    server: str, authorization: str = "", *, proxy: str | None = None, changes: bool = False
) -> Login:
    """Credentials for a plain HTTP server."""
    scheme, _, token = authorization.partition(" ")
    info = kopf.ConnectionInfo(
        server=server,
        default_namespace="default",
        scheme=scheme or None,
        token=token or None,
        proxy_url=proxy,
    )
    return Login(info, changes=changes)
