"""The cgroups of a node, in every hierarchy below those of the process that starts it.

Run as a program, `python cgroups.py NAME PROGRAM ARGUMENT...` makes them, joins them and becomes the program; it
imports nothing that is slow. A name ends with the number of the test run's process, so that what a killed run has left
is recognised.
"""

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "dra-node-"


def cgroup_name(node: str) -> str:
    """Return how the cgroups of a node of this process are called."""
    return f"{_PREFIX}{node}-{os.getpid()}"


def hierarchies() -> dict[str, Path]:
    """Return the folder of this process in every mounted hierarchy, by its controllers; version 2 is ""."""
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
    return found


def join(name: str) -> None:
    """Move this process into the cgroups of that name, which are made if they are not there."""
    for controllers, own in hierarchies().items():
        folder = own / name
        if not folder.exists():
            folder.mkdir()
            if "cpuset" in controllers.split(","):
                for file in ("cpuset.cpus", "cpuset.mems"):
                    (folder / file).write_text((own / file).read_text())
        (folder / "cgroup.procs").write_text(str(os.getpid()))


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
