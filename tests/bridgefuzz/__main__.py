"""`python -m bridgefuzz [--cases N] [--steps N] [--seed S]` runs random histories of the bridge."""

import argparse
import sys

from bridgefuzz.run import SLICES_SECONDS, BrokenError, run_history
from fuzz_command import Counts, run


def check(seed: str, arguments: argparse.Namespace, counts: Counts) -> list[object]:
    """Run a history."""
    try:
        history = run_history(seed, arguments.steps)
    except BrokenError as error:
        return [error]
    counts["in which slices took more than two seconds once"] += history.slowest > SLICES_SECONDS
    return []


if __name__ == "__main__":
    steps = (30, "how many steps each has")
    sys.exit(run("bridgefuzz", __doc__, check, cases=300, options={"steps": steps}))
