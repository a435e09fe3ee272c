"""Go: found on the machine, run with progress, by one process at a time.

What the tests ask Kubernetes' own code is built from published Go modules, into the user's cache, outside any checkout.
"""

import fcntl
import os
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

GO_AT_LEAST = (1, 26)
_PROGRESS_SECONDS = 15.0

Say = Callable[[str], None]


class UnavailableError(RuntimeError):
    """What is asked for cannot be had on this machine; the text says what is missing."""


def cache_home() -> Path:
    """Return the folder of everything that is built once for this user."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "dra-operator"


def find_go(module: Path, lacking: str) -> str:
    """Return the path of a Go that can build `module`.

    Raises `UnavailableError`; `lacking` says what is wanted of Go, as a sentence without its end.
    """
    go = shutil.which("go")
    wanted = ".".join(map(str, GO_AT_LEAST))
    if go is None:
        raise UnavailableError(f"{lacking}, and there is no Go {wanted} to build it with")
    # Asked inside the module: a Go from 1.21 on may fetch the version that go.mod names.
    answer = subprocess.run([go, "version"], cwd=module, capture_output=True, text=True, check=False)
    version = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    if version is None or tuple(map(int, version.groups())) < GO_AT_LEAST:
        heard = (answer.stdout or answer.stderr).strip()
        raise UnavailableError(f"{lacking}: building it needs Go {wanted} or newer; {go} says: {heard}")
    return go


def run_with_progress(
    command: list[str],
    module: Path,
    into: Path,
    say: Say,
    started: float,
    *,
    cgo: str = "0",
    toolchain: str = "",
) -> None:
    """Run `go install` in `module`, the programs going to `into`; say now and then how far it is.

    `cgo` is "1" for a program with parts in C, which needs a C compiler. `toolchain` is the version of Go that builds,
    which Go gets itself. Raises `UnavailableError` with the last lines of what Go said.
    """
    environment = os.environ | {"GOBIN": str(into), "CGO_ENABLED": cgo}
    if toolchain:
        environment["GOTOOLCHAIN"] = toolchain
    lines: list[str] = []
    with subprocess.Popen(
        command, cwd=module, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
        reader.start()
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_PROGRESS_SECONDS)
                    break
                say(f"{time.monotonic() - started:.0f} s, {len(lines)} packages downloaded or compiled")
        except BaseException:
            process.terminate()
            raise
        reader.join()
        code = process.returncode
    if code != 0:
        raise UnavailableError("go install ended with an error:\n" + "".join(lines[-15:]))


@contextmanager
def only_one(lock: Path, what: str, say: Say) -> Iterator[None]:
    """Hold a file lock; the kernel gives it back when its holder dies."""
    with lock.open("a") as file:
        waited = 0.0
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if waited % _PROGRESS_SECONDS == 0:
                    say(f"another run is building {what}; waited {waited:.0f} s for it")
                time.sleep(1)
                waited += 1
        yield
