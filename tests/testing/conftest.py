"""A started API server, and a client that sends one request and gives back code, body and headers."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import pytest

from faulty_server import FaultyServer

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back; `body` is JSON where it is JSON."""

    status: int
    body: Any
    headers: Mapping[str, str]


class Api:
    """A client of one server."""

    def __init__(self, server: FaultyServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answer:
        """Send a request; a body that is neither bytes nor a stream is sent as JSON."""
        data = body if body is None or isinstance(body, bytes | io.BytesIO) else json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None:
            sent["Content-Type"] = content_type
        async with self.session.request(method, path, data=data, headers=sent) as response:
            text = await response.text()
            is_json = response.content_type == "application/json" and "\n{" not in text
            return Answer(
                response.status,
                json.loads(text) if is_json and text.strip() else text,
                response.headers.copy(),
            )

    async def get(self, path: str, **headers: str) -> Answer:
        """Read."""
        return await self.send("GET", path, **headers)

    async def create(self, body: Any, path: str = CLAIMS) -> Any:
        """Create an object that must be accepted, and return it."""
        answer = await self.send("POST", path, body)
        assert answer.status == 201, answer
        return answer.body

    async def merge(self, path: str, body: Any) -> Answer:
        """Send a merge-patch."""
        return await self.send("PATCH", path, body, content_type=MERGE)

    def watch(self, path: str = CLAIMS, **parameters: str) -> "WatchClient":
        """Open a watch: `async with api.watch(...) as watch: await watch.next()`."""
        return WatchClient(self.session, path, parameters)


class WatchClient:
    """An open watch."""

    def __init__(self, session: aiohttp.ClientSession, path: str, parameters: Mapping[str, str]) -> None:
        self._request = session.get(path, params={"watch": "true", **parameters})

    async def __aenter__(self) -> Self:
        self._response = await self._request.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._response.close()

    async def next(self, seconds: float = 60.0) -> Any:
        """Return the next event, None at the end of the stream."""
        async with asyncio.timeout(seconds):
            line = await self._response.content.readline()
        return json.loads(line) if line else None

    async def rest(self) -> list[Any]:
        """Return the events up to the end of the stream."""
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


@pytest.fixture
def options() -> dict[str, Any]:
    """Return the options of the server; a test module may replace them."""
    return {}


@pytest.fixture
async def server(options: dict[str, Any]) -> AsyncIterator[FaultyServer]:
    """Return a started server."""
    async with FaultyServer(**options) as server:
        yield server


@pytest.fixture
async def api(server: FaultyServer) -> AsyncIterator[Api]:
    """Return a client of the started server."""
    async with aiohttp.ClientSession(server.url) as session:
        yield Api(server, session)
