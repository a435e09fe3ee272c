"""The API server as the person at kubectl sees it: an admin's client with many requests at once, and a watch.

It runs on the same two cores as what it measures. So it decodes with orjson and keeps of each event only when
it came.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import aiohttp
import orjson

from live.objects import API, Body, allocation_of, device_class, is_told, node, resource_slice

AT_ONCE = 16
"""How many requests this client has on their way at a time."""
MERGE_PATCH = "application/merge-patch+json"

_Subject = TypeVar("_Subject")
_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class Watched:
    """What the watch has shown so far, by name: when first seen allocated, when first seen pending with a reason."""

    allocated: dict[str, float] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, claim: Body, now: float) -> None:
        """Note one watch event."""
        name = claim["metadata"]["name"]
        if allocation_of(claim):
            self.allocated.setdefault(name, now)
        elif is_told(claim):
            self.pending.setdefault(name, now)
        self.changed.set()

    async def until(self, condition: Callable[[], bool], *, seconds: float) -> bool:
        """Wait until the condition holds; return whether it came to hold in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.changed.clear()
            try:
                await asyncio.wait_for(self.changed.wait(), left)
            except TimeoutError:
                return condition()
        return True


class RefusedError(RuntimeError):
    """The API server refused a request."""

    def __init__(self, request: str, status: int, answer: str) -> None:
        super().__init__(f"{request}: {status} {answer}")
        self.status = status


class Cluster:
    """Requests to one API server. Use it with `async with`."""

    def __init__(self, server: str, authority: Path, token: str) -> None:
        self._server = server
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=str(authority)), limit=64),
            headers={"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"},
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def send(
        self, method: str, path: str, body: Body | None = None, content_type: str = "application/json"
    ) -> Body:
        """Send one request and return the answer. Raises RefusedError if the API server refuses."""
        data = None if body is None else orjson.dumps(body)
        headers = {"Content-Type": content_type} if data else {}
        async with self._session.request(method, self._server + path, data=data, headers=headers) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise RefusedError(f"{method} {path}", answer.status, content.decode())
            decoded: Body = orjson.loads(content)
            return decoded

    async def create(self, path: str, body: Body) -> float:
        """Create an object and return the time of the answer."""
        await self.send("POST", path, body)
        return time.monotonic()

    async def create_all(self, path: str, bodies: Sequence[Body]) -> list[float]:
        """Create many objects, in their order, AT_ONCE at a time; return the time of each answer."""
        return await for_each(bodies, partial(self.create, path))

    async def create_fleet(self, nodes: int, devices: int) -> None:
        """Create the class, and so many nodes with so many devices each."""
        names = [f"node-{index:04}" for index in range(nodes)]
        await self.create(f"{API}/deviceclasses", device_class())
        await self.create_all("/api/v1/nodes", [node(name) for name in names])
        await self.create_all(f"{API}/resourceslices", [resource_slice(name, devices) for name in names])

    async def delete(self, path: str) -> None:
        """Delete an object, if it is there."""
        try:
            await self.send("DELETE", path)
        except RefusedError as answer:
            if answer.status != 404:
                raise

    async def list(self, path: str) -> list[Body]:
        """Return the objects of a collection."""
        items: list[Body] = (await self.send("GET", path))["items"]
        return items

    async def delete_all(self, path: str) -> None:
        """Delete a collection."""
        await self.send("DELETE", path)

    async def patch_all(self, collection: str, names: Sequence[str], patch: Body) -> None:
        """Merge-patch many objects alike, AT_ONCE at a time."""
        await for_each(names, lambda name: self.send("PATCH", f"{collection}/{name}", patch, MERGE_PATCH))

    @asynccontextmanager
    async def watching(self, claims: str) -> AsyncIterator[Watched]:
        """Watch a collection of claims inside the block; the watch is open when it begins."""
        watched, opened = Watched(), asyncio.Event()
        task = asyncio.create_task(self._watch(claims, watched, opened))
        try:
            await asyncio.wait_for(opened.wait(), 30)
            yield watched
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def watch(
        self, path: str, opened: asyncio.Event | None = None, **parameters: str
    ) -> AsyncIterator[Body]:
        """Yield the events of a watch until the API server ends it; `opened` is set when it has begun."""
        timeout = aiohttp.ClientTimeout(total=None)
        query = {"watch": "true", **parameters}
        async with self._session.get(self._server + path, params=query, timeout=timeout) as stream:
            stream.raise_for_status()
            if opened is not None:
                opened.set()
            async for line in stream.content:
                yield orjson.loads(line)

    async def _watch(self, claims: str, watched: Watched, opened: asyncio.Event) -> None:
        async for event in self.watch(claims, opened):
            watched.see(event["object"], time.monotonic())


async def for_each(
    subjects: Sequence[_Subject], send: Callable[[_Subject], Awaitable[_Answer]]
) -> list[_Answer]:
    """Send a request about each subject, in their order, AT_ONCE at a time; return the answers."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(subject: _Subject) -> _Answer:
        async with gate:
            return await send(subject)

    return await asyncio.gather(*map(one, subjects))


def claims_path(namespace: str) -> str:
    """Return the path of the claims of a namespace."""
    return f"{API}/namespaces/{namespace}/resourceclaims"
