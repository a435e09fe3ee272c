"""`python -m stepfuzz [--steps N] [--seed S]` fuzzes the allocator step by step, in one world after the other.

The same seed makes the same run. What is wrong is printed with the number of its world, and the exit code is 1 then;
`--first` begins at that world.
"""

import argparse
import sys
import time
from random import Random

from stepfuzz.world import World, WrongError

_STEPS_A_WORLD = 50
_MOST_WRONG = 5


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="stepfuzz", description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="how many steps, 50 in each world")
    parser.add_argument("--seed", type=int, default=1, help="what the worlds are made from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first world")
    arguments = parser.parse_args()
    asked = compared = given_up = wrong = 0
    started = time.process_time()
    for number in range(arguments.first, arguments.first + -(-arguments.steps // _STEPS_A_WORLD)):
        world = World(Random(f"{arguments.seed} {number}"))  # noqa: S311 - a seed makes a run repeatable
        try:
            for _ in range(_STEPS_A_WORLD):
                world.step()
        except WrongError as error:
            print(f"--- world {number} of seed {arguments.seed}, {error}", flush=True)  # noqa: T201 - the answer
            wrong += 1
        except Exception as error:
            error.add_note(f"in world {number} of seed {arguments.seed}")
            raise
        asked, compared, given_up = asked + world.asked, compared + world.compared, given_up + world.given_up
        if wrong >= _MOST_WRONG:
            break
    spent = time.process_time() - started
    print(  # noqa: T201 - the answer
        f"seed {arguments.seed}: {asked} decisions compared, {compared} of them with an allocator without a past, "
        f"{given_up} left out as the exhaustive search gave up; {wrong} wrong; {spent:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
