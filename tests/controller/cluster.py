"""A small cluster for tests: the API server in memory, and the operator's runtime beside it."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import kopf

from dra_operator.api.names import FIELD_MANAGER
from dra_operator.cluster.credentials import Access, Login
from dra_operator.cluster.session import MERGE_PATCH, ApiSession
from dra_operator.controller.manager import Manager
from dra_operator.controller.settings import Settings, Tuning
from factories import manifest
from faulty_server import FaultyServer

V1 = "resource.k8s.io/v1"
CLASS = manifest(
    "DeviceClass", "gpu", {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]}
)
PENDING = "dra-operator.io/pending"
FINALIZER = "resource.kubernetes.io/delete-protection"
TAINT = {"key": "broken", "effect": "NoSchedule"}


def node(name="node-1", **spec):
    """A node that is ready."""
    ready = [{"type": "Ready", "status": "True"}]
    return manifest("Node", name, spec, status={"conditions": ready}, labels={})


def resource_slice(*devices, name="slice-1", on="node-1", pool="pool-1", count=1, generation=1, taints=()):
    """A slice of devices of one node."""
    return manifest(
        "ResourceSlice",
        name,
        {
            "driver": "gpu.example.com",
            "nodeName": on,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            "devices": [{"name": device, "taints": list(taints)} for device in devices],
        },
    )


def claim(name="claim", *, namespace="default", request=None, **metadata):
    """A claim for one device of class gpu."""
    exactly = {"deviceClassName": "gpu", **(request or {})}
    return manifest(
        "ResourceClaim",
        name,
        {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
        namespace=namespace,
        **metadata,
    )


def allocation(device="gpu-0", pool="pool-1"):
    """An allocation of one device, as another allocator would write it."""
    fields = [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": pool, "device": device}
    return {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        "allocationTimestamp": "2026-01-01T00:00:00Z",
    }


def pod(name="pod", *, uses="claim", phase="Running", namespace="default", **spec):
    """A pod that names a claim."""
    return manifest(
        "Pod",
        name,
        {
            "containers": [{"name": "main", "image": "none"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": uses}],
            **spec,
        },
        status={"phase": phase},
        namespace=namespace,
    )


def access_to(url: str) -> Access:
    """Return how to reach an API server without credentials."""
    login = Login(kopf.ConnectionInfo(server=url, default_namespace="dra-operator"))
    return Access(lambda: login)


class Cluster:
    """The API server, what a test does to it, and what it waits for."""

    def __init__(self, server: FaultyServer, session: ApiSession) -> None:
        self.server = server
        self.session = session

    def put(self, *bodies: dict[str, Any]) -> None:
        """Create objects, or replace them."""
        self.server.load(copy.deepcopy(body) for body in bodies)

    def change(
        self, kind: str, name: str, change: Callable[[dict[str, Any]], Any], namespace: str = ""
    ) -> None:
        """Change an object as a test wants it."""
        body = self.server.get(kind, name, namespace)
        assert body is not None
        change(body)
        self.server.put(body)

    async def nominate(self, node: str, name: str = "pod", *, manager: str = FIELD_MANAGER) -> None:
        """Nominate a pod to a node, as an operator or somebody else does."""
        await self.session.request(
            "PATCH",
            f"/api/v1/namespaces/default/pods/{name}/status",
            params={"fieldManager": manager},
            body={"status": {"nominatedNodeName": node}},
            content_type=MERGE_PATCH,
        )

    def claim(self, name: str = "claim", namespace: str = "default") -> dict[str, Any]:
        """Return a claim."""
        found = self.server.get("ResourceClaim", name, namespace)
        assert found is not None, f"there is no claim {name}"
        return found

    def devices(self, name: str = "claim", namespace: str = "default") -> list[str]:
        """Return the names of the devices a claim has; none if it has no allocation or is gone."""
        body = self.server.get("ResourceClaim", name, namespace) or {}
        allocated = (body.get("status") or {}).get("allocation") or {}
        return [result["device"] for result in allocated.get("devices", {}).get("results", [])]

    def annotation(self, name: str = "claim", namespace: str = "default") -> str | None:
        """Return what a claim says about why it waits."""
        body = self.server.get("ResourceClaim", name, namespace) or {}
        return ((body.get("metadata") or {}).get("annotations") or {}).get(PENDING)

    def events(self, name: str, kind: str = "ResourceClaim") -> list[dict[str, Any]]:
        """Return the Events about an object."""
        return [
            event
            for event in self.server.list("Event")
            if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
        ]

    def reasons(self, name: str, kind: str = "ResourceClaim") -> list[str]:
        """Return the reasons of the Events about an object."""
        return [event["reason"] for event in self.events(name, kind)]

    def reserve(self) -> None:
        """Reserve the claim for a pod, as kube-scheduler does."""
        consumer = {"resource": "pods", "name": "pod", "uid": "1"}
        self.change(
            "ResourceClaim", "claim", lambda body: body["status"].update(reservedFor=[consumer]), "default"
        )

    async def delete(self, name: str = "claim", namespace: str = "default") -> None:
        """Delete a claim as kubectl does: its finalizers hold it."""
        await self.session.request("DELETE", f"/apis/{V1}/namespaces/{namespace}/resourceclaims/{name}")

    async def until(self, condition: Callable[[], Any], what: str = "it", seconds: float = 60.0) -> None:
        """Wait until a condition holds, and fail if it does not in time."""
        for _ in range(int(seconds / 0.01)):
            if condition():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{what} did not happen within {seconds} s")

    async def allocated(self, name: str = "claim", namespace: str = "default") -> list[str]:
        """Wait until a claim has devices and return their names."""
        await self.until(lambda: self.devices(name, namespace), f"the allocation of {name}")
        return self.devices(name, namespace)

    async def waits(self, name: str = "claim", namespace: str = "default") -> str:
        """Wait until a claim says why it waits and return that."""
        await self.until(lambda: self.annotation(name, namespace), f"the reason of {name}")
        return self.annotation(name, namespace) or ""

    async def stays(self, condition: Callable[[], Any]) -> None:
        """Check that a condition holds for a while."""
        for _ in range(30):
            assert condition()
            await asyncio.sleep(0.01)


def split(**given: Any) -> tuple[Settings, Tuning]:
    """Return the settings, and the rest that only tests choose."""
    tuned = {field.name: given.pop(field.name) for field in fields(Tuning) if field.name in given}
    return Settings(**given), Tuning(**tuned)


class Operator:
    """The runtime of the operator, started and stopped by tests.

    Those with one identity are one container that is started anew.
    """

    def __init__(self, url: str, identity: str = "operator", **settings: Any) -> None:
        self.crashed = False
        # Few tests are about owned devices; a server in memory has no policy to protect them.
        quick = {"devices": "all", "ownership_settle_seconds": 0, "ownership_quiet_seconds": 0}
        quick |= {"quiet_seconds": 0.005, "latest_seconds": 0.05, "drain_seconds": 2, "lease_seconds": 3}
        own = {"listen": "127.0.0.1:0", "lease_namespace": "default", "identity": identity}
        options, tuning = split(**{**quick, **own, **settings})
        self.manager = Manager(options, access_to(url), on_crash=self._crash, tuning=tuning)

    def _crash(self) -> None:
        self.crashed = True

    async def start(self) -> "Operator":
        """Start and wait for nothing."""
        await self.manager.listen()
        await self.manager.start()
        return self

    async def ready(self) -> "Operator":
        """Wait until it is ready."""
        for _ in range(2000):
            if not self.manager.unready():
                return self
            await asyncio.sleep(0.01)
        raise AssertionError(f"not ready: {self.manager.unready()}")

    async def settled(self) -> None:
        """Wait until what was put so far has been taken in: the watches are quick, and passes short."""
        await asyncio.sleep(0.1)

    async def kill(self) -> None:
        """End it as SIGKILL would: nothing that is under way is finished, nor its Lease given up."""
        self.manager._election._lease = None
        for task in tuple(self.manager._tasks):
            task.cancel()
        writer = self.manager._writers.get("resourceclaims")
        if writer is not None:
            await writer.drain(0)
        await self.manager.close()
