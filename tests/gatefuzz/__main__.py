"""`python -m gatefuzz [--cases N] [--steps N] [--gangs 1] [--seed S]` runs random interleavings of gated pods."""

import argparse
import sys

from fuzz_command import Counts, run
from gatefuzz.run import run_case
from gatefuzz.server import BrokenError


def check(seed: str, arguments: argparse.Namespace, counts: Counts) -> list[object]:
    """Take the steps of a case, and let it come to rest."""
    try:
        case = run_case(seed, arguments.steps, has_gangs=bool(arguments.gangs))
    except BrokenError as error:
        return [error]
    pods = case.server.of_kind("Pod")
    counts["pods bound at their ends"] += sum(bool(pod["spec"].get("nodeName")) for pod in pods)
    return []


if __name__ == "__main__":
    options = {"steps": (80, "how many steps each has"), "gangs": (0, "1: gangs among the pods")}
    sys.exit(run("gatefuzz", __doc__, check, cases=2000, options=options))
