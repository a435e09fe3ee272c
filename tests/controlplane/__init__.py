"""A real Kubernetes control plane on loopback, for tests and benchmarks.

This folder is two things at once: a Go module that names the programs (`go.mod`, its `tool` block) and the
Python package that builds, starts and stops them; `node/` does the same for nodes. It is no part of the wheel.
Tests reach it as `controlplane` (their root is on the path), programs under `bench/` put `tests/` on their path first.
"""

from controlplane.binaries import Programs, UnavailableError, find_or_build
from controlplane.client import Client
from controlplane.manifests import install_access, install_component
from controlplane.namespaces import clear_cluster, fresh_namespace
from controlplane.operator_process import OperatorProcess, start_operator
from controlplane.plane import (
    ControlPlane,
    KubectlError,
    running_control_plane,
    running_full_control_plane,
)
from controlplane.processes import Process
from controlplane.scene import Scene
from controlplane.serving import as_of, only
from controlplane.shared_operator import SharedOperator

__all__ = [
    "Client",
    "ControlPlane",
    "KubectlError",
    "OperatorProcess",
    "Process",
    "Programs",
    "Scene",
    "SharedOperator",
    "UnavailableError",
    "as_of",
    "clear_cluster",
    "find_or_build",
    "fresh_namespace",
    "install_access",
    "install_component",
    "only",
    "running_control_plane",
    "running_full_control_plane",
    "start_operator",
]
