"""An OCI image archive with the one program that the tests' pods run, for `ctr images import`.

Source: opencontainers/image-spec, image-layout.md. All names are one image: a manifest for each name would be the same.
"""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

GUEST = "localhost/guest:1"
PAUSE = "localhost/pause:1"
# The image of the Kubernetes documentation, as containerd completes its name.
DOCUMENTED = "docker.io/library/ubuntu:24.04"
_COMMANDS = ("pause", "report", "sleep")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_MEDIA = "application/vnd.oci.image"


def write_image(target: Path, guest: Path, names: Sequence[str] = (GUEST, PAUSE, DOCUMENTED)) -> None:
    """Write an archive with the guest under these names; without a command of its own a container is a pause."""
    machine = {"architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    layer = _layer(guest.read_bytes())
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, media: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": f"{_MEDIA}.{media}", "digest": f"sha256:{digest}", "size": len(data)}

    config = {
        **machine,
        "config": {"Cmd": ["/bin/pause"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": blob(json.dumps(config).encode(), "config.v1+json"),
        "layers": [blob(layer, "layer.v1.tar")],
    }
    described = {**blob(json.dumps(manifest).encode(), "manifest.v1+json"), "platform": machine}
    index = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.index.v1+json",
        "manifests": [{**described, "annotations": {"io.containerd.image.name": name}} for name in names],
    }
    with tarfile.open(target, "w") as archive:
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(archive, "index.json", json.dumps(index).encode())
        for path, data in blobs.items():
            _add(archive, path, data)


def _layer(guest: bytes) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for folder in ("bin", "dev", "proc", "sys", "etc", "tmp", "var", "var/run"):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        _add(archive, "bin/guest", guest)
        for command in _COMMANDS:
            entry = tarfile.TarInfo(f"bin/{command}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "guest"
            archive.addfile(entry)
    return raw.getvalue()


def _add(archive: tarfile.TarFile, path: str, data: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), 0o755
    archive.addfile(entry, io.BytesIO(data))
