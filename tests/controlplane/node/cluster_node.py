"""A node of a cluster on loopback: a kubelet and its container runtime, in namespaces and cgroups of their own.

The first process of the node's pid namespace is killed by the kernel when this process dies, and everything of the node
dies with it.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import yaml

from controlplane.client import Client
from controlplane.node import cgroups
from controlplane.node.configuration import (
    runtime_socket,
    write_containerd_configuration,
    write_kubelet_access,
    write_kubelet_configuration,
)
from controlplane.node.images import write_image
from controlplane.node.machine import NAMESPACES, namespace_flags
from controlplane.node.programs import RuntimePrograms
from controlplane.processes import Process

_HERE = Path(__file__).parent
_FOLDERS = ("programs", "kubelet", "containerd", "run", "cni", "cni-plugins", "cdi", "logs", "tmp")
# Below those that the kernel gives to whoever asks for any port: nobody takes it while a kubelet is restarted.
_PORTS = range(20_000, 32_000)


class ContainerRuntime(Protocol):
    """What runs the containers of a node."""

    def programs(self) -> tuple[Path, ...]:
        """Return the programs that it needs on the node."""

    def start(self, node: "ClusterNode") -> None:
        """Answer at the node's socket from now on."""

    def stop(self) -> None:
        """Stop what is not a process of the node."""


