"""`python -m questionfuzz [--cases N] [--seed S]` asks about clusters at random, and does what is asked about."""

import argparse
import asyncio
import sys
from pathlib import Path
from random import Random

# The small cluster of the controller's tests.
sys.path.insert(0, str(Path(__file__).parents[1] / "controller"))

from fuzz_command import Counts, run
from questionfuzz.compare import find_wrong_fit, find_wrong_headroom, find_wrong_pods, find_wrong_removal
from questionfuzz.unread import KINDS, find_unsound, make_whole_world
from questionfuzz.world import make_world


def check(seed: str, _arguments: argparse.Namespace, _counts: Counts) -> list[str]:
    """Return what is wrong with answers about the world of a seed."""
    return asyncio.run(_find_problems(seed))


async def _find_problems(seed: str) -> list[str]:
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
    sys.exit(run("questionfuzz", __doc__, check, cases=500))
