"""The bridge's agent on a node, and which devices of plugins the node's containers have at every moment."""

import json
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from controlplane.node.cluster_node import ClusterNode
from controlplane.processes import Process

_BUNDLES = "run/state/io.containerd.runtime.v2.task/k8s.io/*/config.json"
_OF_SAMPLE = re.compile(r"/\w+/(Dev-\d+)")
_OF_PLUGIN = "PLUGIN_DEVICES="


class BridgeAgent:
    """The agent as a process of this machine: what it uses of the node are folders."""

    def __init__(self, node: ClusterNode, kubeconfig: Path, logs: Path) -> None:
        self.node = node
        self.plugins = node.folder / "kubelet" / "plugins" / "dra-bridge" / "device-plugins"
        self._kubeconfig = kubeconfig
        self._logs = logs
        self._process: Process | None = None

    def start(self) -> None:
        """Start it; return when plugins can register."""
        socket = self.plugins / "kubelet.sock"
        socket.unlink(missing_ok=True)
        flags = {
            "--node": self.node.name,
            "--kubelet": self.node.folder / "kubelet",
            "--cdi": self.node.folder / "cdi",
            "--listen": "127.0.0.1:0",
            "--kubeconfig": self._kubeconfig,
        }
        command = [sys.executable, "-m", "dra_bridge", "run"]
        command += [str(part) for pair in flags.items() for part in pair]
        self._process = Process("bridge", command, log=self._logs / "bridge.log", env=dict(os.environ))
        self._process.wait_until(socket.exists)

    def kill(self) -> None:
        """End it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def log(self) -> str:
        """Return the end of what it has logged."""
        return self._process.log_text()[-4000:] if self._process else "no agent"

    def cdi_files(self) -> list[str]:
        """Return the names of its CDI files."""
        return sorted(path.name for path in (self.node.folder / "cdi").glob("dra-bridge-*"))


class ContainerDevices:
    """Looks again and again, in a `with` block, at what runc got; `twice` is what two containers had at one moment."""

    def __init__(self, node: ClusterNode) -> None:
        self.twice: set[str] = set()
        self.looks = 0
        self._folder = node.folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def by_container(self) -> dict[str, list[str]]:
        """Return the IDs that each container has, by the container's ID."""
        found = {}
        for path in self._folder.glob(_BUNDLES):
            try:
                found[path.parent.name] = [*_devices(json.loads(path.read_text()))]
            except (FileNotFoundError, json.JSONDecodeError):
                continue
        return found

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            had: dict[str, str] = {}
            for container, ids in self.by_container().items():
                self.twice |= {each for each in ids if had.setdefault(each, container) != container}
            self.looks += 1


def _devices(specification: dict[str, Any]) -> Iterator[str]:
    for mount in specification.get("mounts") or ():
        if found := _OF_SAMPLE.fullmatch(mount["destination"]):
            yield found[1]
    for variable in specification["process"].get("env") or ():
        if variable.startswith(_OF_PLUGIN):
            yield from variable.removeprefix(_OF_PLUGIN).split(",")
