"""The CDI file of a prepared claim, from what the plugin has answered. Pure, but for the writes at the end.

Each request is one CDI device. Source: the Container Device Interface, SPEC.md; k8s.io/kubernetes/pkg/kubelet/cm/
devicemanager/pod_devices.go and containerd's mounts for what the kubelet and the runtime make of the same answer.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

CDI_VERSION: Final = "0.5.0"
"""The first version that knows `hostPath` of a device node, and not the newest, which old runtimes refuse."""
CDI_ANNOTATION: Final = "cdi.k8s.io/"
"""Annotations with this prefix name CDI devices; containerd reads them, so that they can be passed on."""
_PREFIX: Final = "dra-bridge-"
_PERMISSIONS: Final = re.compile(r"[rwm]*")
_DEVICE: Final = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*=[\w.:-]+", re.ASCII)


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True)


class Mount(_Stored):
    """A path of the host that containers get."""

    container_path: str
    host_path: str
    read_only: bool = False


class DeviceNode(_Stored):
    """A device node of the host that containers get."""

    container_path: str
    host_path: str
    permissions: str = ""
    uid: int | None = None
    gid: int | None = None
    """The owner on the host, where that is seen; without one, a runtime gives it to the container's user."""


class Answer(_Stored):
    """What a plugin's Allocate has answered for one request."""

    envs: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    devices: tuple[DeviceNode, ...] = ()
    annotations: dict[str, str] = {}
    cdi_devices: tuple[str, ...] = ()


class UnusableAnswerError(Exception):
    """An answer of a plugin that no CDI file can say; the text names the field."""


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The CDI devices of a request, and the edits of the one that the bridge writes, if it needs one."""

    cdi_devices: tuple[str, ...]
    edits: Mapping[str, Any] = field(default_factory=dict)


def read_answer(message: Any) -> Answer:
    """Return one container's part of an AllocateResponse. Raises UnusableAnswerError."""
    answer = Answer(
        envs=dict(message.envs),
        mounts=tuple(
            Mount(container_path=each.container_path, host_path=each.host_path, read_only=each.read_only)
            for each in message.mounts
        ),
        devices=tuple(
            DeviceNode(
                container_path=each.container_path, host_path=each.host_path, permissions=each.permissions
            )
            for each in message.devices
        ),
        annotations=dict(message.annotations),
        cdi_devices=tuple(each.name for each in message.cdi_devices),
    )
    for problem in _problems(answer):
        raise UnusableAnswerError(f"the plugin's answer cannot be used: {problem}")
    return answer


def _problems(answer: Answer) -> list[str]:
    found = [f"envs has the name {name!r}" for name in answer.envs if not name or "=" in name or "\0" in name]
    found += [f"the value of env {name} has a NUL" for name, value in answer.envs.items() if "\0" in value]
    for kind, paths in (("mounts", answer.mounts), ("devices", answer.devices)):
        for each in paths:
            both = (each.container_path, each.host_path)
            if not all(path.startswith("/") and "\0" not in path for path in both):
                found.append(f"{kind} has {each.host_path!r} at {each.container_path!r}: no absolute paths")
    for device in answer.devices:
        if not _PERMISSIONS.fullmatch(device.permissions):
            found.append(f"devices has {device.host_path} with the permissions {device.permissions!r}")
    found += [f"cdi_devices has {name!r}" for name in answer.cdi_devices if not _DEVICE.fullmatch(name)]
    return found


def prepare_request(driver: str, uid: str, request: str, answer: Answer) -> PreparedRequest:
    """Return the CDI devices by which containers get what a plugin has answered for a request of a claim."""
    passed_on = [*answer.cdi_devices]
    for key in sorted(answer.annotations):
        if key.startswith(CDI_ANNOTATION):
            passed_on += [name for name in answer.annotations[key].split(",") if _DEVICE.fullmatch(name)]
    edits = _edits(answer)
    own = [f"{cdi_kind(driver)}={cdi_name(uid, request)}"] if edits else []
    return PreparedRequest(tuple(dict.fromkeys([*own, *passed_on])), edits)


def _edits(answer: Answer) -> dict[str, Any]:
    edits: dict[str, Any] = {}
    if answer.envs:
        edits["env"] = [f"{name}={value}" for name, value in sorted(answer.envs.items())]
    if answer.devices:
        edits["deviceNodes"] = [
            {
                "path": each.container_path,
                "hostPath": each.host_path,
                **({"permissions": each.permissions} if each.permissions else {}),
                **({"uid": each.uid, "gid": each.gid} if each.uid is not None else {}),
            }
            for each in answer.devices
        ]
    if answer.mounts:
        edits["mounts"] = [
            {
                "containerPath": each.container_path,
                "hostPath": each.host_path,
                "type": "bind",
                "options": ["rbind", "rprivate", "ro" if each.read_only else "rw"],
            }
            for each in answer.mounts
        ]
    return edits


def unbridged(answers: Mapping[str, Answer]) -> list[str]:
    """Return, in words, what of a claim's answers by request does not reach its containers."""
    found = []
    values: dict[str, tuple[str, str]] = {}
    for request, answer in answers.items():
        lost = sorted(key for key in answer.annotations if not key.startswith(CDI_ANNOTATION))
        if lost:
            found.append(f"request {request}: container annotations are not passed on: {', '.join(lost)}")
        for name, value in answer.envs.items():
            other, known = values.setdefault(name, (request, value))
            if known != value:
                found.append(
                    f"requests {other} and {request} set env {name}: a container that uses both has one of them"
                )
    return found


def cdi_kind(driver: str) -> str:
    """Return the kind of the CDI devices of a driver; a CDI vendor begins with a letter."""
    # No driver has an underscore.
    vendor = driver if driver[0].isalpha() else f"dra_{driver}"
    return f"{vendor}/claim"


def cdi_name(uid: str, request: str) -> str:
    """Return the name of the CDI device of a request; of a subrequest, the parts are joined by two dots."""
    return f"{uid}_{request.replace('/', '..')}"


def cdi_file(driver: str, uid: str) -> str:
    """Return the name of the CDI file of a claim."""
    return f"{_PREFIX}{driver}_{uid}.json"


def is_cdi_file(name: str) -> bool:
    """Return whether a file of the CDI folder is the bridge's, be it whole or not."""
    return name.removeprefix(".").startswith(_PREFIX)


def cdi_content(driver: str, uid: str, requests: Mapping[str, PreparedRequest]) -> str:
    """Return what the CDI file of a claim says; nothing if no request needs a device of its own."""
    devices = [
        {"name": cdi_name(uid, request), "containerEdits": prepared.edits}
        for request, prepared in sorted(requests.items())
        if prepared.edits
    ]
    if not devices:
        return ""
    return json.dumps({"cdiVersion": CDI_VERSION, "kind": cdi_kind(driver), "devices": devices}) + "\n"


def write_atomically(path: Path, content: str) -> None:
    """Write a file so that at every moment, also after a crash, it is whole, or as it was. Raises OSError."""
    # Neither a runtime that looks for CDI files nor the agent reads one with this name.
    partial = path.with_name(f".{path.name}.new")
    with partial.open("w", encoding="utf-8") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove(path: Path) -> None:
    """Remove a file that may be gone, or be a folder. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    with suppress(FileNotFoundError):
        path.unlink()
