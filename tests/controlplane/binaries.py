"""The programs of the control plane: found where the machine has them, else built once.

Kubernetes publishes no ready programs in any package registry, but it publishes the Go modules. `go.mod`
beside this file pins one version of them, and a single `go install` makes five static programs. That takes
about six minutes on two cores, so they are kept in the user's cache, outside any checkout, and one test run
builds while another waits for it.
"""

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from controlplane.golang import Say, UnavailableError, cache_home, find_go, only_one, run_with_progress

VERSION = "v1.37.2"

MODULE = Path(__file__).parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
}
# Go names a program after the last element of its package path.
_BUILT_AS = {"etcd": "server"}


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the five programs are."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    scheduler: Path
    kubectl: Path


def cache_directory() -> Path:
    """Return the folder of the programs that were built for this version."""
    return cache_home() / "controlplane" / VERSION


def say_to_stderr(line: str) -> None:
    """Print one line of progress where a person sees it."""
    print(f"controlplane: {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress of a long step


def find_or_build(say: Say = say_to_stderr) -> Programs:
    """Return the programs: those of KUBEBUILDER_ASSETS first, then the cache; what neither has is built.

    Raises `UnavailableError` when something is missing and there is no Go that could build it.
    """
    missing = [name for name in PACKAGES if find(name) is None]
    if missing:
        cache = cache_directory()
        cache.mkdir(parents=True, exist_ok=True)
        with only_one(cache / ".lock", "the control plane", say):
            # Whoever held the lock before may have built what was missing.
            missing = [name for name in missing if find(name) is None]
            if missing:
                build(missing, cache, say)
    programs = Programs(
        etcd=_found("etcd"),
        apiserver=_found("kube-apiserver"),
        controller_manager=_found("kube-controller-manager"),
        scheduler=_found("kube-scheduler"),
        kubectl=_found("kubectl"),
    )
    _check_version(programs.apiserver)
    return programs


def find(name: str) -> Path | None:
    """Return the program of that name, or None."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets)] if assets else []
    for folder in (*folders, cache_directory()):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _found(name: str) -> Path:
    path = find(name)
    if path is None:
        raise UnavailableError(f"{name} was built and is gone again from {cache_directory()}")
    return path


def build(names: list[str], target: Path, say: Say) -> None:
    """Build the named programs into `target`; nothing half-built is ever seen there."""
    go = find_go(MODULE, f"the control plane is not in KUBEBUILDER_ASSETS nor in {cache_directory()}")
    started = time.monotonic()
    say(f"building {', '.join(names)} of {VERSION} once, into {target}; about 6 minutes on two cores")
    with tempfile.TemporaryDirectory(dir=target, prefix=".building-") as scratch:
        command = [
            go,
            "install",
            "-v",
            "-trimpath",
            # Clients refuse to talk to a server that does not know its version.
            f"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion={VERSION}",
            *(["tool"] if len(names) == len(PACKAGES) else [PACKAGES[name] for name in names]),
        ]
        run_with_progress(command, MODULE, Path(scratch), say, started)
        for name in names:
            (Path(scratch) / _BUILT_AS.get(name, name)).replace(target / name)
    say(f"built in {time.monotonic() - started:.0f} s")


def _check_version(apiserver: Path) -> None:
    answer = subprocess.run([apiserver, "--version"], capture_output=True, text=True, check=False)
    minor = VERSION.rpartition(".")[0]
    if not answer.stdout.startswith(f"Kubernetes {minor}."):
        raise UnavailableError(
            f"the tests are written for Kubernetes {minor}; {apiserver} is {answer.stdout.strip()}"
        )
