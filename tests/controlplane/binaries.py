"""The programs of the control plane: found where the machine has them, else built once.

Kubernetes publishes no ready programs in any package registry, but it publishes the Go modules. `go.mod`
beside this file pins one version of them, and a single `go install` makes five static programs. That takes
about six minutes on two cores, so they are kept in the user's cache, outside any checkout, and one test run
builds while another waits for it. The programs of a node (`node/programs.py`) are got the same way.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
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
class Installation:
    """Programs that one `go install` makes, and the folder of the cache that keeps them."""

    what: str
    module: Path
    packages: Mapping[str, str]
    folder: str
    duration: str
    linker_flags: str = ""
    cgo: str = "0"
    flags: tuple[str, ...] = ()
    toolchain: str = ""
    has_assets: bool = True
    """Whether what KUBEBUILDER_ASSETS names may have its programs."""

    @property
    def directory(self) -> Path:
        """The folder of the programs that were built."""
        return cache_home() / self.folder


CONTROL_PLANE = Installation(
    what="the control plane",
    module=MODULE,
    packages=PACKAGES,
    folder=f"controlplane/{VERSION}",
    duration="6 minutes",
    # Clients refuse to talk to a server that does not know its version.
    linker_flags=f"-X k8s.io/component-base/version.gitVersion={VERSION}",
)


# The next Kubernetes, of which this builds: its API server and kubelet need modules that are nowhere published.
SCHEDULERS = {
    "1.38": Installation(
        what="the scheduler of Kubernetes 1.38",
        module=MODULE,
        packages={"kube-scheduler": PACKAGES["kube-scheduler"]},
        folder="controlplane/v1.38.0-beta.0",
        duration="10 minutes",
        linker_flags="-X k8s.io/component-base/version.gitVersion=v1.38.0-beta.0",
        flags=("-modfile=kubernetes_1_38.mod",),
        toolchain="go1.27.3",
        has_assets=False,
    )
}


@dataclass(frozen=True, slots=True)
class Programs:
    """Where the five programs are."""

    etcd: Path
    apiserver: Path
    controller_manager: Path
    scheduler: Path
    kubectl: Path


def say_to_stderr(line: str) -> None:
    """Print one line of progress where a person sees it."""
    print(f"controlplane: {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress of a long step


def find_or_build(say: Say = say_to_stderr) -> Programs:
    """Return the programs: those of KUBEBUILDER_ASSETS first, then the cache; what neither has is built.

    SCHEDULER_VERSION (1.38) puts the scheduler of another version beside the others. Raises `UnavailableError` when
    something is missing and there is no Go that could build it.
    """
    found = install(CONTROL_PLANE, say)
    if version := os.environ.get("SCHEDULER_VERSION"):
        if version not in SCHEDULERS:
            raise UnavailableError(f"SCHEDULER_VERSION is {version}; known are {', '.join(SCHEDULERS)}")
        found |= install(SCHEDULERS[version], say)
    programs = Programs(
        etcd=found["etcd"],
        apiserver=found["kube-apiserver"],
        controller_manager=found["kube-controller-manager"],
        scheduler=found["kube-scheduler"],
        kubectl=found["kubectl"],
    )
    _check_version(programs.apiserver)
    return programs


def install(wanted: Installation, say: Say) -> dict[str, Path]:
    """Return the programs of an installation by name, from where `find` finds them or newly built.

    Raises `UnavailableError` when something is missing and there is no Go that could build it.
    """
    missing = [name for name in wanted.packages if find(name, wanted) is None]
    if missing:
        wanted.directory.mkdir(parents=True, exist_ok=True)
        with only_one(wanted.directory / ".lock", wanted.what, say):
            # Whoever held the lock before may have built what was missing.
            missing = [name for name in missing if find(name, wanted) is None]
            if missing:
                build(missing, wanted, say)
    return {name: _found(name, wanted) for name in wanted.packages}


def find(name: str, wanted: Installation = CONTROL_PLANE) -> Path | None:
    """Return the program of that name, from KUBEBUILDER_ASSETS or the cache, or None."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folders = [Path(assets)] if assets and wanted.has_assets else []
    for folder in (*folders, wanted.directory):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _found(name: str, wanted: Installation) -> Path:
    path = find(name, wanted)
    if path is None:
        raise UnavailableError(f"{name} was built and is gone again from {wanted.directory}")
    return path


def build(names: list[str], wanted: Installation, say: Say) -> None:
    """Build the named programs into their folder; nothing half-built is ever seen there."""
    target = wanted.directory
    go = find_go(wanted.module, f"{wanted.what} is not in KUBEBUILDER_ASSETS nor in {target}")
    started = time.monotonic()
    say(f"building {', '.join(names)} once, into {target}; about {wanted.duration} on two cores")
    with tempfile.TemporaryDirectory(dir=target, prefix=".building-") as scratch:
        command = [
            go,
            "install",
            "-v",
            "-trimpath",
            f"-ldflags=-s -w {wanted.linker_flags}",
            *wanted.flags,
            *(wanted.packages[name] for name in names),
        ]
        run_with_progress(
            command, wanted.module, Path(scratch), say, started, cgo=wanted.cgo, toolchain=wanted.toolchain
        )
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
