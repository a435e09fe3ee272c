"""What the watches of claims and pods show: each event goes to the reader, then to whoever waits for its object."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from live.client import Cluster
from live.objects import API, Body

from coexistence.reader import Reader

CLAIMS = f"{API}/resourceclaims"
PODS = "/api/v1/pods"

Condition = Callable[[Body | None], bool]


class Objects:
    """The objects of one kind as they were last seen, by namespace and name."""

    def __init__(self) -> None:
        self.by_name: dict[str, Body] = {}
        self.last_change = time.monotonic()
        self._waiting: dict[str, list[tuple[Condition, asyncio.Event]]] = defaultdict(list)

    def apply(self, kind: str, body: Body) -> None:
        """Take in one event."""
        self.last_change = time.monotonic()
        key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
        if kind == "DELETED":
            self.by_name.pop(key, None)
        else:
            self.by_name[key] = body
        for condition, met in self._waiting.get(key, ()):
            if condition(self.by_name.get(key)):
                met.set()

    async def wait_for(self, key: str, condition: Condition, seconds: float) -> bool:
        """Return whether the condition comes true of an object in time; one that does not exist is None."""
        if condition(self.by_name.get(key)):
            return True
        entry = condition, asyncio.Event()
        self._waiting[key].append(entry)
        try:
            await asyncio.wait_for(entry[1].wait(), seconds)
        except TimeoutError:
            return False
        finally:
            self._waiting[key].remove(entry)
            if not self._waiting[key]:
                del self._waiting[key]
        return True


class Observer:
    """The claims and pods of the whole cluster."""

    def __init__(self, cluster: Cluster, reader: Reader) -> None:
        self._cluster = cluster
        self.reader = reader
        self.claims = Objects()
        self.pods = Objects()
        self.resumed = 0

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch inside the block; what exists already is taken in before it begins."""
        claims = await self._cluster.send("GET", CLAIMS)
        pods = await self._cluster.send("GET", PODS)
        for body in claims["items"]:
            self._apply_claim("ADDED", body)
        for body in pods["items"]:
            self.pods.apply("ADDED", body)
        watches = asyncio.gather(
            self._follow(CLAIMS, claims, self._apply_claim), self._follow(PODS, pods, self.pods.apply)
        )
        try:
            yield
            if watches.done():
                watches.result()
        finally:
            watches.cancel()
            with suppress(asyncio.CancelledError):
                await watches

    def _apply_claim(self, kind: str, body: Body) -> None:
        self.reader.apply(kind, body)
        self.claims.apply(kind, body)

    async def _follow(self, path: str, listed: Body, apply: Callable[[str, Body], None]) -> None:
        """Apply every event after a list; a watch that the API server ends is resumed at the last one."""
        version = listed["metadata"]["resourceVersion"]
        while True:
            async for event in self._cluster.watch(path, resourceVersion=version):
                if event["type"] == "ERROR":
                    # Events are lost then, and nothing is proved.
                    raise RuntimeError(f"watch {path}: {event['object']}")
                version = event["object"]["metadata"]["resourceVersion"]
                apply(event["type"], event["object"])
            self.resumed += 1

    async def rest(self, quiet: float, seconds: float) -> bool:
        """Return whether no claim changes for `quiet` seconds, within `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() - self.claims.last_change < quiet:
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.2)
        return True
