"""A device plugin: it registers at a socket, lists devices that change, and allocates them."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from dra_bridge.protocols import deviceplugin_pb2 as pb
from dra_bridge.protocols import deviceplugin_pb2_grpc as services


@dataclass
class Listed:
    """What a plugin says of a device."""

    healthy: bool = True
    numa: tuple[int, ...] = ()


@dataclass
class Behaviour:
    """How a plugin answers: a failure, so many answers for one container, and how long Allocate takes."""

    failure: str = ""
    answers: int = 1
    seconds: float = 0.0
    pre_start: bool = False
    annotations: dict[str, str] = field(default_factory=dict)
    envs: dict[str, str] = field(default_factory=dict)
    cdi_devices: bool = False
    paths: dict[str, str] = field(default_factory=dict)
    """More device nodes: paths in the container by paths of the host."""


class DevicePlugin(services.DevicePluginServicer):
    """A plugin of a resource; `folder` is where it finds a `kubelet.sock` and puts its own socket."""

    def __init__(self, folder: Path, resource: str, devices: dict[str, Listed]) -> None:
        self.resource = resource
        self.devices = devices
        self.allocated: list[list[str]] = []
        self.started: list[list[str]] = []
        self.asked = 0
        """How often Allocate was called."""
        self.lists = 0
        """How many lists were asked for, or sent after a change."""
        self.behaviour = Behaviour()
        self.duplicates: tuple[str, ...] = ()
        self._folder = folder
        self._changed = threading.Condition()
        self._generation = 0
        self._ended = threading.Event()
        self._server: grpc.Server | None = None

    def start(self, endpoint: str = "", version: str = "v1beta1") -> None:
        """Listen, and register; raise `grpc.RpcError` if that is refused."""
        endpoint = endpoint or f"plugin-{time.monotonic_ns()}.sock"
        self._ended.clear()
        self._server = grpc.server(ThreadPoolExecutor(16))
        services.add_DevicePluginServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self._folder / endpoint}")
        self._server.start()
        register(self._folder, self.resource, endpoint, version)

    def move(self, folder: Path) -> None:
        """Register in another folder from the next start on."""
        self._folder = folder

    def stop(self) -> None:
        """End, and leave no socket."""
        if self._server is not None:
            self._ended.set()
            with self._changed:
                self._changed.notify_all()
            self._server.stop(0).wait()
            self._server = None

    def change(self) -> None:
        """List the devices anew."""
        with self._changed:
            self._generation += 1
            self._changed.notify_all()

    def GetDevicePluginOptions(self, request, context):
        return pb.DevicePluginOptions(pre_start_required=self.behaviour.pre_start)

    def ListAndWatch(self, request, context):
        while not self._ended.is_set() and context.is_active():
            generation = self._generation
            answer = pb.ListAndWatchResponse()
            for name in [*list(self.devices), *self.duplicates]:
                listed = self.devices[name]
                device = answer.devices.add(ID=name, health="Healthy" if listed.healthy else "Unhealthy")
                device.topology.nodes.extend(pb.NUMANode(ID=each) for each in listed.numa)
            self.lists += 1
            yield answer
            with self._changed:
                self._changed.wait_for(
                    lambda seen=generation: self._generation != seen or self._ended.is_set(), timeout=60
                )

    def Allocate(self, request, context):
        behaviour = self.behaviour
        self.asked += 1
        if behaviour.seconds:
            self._ended.wait(behaviour.seconds)
        if behaviour.failure:
            context.abort(grpc.StatusCode.UNKNOWN, behaviour.failure)
        answer = pb.AllocateResponse()
        for wanted in request.container_requests:
            ids = [*wanted.devices_ids]
            if not set(ids) <= set(self.devices):
                context.abort(grpc.StatusCode.UNKNOWN, f"unknown devices: {ids}")
            self.allocated.append(ids)
            for _ in range(self.behaviour.answers):
                self._answer(ids, answer.container_responses.add())
        return answer

    def _answer(self, ids, one) -> None:
        one.envs["PLUGIN_DEVICES"] = ",".join(ids)
        one.envs.update(self.behaviour.envs)
        one.annotations.update(self.behaviour.annotations)
        for host, inside in self.behaviour.paths.items():
            one.devices.add(container_path=inside, host_path=host, permissions="rw")
        for each in ids:
            one.devices.add(container_path=f"/dev/{each}", host_path="/dev/zero", permissions="rw")
            one.mounts.add(container_path=f"/etc/{each}", host_path="/etc/hostname", read_only=True)
            if self.behaviour.cdi_devices:
                one.cdi_devices.add(name=f"example.com/plugin={each}")

    def PreStartContainer(self, request, context):
        self.started.append([*request.devices_ids])
        return pb.PreStartContainerResponse()


def register(folder: Path, resource: str, endpoint: str, version: str = "v1beta1") -> None:
    """Register a plugin; raise `grpc.RpcError` if that is refused."""
    with grpc.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
        request = pb.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource)
        services.RegistrationStub(channel).Register(request, timeout=10)
