"""What the kubelet's device manager has given to containers, by its PodResources service.

Source: k8s.io/kubelet/pkg/apis/podresources/v1; the kubelet tells of pods that have not ended.
"""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import grpc

from dra_bridge.protocols import podresources_pb2 as pb
from dra_bridge.protocols import podresources_pb2_grpc as services

POLL_SECONDS: Final = 1.0
"""The service cannot be watched."""
_ANSWER_SECONDS: Final = 5.0
CHANNEL: Final = (
    ("grpc.max_receive_message_length", 16 * 2**20),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.initial_reconnect_backoff_ms", 100),
)
"""The options of a channel to a socket of this node: who has gone may be back at once."""

HeldDevices = Mapping[str, frozenset[str]]
"""The IDs that containers hold, by resource name."""


class UnknownHoldersError(Exception):
    """The kubelet does not say what its device manager has given to containers."""


class DeviceManagerClient:
    """Asks the kubelet at its socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL)
        self._stub = services.PodResourcesListerStub(self._channel)

    async def held(self) -> HeldDevices:
        """Return the IDs that containers hold. Raises UnknownHoldersError."""
        try:
            answer = await self._stub.List(pb.ListPodResourcesRequest(), timeout=_ANSWER_SECONDS)
        except grpc.aio.AioRpcError as error:
            raise UnknownHoldersError(f"{self._socket}: {error.code().name} {error.details()}") from error
        return held_devices(answer)

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


def held_devices(answer: Any) -> HeldDevices:
    """Return the IDs by resource name of an answer of List."""
    found: dict[str, set[str]] = defaultdict(set)
    for pod in answer.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                found[devices.resource_name].update(devices.device_ids)
    return {name: frozenset(ids) for name, ids in found.items()}


def is_offered(node: Mapping[str, Any], resource: str) -> bool:
    """Return whether the node's allocatable of a resource is not 0: then the device manager may give devices away."""
    amount = str(((node.get("status") or {}).get("allocatable") or {}).get(resource, "0"))
    return amount.strip() not in ("", "0")
