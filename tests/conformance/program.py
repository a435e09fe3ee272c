"""The Go program of bench/upstream: built once into the user's cache, then asked line by line.

There is one for each version of Kubernetes. The cache is keyed by the program's sources, so that a change of them
builds anew and everything else starts at once.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from controlplane.binaries import UnavailableError
from controlplane.golang import cache_home, find_go, only_one, run_with_progress

__all__ = ["VERSIONS", "UnavailableError", "Upstream", "find_or_build", "running"]

SOURCES = Path(__file__).parents[2] / "bench" / "upstream"
VERSIONS = {"1.37": (), "1.38": ("-modfile=kubernetes_1_38.mod", "-tags=kubernetes_1_38")}
"""What Go is told to build the program with the code of each version of Kubernetes; the first is what we equal."""
TOOLCHAINS = {"1.38": "go1.27.3"}
"""The Go that a version needs, where it is newer than what the machine must have; Go gets it itself."""
_NAME = "upstream"

Say = Callable[[str], None]
Wire = dict[str, Any]


def say_to_stderr(line: str) -> None:
    """Print one line of progress where a person sees it."""
    print(f"upstream: {line}", file=sys.stderr, flush=True)  # noqa: T201 - progress of a long step


def find_or_build(say: Say = say_to_stderr, *, kubernetes: str = "1.37", toolchain: str = "") -> Path:
    """Return the program with the code of a version, built if its sources have changed or it never was.

    `toolchain` is the Go that builds it, if it should be another than the version needs.
    Raises `UnavailableError` when it has to be built and there is no Go that could.
    """
    folder = cache_home() / "upstream" / "-".join(filter(None, (kubernetes, _digest(), toolchain)))
    program = folder / _NAME
    if program.is_file():
        return program
    go = find_go(SOURCES, "bench/upstream is not built yet")
    folder.mkdir(parents=True, exist_ok=True)
    with only_one(folder / ".lock", "bench/upstream", say):
        # Whoever held the lock before may have built it.
        if not program.is_file():
            _build(go, program, say, kubernetes, toolchain or TOOLCHAINS.get(kubernetes, ""))
    return program


def _build(go: str, program: Path, say: Say, kubernetes: str, toolchain: str) -> None:
    started = time.monotonic()
    say(f"building bench/upstream once, into {program.parent}; about 2 minutes on two cores")
    with TemporaryDirectory(dir=program.parent, prefix=".building-") as scratch:
        command = [go, "install", "-v", "-trimpath", *VERSIONS[kubernetes], "."]
        run_with_progress(command, SOURCES, Path(scratch), say, started, toolchain=toolchain)
        (Path(scratch) / _NAME).replace(program)
    say(f"built in {time.monotonic() - started:.0f} s")


def _digest() -> str:
    files = sorted(path for path in SOURCES.iterdir() if path.suffix in {".go", ".mod", ".sum"})
    whole = sha256()
    for path in files:
        whole.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


class Upstream:
    """A running program that answers questions of one kind; the answers come in the order of the questions."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, question: Mapping[str, Any]) -> Wire:
        """Return the answer to a question."""
        self.send(question)
        return self.receive()

    def send(self, question: Mapping[str, Any]) -> None:
        """Ask without waiting; the answers come in the order of the questions."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Wire:
        """Return the next answer. Raises RuntimeError if the program has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"bench/upstream ended with {self._process.wait()}")
        answer: Wire = json.loads(line)
        return answer


@contextmanager
def running(program: Path, kind: str, *, any_allocator: bool = False) -> Iterator[Upstream]:
    """Run the program for questions of one kind (`allocate`, `cel`, `decode`) while the context lasts.

    Scenarios are for the `experimental` allocator, or for `any_allocator` that has the features which are on.
    """
    options = ["-deadline", "2s", *(["-any-allocator"] if any_allocator else [])]
    with subprocess.Popen(
        [program, *options, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Upstream(process)
        finally:
            process.kill()
