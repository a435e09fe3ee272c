"""`python -m questionfuzz [--worlds N] [--seed S]` asks questions in worlds at random, and does what is asked about.

The same seed makes the same run. What is wrong is printed with the number of its world, and the exit code is 1 then;
`--first` begins at that world.
"""

import argparse
import asyncio
import logging
import sys
import time
from pathlib import Path
from random import Random

import structlog

# The small cluster of the controller's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from questionfuzz.compare import find_wrong_fit, find_wrong_headroom, find_wrong_pods, find_wrong_removal
from questionfuzz.unread import KINDS, find_unsound, make_whole_world
from questionfuzz.world import make_world


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="questionfuzz", description=__doc__)
    parser.add_argument("--worlds", type=int, default=500, help="how many worlds")
    parser.add_argument("--seed", type=int, default=1, help="what the worlds are made from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first world")
    arguments = parser.parse_args()
    # What the operator logs is not what is compared.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    started, wrong = time.monotonic(), 0
    for number in range(arguments.first, arguments.first + arguments.worlds):
        problems = asyncio.run(find_problems(f"{arguments.seed} {number}"))
        wrong += bool(problems)
        for problem in problems:
            print(f"--- world {number} of seed {arguments.seed}: {problem}", flush=True)  # noqa: T201 - the answer
    print(  # noqa: T201 - the answer
        f"seed {arguments.seed}: {arguments.worlds} worlds, {wrong} wrong; {time.monotonic() - started:.0f} s"
    )
    return 1 if wrong else 0


async def find_problems(seed: str) -> list[str]:
    """Return what is wrong with answers about the world of a seed."""
    world = make_world(seed)
    random = Random(seed)  # noqa: S311 - a seed makes a run repeatable
    unread = random.sample(KINDS, random.choice([1, 1, 2, 3]))
    return [
        *await find_wrong_fit(world),
        *await find_wrong_headroom(world),
        *find_wrong_pods(world),
        *find_wrong_removal(world, Random(seed)),  # noqa: S311 - as above
        *find_unsound(make_whole_world(seed), unread),
    ]


if __name__ == "__main__":
    sys.exit(main())
