"""`python -m gatefuzz [--cases N] [--steps N] [--seed S] [--first N]` runs random interleavings of gated pods.

The same seed makes the same run. What is wrong is printed with the number of its case, and the exit code is 1 then;
`--first` begins at that case.
"""

import argparse
import sys
import time

from gatefuzz.run import run_case
from gatefuzz.server import BrokenError


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="gatefuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many cases")
    parser.add_argument("--steps", type=int, default=80, help="how many steps each has")
    parser.add_argument("--seed", type=int, default=1, help="what the cases are made from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    arguments = parser.parse_args()
    wrong, started, bound = 0, time.process_time(), 0
    for number in range(arguments.first, arguments.first + arguments.cases):
        try:
            case = run_case(f"{arguments.seed} {number}", arguments.steps)
        except BrokenError as error:
            wrong += 1
            print(f"--- {error}", flush=True)  # noqa: T201 - the answer
            continue
        bound += sum(bool(pod["spec"].get("nodeName")) for pod in case.server.of_kind("Pod"))
    spent = time.process_time() - started
    print(  # noqa: T201 - the answer
        f"seed {arguments.seed}: {arguments.cases} cases, {bound} pods bound at their ends; {wrong} wrong; "
        f"{spent:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
