"""What a plugin's `devices` name on the host: links and folders become the nodes that they stand for.

A runtime does so with what the device manager gives it, and not with a CDI file.
Source: containerd, internal/cri/opts `WithDevices` and pkg/oci `getDevices`.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dra_bridge.cdi import Answer, DeviceNode

_HOST: Final = "/dev"
_LINKS: Final = 40
_SKIPPED_FOLDERS: Final = frozenset({"pts", "shm", "fd", "mqueue", ".lxc", ".lxd-mounts", ".udev"})
_SKIPPED: Final = "console"


@dataclass(frozen=True, slots=True)
class HostDevices:
    """The host's /dev, seen at `root`; of what is elsewhere, or is not there, a plugin's answer stays as it is."""

    root: Path

    def expand(self, answer: Answer) -> Answer:
        """Return an answer whose devices are nodes, with the owners that they have now. Raises OSError."""
        nodes = tuple(node for each in answer.devices for node in self._nodes(each))
        return answer.model_copy(update={"devices": nodes})

    def _nodes(self, device: DeviceNode) -> Iterator[DeviceNode]:
        host = self._resolve(device.host_path)
        seen = self._seen(host)
        if seen is None or not seen.exists():
            yield device
        elif seen.is_dir():
            yield from self._listed(device, seen)
        else:
            yield _owned(device.model_copy(update={"host_path": host}), seen.lstat())

    def _listed(self, folder: DeviceNode, seen: Path) -> Iterator[DeviceNode]:
        """Yield the nodes below a folder, those of a runtime's own but."""
        for path in sorted(seen.iterdir()):
            inside = folder.model_copy(
                update={
                    "container_path": f"{folder.container_path.rstrip('/')}/{path.name}",
                    "host_path": f"{folder.host_path.rstrip('/')}/{path.name}",
                }
            )
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode):
                if path.name not in _SKIPPED_FOLDERS:
                    yield from self._listed(inside, path)
            elif path.name != _SKIPPED and _is_node(status.st_mode):
                yield _owned(inside, status)

    def _resolve(self, host: str) -> str:
        """Return the path on the host that a path leads to; links of the host name paths of the host."""
        for _ in range(_LINKS):
            seen = self._seen(host)
            if seen is None:
                return host
            real = os.path.realpath(seen)
            root = os.path.realpath(self.root)
            if real.startswith(f"{root}/"):
                return f"{_HOST}{real.removeprefix(root)}"
            host = real
        return host

    def _seen(self, host: str) -> Path | None:
        """Return where a path of the host is seen; None if it is not."""
        host = os.path.normpath(host)
        if not host.startswith(f"{_HOST}/"):
            return None
        return self.root / host.removeprefix(f"{_HOST}/")


def _owned(device: DeviceNode, status: os.stat_result) -> DeviceNode:
    return device.model_copy(update={"uid": status.st_uid, "gid": status.st_gid})


def _is_node(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode) or stat.S_ISFIFO(mode)
