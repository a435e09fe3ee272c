"""`python -m stepfuzz [--cases N] [--seed S]` fuzzes the allocator step by step, in one world after the other."""

import argparse
import sys
from random import Random

from fuzz_command import Counts, run
from stepfuzz.world import World, WrongError


def check(seed: str, arguments: argparse.Namespace, counts: Counts) -> list[object]:
    """Take the steps of a world; the first decision that is wrong ends it."""
    world = World(Random(seed))  # noqa: S311 - a seed makes a run repeatable
    wrong: list[object] = []
    try:
        for _ in range(arguments.steps):
            world.step()
    except WrongError as error:
        wrong.append(error)
    counts["decisions compared"] += world.asked
    counts["of them with an allocator without a past"] += world.compared
    counts["left out as the exhaustive search gave up"] += world.given_up
    return wrong


if __name__ == "__main__":
    sys.exit(run("stepfuzz", __doc__, check, cases=2000, options={"steps": (50, "how many steps each has")}))
