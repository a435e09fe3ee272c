"""`python -m decisionfuzz [--cases N] [--seed S]` decides gated pods in random worlds and judges it."""

import argparse
import sys

from decisionfuzz.brute_force import find_first_node
from decisionfuzz.judge import decide, find_error
from decisionfuzz.world import make_world
from dra_operator.pods.explanation import PodExplanation
from fuzz_command import Counts, run


def check(seed: str, _arguments: argparse.Namespace, counts: Counts) -> list[object]:
    """Decide the pod of a world, and by brute force."""
    world = make_world(seed)
    error = find_error(world)
    if find_first_node(world) is not None:
        counts["in which the pod fits"] += 1
    elif isinstance(found := decide(world), PodExplanation):
        counts[found.reason.value] += 1
    return [error] if error else []


if __name__ == "__main__":
    sys.exit(run("decisionfuzz", __doc__, check, cases=1000))
