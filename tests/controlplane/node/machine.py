"""What this machine can run: real containers, a kubelet with a runtime that only records, or neither."""

import os
import shutil
import subprocess
import sys

from controlplane.node import cgroups
from controlplane.node.programs import runc_is_there

NAMESPACES = ("--mount", "--pid", "--cgroup", "--uts", "--ipc")
_NEEDED = ("unshare", "nsenter", "mount")
_CONTROLLERS = {"cpu", "cpuset", "memory", "pids"}


def namespace_flags() -> tuple[str, ...]:
    """Return the flags of unshare(1) for the namespaces of a node; whoever is not root needs one of users, too."""
    return NAMESPACES if os.geteuid() == 0 else ("--user", "--map-root-user", *NAMESPACES)


def obstacle_to_nodes() -> str | None:
    """Return why no kubelet can run here, not even one with a runtime that only records, or None."""
    if sys.platform != "linux":
        return "a kubelet needs Linux"
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if missing:
        return f"a node needs {' and '.join(missing)}"
    probe = subprocess.run(
        ["unshare", *namespace_flags(), "--fork", "mount", "-t", "tmpfs", "tmpfs", "/run"],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode != 0:
        return f"a node needs namespaces of its own: {probe.stderr.strip()}"
    return None


def obstacle_to_containers() -> str | None:
    """Return why real containers cannot run here, or None."""
    if os.geteuid() != 0:
        return "real containers need root"
    if missing := sorted(_CONTROLLERS - cgroups.controllers()):
        return f"real containers need cgroups with the controllers {', '.join(missing)}"
    try:
        name = cgroups.cgroup_name("probe")
        for own in cgroups.hierarchies().values():
            (own / name).mkdir()
        cgroups.remove(name, seconds=1)
    except OSError as error:
        return f"real containers need cgroups of their own: {error}"
    if not runc_is_there() and shutil.which("gcc") is None:
        return "real containers need runc, and there is no gcc to build it with"
    return None
