"""A registry for images and charts, from its published module, and what tests push to it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controlplane.binaries import Installation, install, say_to_stderr
from controlplane.golang import Say
from controlplane.processes import Process

VERSION = "v0.22.1"
REGISTRY = Installation(
    what="registry",
    module=Path(__file__).parent,
    packages={"registry": "github.com/google/go-containerregistry/cmd/registry"},
    folder=f"registry/{VERSION}",
    duration="a minute",
)


def find_or_build_registry(say: Say = say_to_stderr) -> Path:
    """Return the program; raise `UnavailableError` if there can be none."""
    return install(REGISTRY, say)["registry"]


@contextmanager
def running_registry(program: Path, folder: Path) -> Iterator[str]:
    """Run a registry that keeps what it has in memory, and return its address, as HOST:PORT; it speaks plain HTTP."""
    process = Process("registry", [program, "-port=0"], log=folder / "registry.log")
    try:
        process.wait_until(lambda: "serving on port" in process.log_text())
        yield f"localhost:{process.log_text().partition('serving on port ')[2].split()[0]}"
    finally:
        process.stop()
