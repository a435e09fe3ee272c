"""The side of the plugins: a `kubelet.sock` where they register, and a client of each.

Source: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1, and the kubelet's pkg/kubelet/cm/devicemanager/plugin/v1beta1.
"""

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import grpc
import structlog

from dra_bridge.cdi import Answer, read_answer, remove
from dra_bridge.device_manager import CHANNEL
from dra_bridge.devices import PluginDevice, problem_of_resource, read_devices
from dra_bridge.protocols import deviceplugin_pb2 as pb
from dra_bridge.protocols import deviceplugin_pb2_grpc as services
from dra_bridge.resources import PluginError

log = structlog.get_logger("dra_bridge")

VERSION: Final = "v1beta1"
KUBELET_SOCKET: Final = "kubelet.sock"
OPTIONS_SECONDS: Final = 10.0
ALLOCATE_SECONDS: Final = 30.0
"""The kubelet waits 45 seconds for a claim to be prepared; the reason must reach the pod before that."""
RETRY_SECONDS: Final = (0.1, 0.5, 1.0, 5.0)
_PATH_BYTES: Final = 107
"""The longest path of a socket. Source: unix(7), sun_path."""
_ENDPOINT: Final = re.compile(r"[\w.-]+", re.ASCII)
# Sockets of plugins with the same path are not the same plugin.
_CHANNEL: Final = (*CHANNEL, ("grpc.use_local_subchannel_pool", 1))

Listed = Callable[["PluginClient", tuple[PluginDevice, ...]], None]
Lost = Callable[["PluginClient"], None]


class PluginClient:
    """A plugin that has registered. `listed` is told of its devices, `lost` that it is gone."""

    def __init__(self, resource: str, socket: Path, options: Any, *, listed: Listed, lost: Lost) -> None:
        self.resource = resource
        self._socket = socket
        self._options = options
        self._listed = listed
        self._lost = lost
        self._problems: tuple[str, ...] = ()
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=_CHANNEL)
        self._stub = services.DevicePluginStub(self._channel)

    async def run(self) -> None:
        """Follow the plugin's list until cancelled, or until its socket is gone."""
        attempt = 0
        made = _made(self._socket)
        try:
            while True:
                try:
                    await self._follow()
                    why = "it ended ListAndWatch"
                except grpc.aio.AioRpcError as error:
                    why = _said(error)
                self._lost(self)
                log.warning("plugin lost", resource=self.resource, socket=self._socket.name, why=why)
                before, made = made, _made(self._socket)
                if (before and made != before) or (attempt and not made):
                    # Whoever makes a new one registers again, maybe another resource.
                    return
                await asyncio.sleep(RETRY_SECONDS[min(attempt, len(RETRY_SECONDS) - 1)])
                attempt += 1
        finally:
            self._lost(self)
            await self._channel.close()

    async def _follow(self) -> None:
        try:
            options = await self._stub.GetDevicePluginOptions(
                pb.Empty(), timeout=OPTIONS_SECONDS, wait_for_ready=True
            )
        except grpc.aio.AioRpcError as error:
            log.warning("plugin has no options", resource=self.resource, why=_said(error))
        else:
            if options is not None:
                self._options = options
        async for message in self._stub.ListAndWatch(pb.Empty()):
            # What cannot be parsed is None.
            devices, problems = (
                read_devices(message.devices) if message is not None else ((), ("a list that is none",))
            )
            if problems and problems != self._problems:
                log.warning(
                    "devices left out", resource=self.resource, number=len(problems), problems=problems[:10]
                )
            self._problems = problems
            if message is not None:
                self._listed(self, devices)

    async def allocate(self, ids: list[str]) -> Answer:
        """Return what Allocate answers for these devices. Raises PluginError, UnusableAnswerError."""
        request = pb.AllocateRequest(container_requests=[pb.ContainerAllocateRequest(devices_ids=ids)])
        answer = await self._call("Allocate", self._stub.Allocate, request)
        if len(answer.container_responses) != 1:
            raise PluginError(
                f"the plugin of {self.resource} answered Allocate for one container with"
                f" {len(answer.container_responses)} answers"
            )
        return read_answer(answer.container_responses[0])

    async def pre_start(self, ids: list[str]) -> None:
        """Call PreStartContainer if the plugin wants that. Raises PluginError."""
        if self._options.pre_start_required:
            request = pb.PreStartContainerRequest(devices_ids=ids)
            await self._call("PreStartContainer", self._stub.PreStartContainer, request)

    async def _call(self, name: str, method: Any, request: Any) -> Any:
        failed = f"the plugin of {self.resource} failed in {name}"
        try:
            answer = await method(request, timeout=ALLOCATE_SECONDS)
        except grpc.aio.AioRpcError as error:
            why = _said(error)
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                why = f"no answer within {ALLOCATE_SECONDS:g} s"
            raise PluginError(f"{failed}: {why}") from error
        except (grpc.aio.UsageError, asyncio.CancelledError) as error:
            # A channel that is closed ends its calls so: the plugin is gone, or another one has its place.
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise
            raise PluginError(f"{failed}: it has gone meanwhile") from error
        if answer is None:
            raise PluginError(f"{failed}: its answer cannot be parsed")
        return answer


