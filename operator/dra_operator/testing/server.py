"""The API server: its parts put together, its life, and a way in for tests that need no HTTP.

It listens on loopback, speaks plain HTTP and believes everybody: it is for demos, tests and scale runs on one machine.

    async with ApiServer() as server:
        print(server.url, server.kubeconfig())
"""

import asyncio
import secrets
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

import yaml
from aiohttp import web

from dra_operator.api.names import RANDOM_LETTERS
from dra_operator.testing.errors import Interceptor
from dra_operator.testing.handler import Handler
from dra_operator.testing.lists import Lists
from dra_operator.testing.registry import Registry, Target
from dra_operator.testing.resources import RESOURCES, Resource
from dra_operator.testing.store import Store, wire_body

_HOST = "127.0.0.1"
_START_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What kind of API server to be.

    `resources` are the kinds and their versions; `history` is how many changes a kind
    remembers at least; `bookmark_seconds` is how far bookmarks are apart; `checks_admin_access` says whether the
    namespace's label counts.
    """

    resources: tuple[Resource, ...] = RESOURCES
    history: int = 16_384
    bookmark_seconds: float = 60.0
    checks_admin_access: bool = True


def _utc_now() -> datetime:
    return datetime.now(UTC)


class ApiServer:
    """An API server in memory. `port` 0 takes a free one, which it keeps; `url` says which, once started."""

    def __init__(
        self,
        port: int = 0,
        options: ServerOptions = ServerOptions(),
        interceptor: Interceptor | None = None,
    ) -> None:
        self.options = options
        self.store = Store(history=options.history)
        self.registry = Registry(
            self.store,
            clock=_utc_now,
            new_uid=lambda: str(uuid.uuid4()),
            new_suffix=lambda length: "".join(secrets.choice(RANDOM_LETTERS) for _ in range(length)),
            checks_admin_access=options.checks_admin_access,
        )
        self.lists = Lists(self.store, time.monotonic)
        self._handler = Handler(
            self.registry,
            self.lists,
            interceptor or Interceptor(),
            options.resources,
            options.bookmark_seconds,
        )
        self._port = port
        self._runner: web.ServerRunner | None = None
        for name in _START_NAMESPACES:
            self.put({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}})

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen."""
        self._handler.stopping = False
        server = web.Server(self._handler.handle, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, _HOST, self._port, backlog=1024, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """End all watches and stop listening. What is stored stays; `start` goes on with it, on the same port."""
        self._handler.stopping = True
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
    def version(self) -> str:
        """What it says that its version is. It answers as 1.37 does all the same."""
        return self._handler.version

    @version.setter
    def version(self, version: str) -> None:
        self._handler.version = version

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://{_HOST}:{self._port}"

    @property
    def requests(self) -> Counter[str]:
        """How many requests there were so far, by verb and kind, such as `patch ResourceClaim/status`."""
        return self._handler.requests

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
        for resource in self.options.resources:
            if resource.kind == kind:
                return resource
        raise ValueError(f"{kind} is not served here")

    def _target_of(self, body: Mapping[str, Any]) -> Target:
        group, _, version = str(body["apiVersion"]).rpartition("/")
        for resource in self.options.resources:
            if resource.kind == body["kind"] and resource.group == group and version in resource.versions:
                metadata = body["metadata"]
                namespace = metadata.get("namespace", "default") if resource.namespaced else ""
                return Target(resource, version, namespace, metadata["name"])
        raise ValueError(f"{body['kind']} of {body['apiVersion']} is not served here")
