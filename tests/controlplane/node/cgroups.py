"""The cgroups of a node.

In every hierarchy of version 1 they are below those of the process that starts it; in version 2, where no group with
processes of its own can share out its controllers, they are below the root. Run as a program,
`python cgroups.py NAME PROGRAM ARGUMENT...` makes them, joins them and becomes the program; it imports nothing slow.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "dra-node-"
# In version 2, the group of the node's own processes, beside those of its containers.
_LEAF = "node"


def cgroup_name(node: str) -> str:
    """Return how the cgroups of a node are called; this process's number shows later whether its run has ended."""
    return f"{_PREFIX}{node}-{os.getpid()}"


def hierarchies() -> dict[str, Path]:
    """Return the folder that a node's cgroup is made in, of every mounted hierarchy by its controllers.

    Version 2 is ""; what it can control is in its files.
    """
    mounts: dict[str, Path] = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        kind, _source, options = after.split(" ", 2)
        point = Path(before.split()[4])
        if kind == "cgroup2":
            mounts[""] = point
        elif kind == "cgroup":
            mounts |= dict.fromkeys(options.split(","), point)
    found = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        point = mounts.get(controllers.split(",")[0])
        if point is not None and (point / path.lstrip("/")).is_dir():
            found[controllers] = point / path.lstrip("/")
    return found if found.keys() != {""} else {"": mounts[""]}


def controllers() -> set[str]:
    """Return what the cgroups of a node can control."""
    folders = hierarchies()
    if folders.keys() == {""}:
        return set((folders[""] / "cgroup.subtree_control").read_text().split())
    return {each for names in folders for each in names.split(",")}


def join(name: str) -> None:
    """Move this process into the cgroups of that name, which are made if they are not there.

    Hierarchies that this process may not change are left out: containers need them, a kubelet does not.
    """
    for controllers, own in hierarchies().items():
        if not os.access(own, os.W_OK):
            continue
        folder = own / name
        if not folder.exists():
            folder.mkdir()
            if "cpuset" in controllers.split(","):
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (folder / file).write_text((own / file).read_text())
        leaf = folder / _LEAF
        (leaf if leaf.exists() else folder).joinpath("cgroup.procs").write_text(str(os.getpid()))


def share_out(name: str) -> None:
    """Let containers have cgroups beside the processes that have joined this one; version 1 needs nothing for it."""
    folders = hierarchies()
    if folders.keys() != {""} or not (folder := folders[""] / name).exists():
        return
    (folder / _LEAF).mkdir()
    # Until all that they have started meanwhile are moved.
    while processes := (folder / "cgroup.procs").read_text().split():
        for process in processes:
            with suppress(ProcessLookupError):
                (folder / _LEAF / "cgroup.procs").write_text(process)
    shared = (folder / "cgroup.controllers").read_text().split()
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{each}" for each in shared))


def remove(name: str, *, seconds: float) -> None:
    """Remove the cgroups of that name, the innermost first; wait for the last of their processes to go."""
    deadline = time.monotonic() + seconds
    for own in hierarchies().values():
        while (own / name).exists():
            try:
                for folder, _, _ in os.walk(own / name, topdown=False):
                    Path(folder).rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def remove_abandoned() -> None:
    """Remove the empty cgroups of test runs that were killed."""
    for own in hierarchies().values():
        for folder in own.glob(f"{_PREFIX}*"):
            if not Path("/proc", folder.name.rpartition("-")[2]).exists():
                with suppress(OSError):
                    remove(folder.name, seconds=0)


if __name__ == "__main__":
    join(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - becoming another program is the purpose