class PluginServer(services.RegistrationServicer):  # type: ignore[misc]
    """The `kubelet.sock` of plugins in a folder of the agent's own.

    Whoever has registered a resource before is given up.
    """

    def __init__(self, folder: Path, *, listed: Listed, lost: Lost) -> None:
        self._folder = folder
        self._listed = listed
        self._lost = lost
        self._clients: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """The endpoint of each resource, and who follows it."""
        self._server = grpc.aio.server()
        services.add_RegistrationServicer_to_server(self, self._server)

    async def start(self) -> None:
        """Empty the folder and listen: plugins register again when the socket is made anew. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for path in self._folder.iterdir():
            # A folder is what a container runtime makes where the socket was to be mounted.
            remove(path)
        self._server.add_insecure_port(f"unix:{self._folder / KUBELET_SOCKET}")
        await self._server.start()

    async def stop(self) -> None:
        """Stop listening, and following plugins."""
        await self._server.stop(0)
        tasks = [task for _, task in self._clients.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def Register(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        """Take a plugin in, or say why not."""
        resource, endpoint = request.resource_name, request.endpoint
        problem = problem_of_resource(resource)
        if request.version != VERSION:
            problem = f"version {request.version!r} is not supported, but {VERSION}"
        elif not problem and (not _ENDPOINT.fullmatch(endpoint) or endpoint in (".", "..", KUBELET_SOCKET)):
            problem = f"endpoint {endpoint!r} is no name of a socket in this folder"
        elif not problem and (over := len(os.fsencode(self._folder / endpoint)) - _PATH_BYTES) > 0:
            problem = f"endpoint {endpoint!r} is {over} characters too long for a socket in {self._folder}"
        if problem:
            log.warning("plugin refused", resource=resource[:300], why=problem[:500])
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, problem[:500])
        log.info("plugin registered", resource=resource, socket=endpoint)
        client = PluginClient(
            resource, self._folder / endpoint, request.options, listed=self._listed, lost=self._lost
        )
        # Behind one socket is one plugin, and what it lists is the resource that it has named last.
        for other, (used, task) in [*self._clients.items()]:
            if other == resource or used == endpoint:
                task.cancel()
                del self._clients[other]
        self._clients[resource] = endpoint, asyncio.create_task(client.run())
        return pb.Empty()


def _made(socket: Path) -> tuple[int, int] | None:
    """Return what tells a socket from one that is made anew at its path; None if there is none."""
    try:
        status = socket.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _said(error: grpc.aio.AioRpcError) -> str:
    return f"{error.code().name} {error.details()}"
