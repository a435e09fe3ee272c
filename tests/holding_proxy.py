"""A layer-7 proxy that holds requests back: what its clients sent arrives when a test says so, also after their death.

Proxies read a request to its end before they pass it on, and nobody calls it back from there: the client may be gone,
and its patch is stored all the same. This one does so on purpose, for the requests that a test chooses.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp
import orjson
from aiohttp import web

_HOP_BY_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came."""

    method: str
    path_and_query: str
    headers: dict[str, str]
    content: bytes

    @property
    def path(self) -> str:
        """The path alone."""
        return self.path_and_query.partition("?")[0]

    @property
    def body(self) -> Any:
        """The body, decoded; None if there is none."""
        return orjson.loads(self.content) if self.content else None


@dataclass(eq=False, slots=True)
class Held:
    """A request that waits for `let_through`."""

    request: Request
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    answered: asyncio.Future[int] = field(default_factory=asyncio.Future)


class HoldingProxy:
    """Passes everything on to the API server at `upstream`, save what `holds` says of. Use `async with`.

    `context` is for an API server that speaks TLS, and `token` for one that asks who is there: clients speak plain
    HTTP, over which they send no credentials.
    """

    def __init__(self, upstream: str, context: ssl.SSLContext | None = None, token: str = "") -> None:
        self.url = ""
        self.held: list[Held] = []
        """What was held back and not let through yet, oldest first."""
        self.holds: Callable[[Request], bool] = lambda _: False
        """Says which of the requests that come from now on are held back."""
        self._upstream = upstream
        self._context = context
        self._credentials = {"Authorization": f"Bearer {token}"} if token else {}
        self._under_way: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._context if self._context is not None else True)
        self._http = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False
        )
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)
        await self._http.close()
        await self._runner.cleanup()

    async def let_through(self, *held: Held) -> list[int]:
        """Let requests through, all that are held if none is named, and return the codes of their answers."""
        chosen = held or tuple(self.held)
        for one in chosen:
            self.held.remove(one)
            one.gate.set()
        return [await one.answered for one in chosen]

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        headers = {name: value for name, value in incoming.headers.items() if name.lower() not in _HOP_BY_HOP}
        request = Request(incoming.method, incoming.path_qs, headers, await incoming.read())
        if incoming.query.get("watch"):
            return await self._stream(incoming, request)
        held = Held(request) if self.holds(request) else None
        if held is not None:
            self.held.append(held)
        # Not a part of this handler, which ends with its client.
        task = asyncio.create_task(self._pass_on(request, held))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _pass_on(self, request: Request, held: Held | None) -> web.Response:
        if held is not None:
            await held.gate.wait()
        async with self._request(request) as answer:
            content = await answer.read()
        if held is not None:
            held.answered.set_result(answer.status)
        return web.Response(status=answer.status, body=content, headers=_passed_on(answer))

    async def _stream(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        async with self._request(request) as answer:
            response = web.StreamResponse(status=answer.status, headers=_passed_on(answer))
            await response.prepare(incoming)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    def _request(self, request: Request) -> Any:
        return self._http.request(
            request.method,
            f"{self._upstream}{request.path_and_query}",
            headers=request.headers | self._credentials,
            data=request.content or None,
        )


def _passed_on(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
