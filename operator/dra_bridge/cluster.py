"""The side of the cluster: the node and its slices as the API server has them, and the writes that change slices.

A kubelet deletes the slices of its node when it starts; the watch tells, and they are written again.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from dra_bridge.slices import SlicePlan
from dra_operator.api.kinds import KINDS
from dra_operator.api.names import BRIDGE_ANNOTATION
from dra_operator.cluster.discovery import Served, served
from dra_operator.cluster.events import EventRecorder, Subject
from dra_operator.cluster.reflector import Delta, Reflector
from dra_operator.cluster.session import ApiError, ApiSession

COMPONENT: Final = "dra-bridge"
EVENT_UNBRIDGED: Final = "NotBridged"
"""Something that a plugin has answered does not reach the containers of the claim."""
EVENT_OFFERED: Final = "DevicesOfDeviceManager"
"""The kubelet's device manager offers devices that the bridge serves, so that no claim gets them."""


class UnsupportedClusterError(Exception):
    """The API server does not serve what the bridge writes."""


class TaintsDroppedError(Exception):
    """The API server stores devices without their taints."""


class NodeView:
    """A node and the slices that name it, kept up to date while `run` runs; `changed` is called at each change."""

    def __init__(self, session: ApiSession, node: str, changed: Callable[[], None]) -> None:
        self.node: dict[str, Any] | None = None
        self.drops_taints = False
        """Whether the API server is known to store devices without their taints."""
        self._keeps_taints = False
        self._session = session
        self._name = node
        self._changed = changed
        self._slices: dict[str, dict[str, Any]] = {}
        self._reflectors: dict[str, Reflector] = {}
        self._events = EventRecorder(session, component=COMPONENT)

    @property
    def is_synced(self) -> bool:
        """Whether the node is there and its slices are known."""
        return (
            self.node is not None
            and bool(self._reflectors)
            and all(each.synced.is_set() for each in self._reflectors.values())
        )

    async def run(self) -> None:
        """List and watch until cancelled. Raises ApiError, ApiUnreachable, UnsupportedClusterError at its begin."""
        fields = {"Node": f"metadata.name={self._name}", "ResourceSlice": f"spec.nodeName={self._name}"}
        found = await served(self._session, {kind: KINDS[kind] for kind in fields})
        if "ResourceSlice" not in found or found["ResourceSlice"].version != "v1":
            raise UnsupportedClusterError(
                "the API server does not serve ResourceSlices of resource.k8s.io/v1"
            )
        self._reflectors = {
            kind: Reflector(self._session, found[kind], self._deliver, fields=selector)
            for kind, selector in fields.items()
        }
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run())

    def slices(self, driver: str) -> list[dict[str, Any]]:
        """Return the stored slices of a driver that are the bridge's."""
        return [
            each for each in self._slices.values() if each["spec"]["driver"] == driver and _resource(each)
        ]

    def bridged(self) -> dict[str, str]:
        """Return the drivers by resource that the stored slices of the bridge name."""
        return {
            resource: each["spec"]["driver"]
            for each in self._slices.values()
            if (resource := _resource(each))
        }

    def foreign_drivers(self) -> frozenset[str]:
        """Return the drivers whose slices are not the bridge's."""
        return frozenset(each["spec"]["driver"] for each in self._slices.values() if not _resource(each))

    async def get_claim(self, namespace: str, name: str) -> dict[str, Any]:
        """Return a claim. Raises ApiError, ApiUnreachable."""
        path = Served(KINDS["ResourceClaim"], "v1").path(namespace, name)
        return await self._session.request("GET", path, timeout=10)

    async def write(self, plan: SlicePlan) -> None:
        """Do the writes of a plan.

        Raises ApiError, ApiUnreachable at the first that fails, and TaintsDroppedError before the first one whose
        taints would not be stored.
        """
        kind = Served(KINDS["ResourceSlice"], "v1")
        for each in plan.create:
            await self._store("POST", kind.path(), each)
        for each in plan.update:
            await self._store("PUT", kind.path(name=each["metadata"]["name"]), each)
        for name in plan.delete:
            try:
                await self._session.request("DELETE", kind.path(name=name), timeout=10)
            except ApiError as error:
                if error.status != 404:
                    raise
            self._slices.pop(name, None)

    async def _store(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        if _has_taints(body) and not self._keeps_taints:
            dry = {"dryRun": "All"}
            answer = await self._session.request(method, path, params=dry, body=body, timeout=10)
            self._keeps_taints = _has_taints(answer)
            if not self._keeps_taints:
                self.drops_taints = True
                raise TaintsDroppedError(
                    "the API server drops the taints of devices, so that those which need one are left out: switch"
                    " on its feature gate DRADeviceTaints, off by default before Kubernetes 1.36, and restart the agent"
                )
        answer = await self._session.request(method, path, body=body, timeout=10)
        self._reflectors["ResourceSlice"].observe(answer)

    def warn(self, subject: Subject, reason: str, message: str) -> None:
        """Record a Warning."""
        self._events.record(subject, "Warning", reason, message)

    def _deliver(self, delta: Delta) -> None:
        if delta.kind == "Node":
            self.node = delta.body
        elif delta.body is None:
            self._slices.pop(delta.name, None)
        else:
            self._slices[delta.name] = delta.body
        self._changed()


def _has_taints(stored: Mapping[str, Any]) -> bool:
    return any(each.get("taints") for each in stored["spec"].get("devices") or ())


def _resource(stored: dict[str, Any]) -> str:
    annotations: dict[str, str] = stored["metadata"].get("annotations") or {}
    return annotations.get(BRIDGE_ANNOTATION, "")
