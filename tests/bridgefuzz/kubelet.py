"""The sockets of a kubelet: it registers drivers, prepares claims by them, and says what is held."""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from dra_bridge.protocols import dra_pb2 as dra
from dra_bridge.protocols import dra_pb2_grpc as dra_services
from dra_bridge.protocols import health_pb2 as health
from dra_bridge.protocols import health_pb2_grpc as health_services
from dra_bridge.protocols import podresources_pb2 as pods
from dra_bridge.protocols import podresources_pb2_grpc as pod_services
from dra_bridge.protocols import registration_pb2 as registration
from dra_bridge.protocols import registration_pb2_grpc as registration_services


class FakeKubelet(pod_services.PodResourcesListerServicer):
    """A kubelet with its folder. `held` is what containers have by its device manager, by resource."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[str, set[str]] = {}
        self.drivers: dict[str, str] = {}
        """The sockets of the registered drivers."""
        self._seen: dict[Path, int] = {}
        self._ended = threading.Event()
        for name in ("plugins", "plugins_registry", "pod-resources"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        self._server: grpc.Server | None = None
        self.start_pod_resources()

    def start_pod_resources(self) -> None:
        """Answer what the device manager has given."""
        self._server = grpc.server(ThreadPoolExecutor(2))
        pod_services.add_PodResourcesListerServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.folder / 'pod-resources' / 'kubelet.sock'}")
        self._server.start()

    def stop_pod_resources(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None

    def stop(self) -> None:
        """End."""
        self._ended.set()
        self._watcher.join()
        self.stop_pod_resources()

    def List(self, request, context):
        answer = pods.ListPodResourcesResponse()
        container = answer.pod_resources.add(name="pod", namespace="default").containers.add(name="main")
        for resource, ids in self.held.items():
            container.devices.add(resource_name=resource, device_ids=sorted(ids))
        return answer

    def prepare(self, driver: str, claim: Mapping[str, Any], seconds: float = 45) -> Any:
        """Prepare a claim as the kubelet does; return the driver's answer. Raises `grpc.RpcError`."""
        with grpc.insecure_channel(f"unix:{self._socket(driver)}") as channel:
            request = dra.NodePrepareResourcesRequest(claims=[_reference(claim)])
            stub = dra_services.DRAPluginStub(channel)
            answer = stub.NodePrepareResources(request, timeout=seconds)
        return answer.claims[claim["metadata"]["uid"]]

    def unprepare(self, driver: str, claim: Mapping[str, Any]) -> str:
        """End the preparation of a claim; return the driver's error. Raises `grpc.RpcError`."""
        with grpc.insecure_channel(f"unix:{self._socket(driver)}") as channel:
            request = dra.NodeUnprepareResourcesRequest(claims=[_reference(claim)])
            answer = dra_services.DRAPluginStub(channel).NodeUnprepareResources(request, timeout=45)
        return answer.claims[claim["metadata"]["uid"]].error

    def health(self, driver: str) -> dict[str, int]:
        """Return the health of a driver's devices, as the stream begins."""
        with grpc.insecure_channel(f"unix:{self._socket(driver)}") as channel:
            stub = health_services.DRAResourceHealthStub(channel)
            stream = stub.NodeWatchResources(health.NodeWatchResourcesRequest(), timeout=10)
            first = next(iter(stream))
            stream.cancel()
        return {each.device.device_name: each.health for each in first.devices}

    def _socket(self, driver: str) -> str:
        deadline = time.monotonic() + 30
        while driver not in self.drivers and time.monotonic() < deadline:
            time.sleep(0.02)
        return self.drivers[driver]

    def _watch(self) -> None:
        while not self._ended.wait(0.02):
            for path in (self.folder / "plugins_registry").glob("*.sock"):
                with suppress(grpc.RpcError, FileNotFoundError):
                    made = path.stat().st_ctime_ns
                    if self._seen.get(path) != made:
                        self._register(path)
                        self._seen[path] = made

    def _register(self, path: Path) -> None:
        with grpc.insecure_channel(f"unix:{path}") as channel:
            stub = registration_services.RegistrationStub(channel)
            info = stub.GetInfo(registration.InfoRequest(), timeout=5)
            assert info.type == "DRAPlugin"
            assert "v1.DRAPlugin" in info.supported_versions
            self.drivers[info.name] = info.endpoint
            stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True), timeout=5)


def _reference(claim: Mapping[str, Any]) -> Any:
    metadata = claim["metadata"]
    return dra.Claim(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])
