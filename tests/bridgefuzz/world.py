"""A node with the bridge: the agent as a process, a fake kubelet, plugins, and the in-memory API server in a thread."""

import asyncio
import json
import shutil
import socket
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

from bridgefuzz.killed import start_agent
from bridgefuzz.kubelet import FakeKubelet
from bridgefuzz.plugin import DevicePlugin, Listed
from dra_operator.testing.server import ApiServer
from factories import manifest

NODE = "node-1"
RESOURCE = "vendor.com/foo"
DRIVER = "foo.vendor.com"


class BridgeWorld:
    """Use it in a `with` block; `start_agent` starts the agent."""

    def __init__(self) -> None:
        # Paths of sockets have at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="bridge-", dir="/tmp"))
        self.cdi = self.folder / "cdi"
        self.cdi.mkdir()
        self.agent: BaseProcess | None = None
        self.port = 0
        self._plugins: list[DevicePlugin] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.api = self.call(self._start_server())
        self.kubelet = FakeKubelet(self.folder / "kubelet")
        self.put_node({})
        (self.folder / "kubeconfig").write_text(self.api.kubeconfig())
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_agent()
        for plugin in self._plugins:
            plugin.stop()
        self.kubelet.stop()
        self.call(self.api.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        shutil.rmtree(self.folder)

    async def _start_server(self) -> ApiServer:
        server = ApiServer()
        await server.start()
        return server

    def call(self, coroutine: Any) -> Any:
        """Run a coroutine beside the API server."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    def on_server(self, action: Callable[[ApiServer], Any]) -> Any:
        """Do something with the API server, in its thread."""

        async def act() -> Any:
            return action(self.api)

        return self.call(act())

    @property
    def plugins_folder(self) -> Path:
        """The folder that plugins are given."""
        return self.kubelet.folder / "plugins" / "dra-bridge" / "device-plugins"

    def put_node(self, allocatable: Mapping[str, str]) -> None:
        """Put the node, with what the device manager offers."""
        body = manifest("Node", NODE, status={"allocatable": dict(allocatable)}, uid="node-uid")
        self.on_server(lambda server: server.put(body))

    def start_agent(self, *, killed_at: int = 0) -> None:
        """Start the agent; it ends without warning at so many changes of files."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        options = {
            "--node": NODE,
            "--kubelet": self.kubelet.folder,
            "--cdi": self.cdi,
            "--listen": f"127.0.0.1:{self.port}",
            "--kubeconfig": self.folder / "kubeconfig",
        }
        flags = [str(part) for pair in options.items() for part in pair]
        self.agent = start_agent(["run", *flags], self.folder, self.folder / "agent.log", killed_at=killed_at)

    def kill_agent(self) -> None:
        """End the agent without warning."""
        if self.agent is not None:
            self.agent.kill()
            self.agent.join(30)
            self.agent = None

    def is_ready(self) -> bool:
        """Return whether the agent says that it is ready."""
        return self.get("/readyz") == "ok\n"

    def get(self, path: str) -> str:
        """Return what the agent answers at a path; nothing if it does not."""
        try:
            with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except (URLError, OSError):
            return ""

    def wait_ready(self) -> None:
        """Wait until the agent is ready."""
        self.wait_for(self.is_ready, "the agent to be ready")

    def plugin(self, devices: Mapping[str, Listed], resource: str = RESOURCE) -> DevicePlugin:
        """Return a plugin, which is not started."""
        plugin = DevicePlugin(self.plugins_folder, resource, dict(devices))
        self._plugins.append(plugin)
        return plugin

    def slices(self, driver: str = DRIVER) -> list[dict[str, Any]]:
        """Return the slices of a driver."""
        found = self.on_server(lambda server: server.list("ResourceSlice"))
        return [each for each in found if each["spec"]["driver"] == driver]

    def devices(self, driver: str = DRIVER) -> dict[str, dict[str, Any]]:
        """Return the devices of a driver's pool by name; none while the pool is not complete."""
        found = self.slices(driver)
        pools = [each["spec"]["pool"] for each in found]
        if {pool["generation"] for pool in pools} != {pools[0]["generation"]} if pools else False:
            return {}
        if pools and pools[0]["resourceSliceCount"] != len(pools):
            return {}
        return {device["name"]: device for each in found for device in each["spec"].get("devices") or ()}

    def taints(self, driver: str = DRIVER) -> dict[str, set[tuple[str, str]]]:
        """Return the taints of a driver's devices."""
        return {
            name: {(taint["key"].partition("/")[2], taint["value"]) for taint in each.get("taints") or ()}
            for name, each in self.devices(driver).items()
        }

    def put_claim(
        self,
        name: str,
        devices: Sequence[str] | Mapping[str, Sequence[str]],
        driver: str = DRIVER,
        **more: Any,
    ) -> dict[str, Any]:
        """Put a claim that has devices, of one request or by request, and return it."""
        requests = devices if isinstance(devices, Mapping) else {"devices": devices}
        results = [
            {"request": request, "driver": driver, "pool": NODE, "device": device, **more}
            for request, names in requests.items()
            for device in names
        ]
        specified = [{"name": each, "exactly": {"deviceClassName": driver}} for each in requests]
        body = manifest(
            "ResourceClaim",
            name,
            {"devices": {"requests": specified}},
            status={"allocation": {"devices": {"results": results}}},
            namespace="default",
            uid=str(uuid.uuid4()),
        )
        self.on_server(lambda server: server.put(body))
        found: dict[str, Any] = self.on_server(lambda server: server.get("ResourceClaim", name, "default"))
        return found

    def remove_slices(self) -> None:
        """Delete all slices, as a kubelet does at its start."""
        for each in self.on_server(lambda server: server.list("ResourceSlice")):
            self.on_server(lambda server, name=each["metadata"]["name"]: server.remove("ResourceSlice", name))

    def cdi_files(self) -> dict[str, dict[str, Any]]:
        """Return the files of the CDI folder, whole or not."""
        return {path.name: json.loads(path.read_text() or "{}") for path in self.cdi.iterdir()}

    def wait_for(self, condition: Callable[[], Any], what: str, seconds: float = 120) -> Any:
        """Wait for a condition, and return what it says; say what the agent has logged if it does not come."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {seconds:g} s for {what}\n{self.log()[-3000:]}")
            time.sleep(0.02)
        return found

    def log(self) -> str:
        """Return what the agents have logged."""
        path = self.folder / "agent.log"
        return path.read_text() if path.exists() else ""

    def events(self) -> list[dict[str, Any]]:
        """Return the Events that there are."""
        found: list[dict[str, Any]] = self.on_server(lambda server: server.list("Event"))
        return found
