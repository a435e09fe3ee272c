"""helm-unittest, built from its published module, and the tests of the templates that it runs."""

from pathlib import Path

from controlplane.binaries import Installation, install, say_to_stderr
from controlplane.golang import Say

VERSION = "v1.1.2"
SUITES = Path(__file__).parent / "suites"
UNITTEST = Installation(
    what="helm-unittest",
    module=Path(__file__).parent,
    packages={"helm-unittest": "github.com/helm-unittest/helm-unittest/cmd/helm-unittest"},
    folder=f"helm-unittest/{VERSION}",
    duration="3 minutes",
)


def find_or_build_unittest(say: Say = say_to_stderr) -> Path:
    """Return the program; raise `UnavailableError` if there can be none."""
    return install(UNITTEST, say)["helm-unittest"]