class ClusterNode:
    """A node that joins the cluster of an administrator's kubeconfig with `start`, and leaves it with `stop`."""

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: Path,
        kubelet: Path,
        runtime: ContainerRuntime,
        logs: Path | None = None,
    ) -> None:
        self.name = name
        # Paths of sockets have at most 107 characters.
        self.folder = Path(tempfile.mkdtemp(prefix="dra-node-", dir="/tmp"))
        self._logs = logs or self.folder
        self._runtime = runtime
        # The folders of its programs, which it sees at other places.
        self._programs = list(dict.fromkeys(each.parent for each in (kubelet, *runtime.programs())))
        self._kubeconfig = kubeconfig
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._authority = Path(cluster["certificate-authority"])
        self.client = Client(cluster["server"], user["token"], self._authority)
        self.cgroup = cgroups.cgroup_name(name)
        self._processes: list[Process] = []

    @property
    def path(self) -> str:
        """The path of the Node at the API server."""
        return f"/api/v1/nodes/{self.name}"

    def start(self) -> None:
        """Start everything; return when the Node is Ready."""
        cgroups.remove_abandoned()
        for name in _FOLDERS:
            (self.folder / name).mkdir()
        self._port = _free_port()
        self._namespaces = self._spawn(
            "namespaces",
            "unshare",
            *namespace_flags(),
            "--fork",
            "--kill-child",
            str(_HERE / "init.sh"),
            str(self.folder),
            self.name,
            *map(str, self._programs),
        )
        self._namespaces.wait_until((self.folder / "started").exists)
        cgroups.share_out(self.cgroup)
        (self._init,) = _children(self._namespaces.pid)
        self._runtime.start(self)
        self.start_kubelet()
        self._act_as_cloud()
        self.wait_ready()

    def start_kubelet(self) -> None:
        """Start the kubelet, every time on the same port, and do not wait for it."""
        access = write_kubelet_access(self.folder, self.name, self._kubeconfig)
        config = write_kubelet_configuration(self.folder, authority=self._authority, port=self._port)
        self._kubelet = self.spawn_inside(
            "kubelet",
            f"--config={config}",
            f"--kubeconfig={access}",
            f"--hostname-override={self.name}",
            # Only then the kubelet leaves its address to somebody else: it refuses to be on loopback.
            "--cloud-provider=external",
        )

    def stop_kubelet(self) -> None:
        """End the kubelet; containers go on."""
        (kubelet,) = _children(self._kubelet.pid)
        os.kill(kubelet, signal.SIGTERM)
        self._kubelet.wait(30)
        self._processes.remove(self._kubelet)

    def spawn_inside(self, program: str, *arguments: str) -> Process:
        """Start a program of the kubelet's or the runtime's folder in the node's namespaces."""
        user = ("--user", "--preserve-credentials") if "--user" in namespace_flags() else ()
        target = (f"--target={self._init}", *user, *NAMESPACES)
        return self._spawn(program, "nsenter", *target, "--", program, *arguments)

    def wait_ready(self) -> None:
        """Return when the Node is Ready."""
        self.wait_until(self._is_ready, what="the node to be Ready")

    def wait_until(self, condition: Callable[[], bool], *, what: str, seconds: float = 90) -> None:
        """Return once a condition is true; raise with the end of the logs if a process of the node ends first."""
        deadline = time.monotonic() + seconds
        while not condition():
            for process in self._processes:
                if process.exit_code is not None:
                    raise AssertionError(f"{self.name}: {process.name} has ended:\n{process.log_tail()}")
            if time.monotonic() > deadline:
                tails = "\n".join(f"{each.name}:\n{each.log_tail()}" for each in self._processes)
                raise AssertionError(f"{self.name}: waited {seconds:g} s for {what}\n{tails}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End all that runs on the node and remove its folder; the Node stays in the cluster, as with a power cut."""
        if self._processes:
            # The first process of the pid namespace dies with this one, and with it whatever runs there.
            self._namespaces.kill()
            for process in self._processes:
                process.wait(30)
            cgroups.remove(self.cgroup, seconds=60)
        self._runtime.stop()
        shutil.rmtree(self.folder)

    def _act_as_cloud(self) -> None:
        """Say where the node is, as a cloud's controller does, and open it for pods."""
        self.wait_until(
            lambda: self.client.request("GET", self.path).status == 200, what="the node to register"
        )
        # Without a name of its own, which the API server would look up.
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        self.client.patch(f"{self.path}/status", {"status": {"addresses": addresses}})
        self.client.patch(self.path, {"spec": {"taints": None}})

    def _path(self) -> list[str]:
        return [str(self.folder / "programs" / str(number)) for number in range(len(self._programs))]

    def _is_ready(self) -> bool:
        conditions = self.client.get(self.path)["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _spawn(self, name: str, *command: str) -> Process:
        process = Process(
            name,
            [sys.executable, "-I", "-S", str(_HERE / "cgroups.py"), self.cgroup, *command],
            log=self._logs / f"{self.name}-{name}.log",
            env={
                "PATH": ":".join((*self._path(), "/usr/sbin", "/usr/bin", "/sbin", "/bin")),
                "HOME": str(self.folder),
                "TMPDIR": str(self.folder / "tmp"),
            },
        )
        self._processes.append(process)
        return process


@contextmanager
def running_node(
    name: str, *, kubeconfig: Path, kubelet: Path, runtime: ContainerRuntime, logs: Path | None = None
) -> Iterator[ClusterNode]:
    """Run a node inside the `with` block; afterwards it is gone from the cluster, too."""
    node = ClusterNode(name, kubeconfig=kubeconfig, kubelet=kubelet, runtime=runtime, logs=logs)
    try:
        node.start()
        yield node
    finally:
        node.stop()
        node.client.delete(node.path)


class Containerd:
    """Real containers."""

    def __init__(self, programs: RuntimePrograms) -> None:
        self._programs = programs

    def programs(self) -> tuple[Path, ...]:
        """Return containerd, its shim, runc and what starts runc."""
        found = self._programs
        return (found.containerd, found.shim, found.runc, found.unconfined)

    def start(self, node: ClusterNode) -> None:
        """Start containerd on the node and bring it the image of the tests."""
        config = write_containerd_configuration(node.folder)
        node.spawn_inside("containerd", f"--config={config}")
        archive = node.folder / "images.tar"
        write_image(archive, self._programs.guest)
        ctr = [self._programs.ctr, f"--address={runtime_socket(node.folder)}", "--namespace=k8s.io"]
        node.wait_until(
            lambda: subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode == 0,
            what="containerd",
        )
        done = subprocess.run(
            [*ctr, "images", "import", "--local", "--snapshotter=native", archive],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{node.name}: the image of the tests is refused: {done.stderr}"

    def stop(self) -> None:
        """All of it are processes of the node."""


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port of loopback is free")
