"""The programs of a node: kubelet from the module of the control plane, the container runtime from this folder's."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from controlplane.binaries import CONTROL_PLANE, Installation, find, install, say_to_stderr
from controlplane.golang import Say

MODULE = Path(__file__).parent
CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_OWN = ("guest", "unconfined")


@dataclass(frozen=True, slots=True)
class RuntimePrograms:
    """Where the container runtime is, and the program of its image; `unconfined` is what starts runc."""

    containerd: Path
    shim: Path
    ctr: Path
    runc: Path
    unconfined: Path
    guest: Path


def find_or_build_kubelet(say: Say = say_to_stderr) -> Path:
    """Return the kubelet, of the control plane's version; raise `UnavailableError` if there can be none."""
    kubelet = Installation(
        what="the kubelet",
        module=CONTROL_PLANE.module,
        packages={"kubelet": "k8s.io/kubernetes/cmd/kubelet"},
        folder=CONTROL_PLANE.folder,
        duration="1 minute more than the control plane",
        linker_flags=CONTROL_PLANE.linker_flags,
    )
    return install(kubelet, say)["kubelet"]


def find_or_build_sample_plugin(say: Say = say_to_stderr) -> Path:
    """Return Kubernetes' own sample device plugin, unchanged; raise `UnavailableError` if there can be none."""
    plugin = Installation(
        what="the sample device plugin",
        module=CONTROL_PLANE.module,
        packages={"sample-device-plugin": "k8s.io/kubernetes/test/images/sample-device-plugin"},
        folder=CONTROL_PLANE.folder,
        duration="half a minute more than the control plane",
    )
    return install(plugin, say)["sample-device-plugin"]


def find_or_build_runtime(say: Say = say_to_stderr) -> RuntimePrograms:
    """Return containerd, runc and what belongs to them; raise `UnavailableError` if there can be none."""
    found = {name: path for each in _runtime() for name, path in install(each, say).items()}
    return RuntimePrograms(
        containerd=found["containerd"],
        shim=found["containerd-shim-runc-v2"],
        ctr=found["ctr"],
        runc=found["runc"],
        unconfined=found["unconfined"],
        guest=found["guest"],
    )


def runc_is_there() -> bool:
    """Tell whether runc, which alone needs a C compiler, has been built or is in KUBEBUILDER_ASSETS."""
    *_, runc = _runtime()
    return find("runc", runc) is not None


def _runtime() -> tuple[Installation, Installation]:
    sources = (MODULE / "go.mod", *(MODULE / name / "main.go" for name in _OWN))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    folder = f"node/{digest}"
    containerd = Installation(
        what="containerd",
        module=MODULE,
        packages={
            **{name: f"{CONTAINERD}/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")},
            **{name: f"./{name}" for name in _OWN},
        },
        folder=folder,
        duration="2 minutes",
    )
    runc = Installation(
        what="runc",
        module=MODULE,
        packages={"runc": "github.com/opencontainers/runc"},
        folder=folder,
        duration="half a minute",
        cgo="1",
    )
    return containerd, runc
