"""`python -m controlplane.helm_unittest` runs the tests of the chart's templates."""

import os
import subprocess
import sys

from controlplane.helm import CHART
from controlplane.helm_unittest import SUITES, find_or_build_unittest


def main() -> int:
    """Return the exit code of helm-unittest."""
    suites = os.path.relpath(SUITES / "*.yaml", CHART)
    return subprocess.run(
        [find_or_build_unittest(), "--strict", "--file", suites, CHART], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
