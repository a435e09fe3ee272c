"""The gRPC protocols of the kubelet: those that the bridge has, and its runtime's, which is compiled once.

It goes from the published Go module into the user's cache.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from controlplane.binaries import CONTROL_PLANE, VERSION, say_to_stderr
from controlplane.golang import Say, UnavailableError, cache_home, find_go, only_one

# Forks of this process start programs at once, and need no gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
_FILES = {
    "cri": ("k8s.io/cri-api", "pkg/apis/runtime/v1/api.proto"),
}


@dataclass(frozen=True, slots=True)
class Protocol:
    """The messages and the services of one protocol."""

    messages: ModuleType
    services: ModuleType


def find_or_compile(say: Say = say_to_stderr) -> Path:
    """Return the folder of the compiled protocols; raise `UnavailableError` if they cannot be compiled."""
    # What is compiled runs with the package that compiled it, or with a newer one.
    target = cache_home() / "protocols" / f"{VERSION}-{version('grpcio-tools')}"
    target.mkdir(parents=True, exist_ok=True)
    with only_one(target / ".lock", "the protocols of the kubelet", say):
        if not (target / "complete").exists():
            _compile(target)
            (target / "complete").touch()
    return target


def load(name: str) -> Protocol:
    """Import the protocol `cri`, or one of those of `dra_bridge.protocols`."""
    if name not in _FILES:
        return Protocol(
            importlib.import_module(f"dra_bridge.protocols.{name}_pb2"),
            importlib.import_module(f"dra_bridge.protocols.{name}_pb2_grpc"),
        )
    folder = str(find_or_compile())
    if folder not in sys.path:
        sys.path.append(folder)
    return Protocol(
        importlib.import_module(f"kubelet_{name}_pb2"), importlib.import_module(f"kubelet_{name}_pb2_grpc")
    )


def _compile(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, (module, path) in _FILES.items():
            source = (module_folder(module) / path).read_bytes()
            (Path(folder) / f"kubelet_{name}.proto").write_bytes(source)
            command = [
                sys.executable,
                "-m",
                "grpc_tools.protoc",
                f"--proto_path={folder}",
                f"--python_out={target}",
                f"--grpc_python_out={target}",
                f"kubelet_{name}.proto",
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise UnavailableError(f"protoc refuses {path}: {done.stderr}")


def module_folder(module: str) -> Path:
    """Return the folder of a module of the control plane's version in Go's cache."""
    go = find_go(CONTROL_PLANE.module, f"the sources of {module} are needed")
    answer = subprocess.run(
        [go, "mod", "download", "-json", module],
        cwd=CONTROL_PLANE.module,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise UnavailableError(f"go mod download {module}: {answer.stdout}{answer.stderr}")
    return Path(json.loads(answer.stdout)["Dir"])
