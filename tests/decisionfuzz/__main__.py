"""`python -m decisionfuzz [--cases N] [--seed S] [--first N]` decides gated pods in random worlds and judges it.

The same seed makes the same run. What is wrong is printed with the number of its world, and the exit code is 1 then;
`--first` begins at that world.
"""

import argparse
import sys
import time
from collections import Counter

from decisionfuzz.brute_force import find_first_node
from decisionfuzz.judge import decide, find_error
from decisionfuzz.world import make_world
from dra_operator.pods.explanation import PodExplanation


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="decisionfuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="what the worlds are made from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first world")
    arguments = parser.parse_args()
    started, wrong, fitting, reasons = time.process_time(), 0, 0, Counter[str]()
    for number in range(arguments.first, arguments.first + arguments.cases):
        world = make_world(f"{arguments.seed} {number}")
        if error := find_error(world):
            wrong += 1
            print(f"--- world {number} of seed {arguments.seed}: {error}", flush=True)  # noqa: T201 - the answer
        if find_first_node(world) is not None:
            fitting += 1
        elif isinstance(found := decide(world), PodExplanation):
            reasons[found.reason.value] += 1
    spent = time.process_time() - started
    listed = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    print(  # noqa: T201 - the answer
        f"seed {arguments.seed}: {arguments.cases} worlds, the pod fits in {fitting}; else {listed}; "
        f"{wrong} wrong; {spent:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
