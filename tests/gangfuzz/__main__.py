"""`python -m gangfuzz [--cases N] [--seed S]` decides gangs in random worlds and judges it."""

import argparse
import sys

from dra_operator import Cluster
from dra_operator.questions.gangs import explain_gang
from fuzz_command import Counts, run
from gangfuzz.brute_force import count_most, find_fault, read_places
from gangfuzz.world import make_world


def check(seed: str, _arguments: argparse.Namespace, counts: Counts) -> list[object]:
    """Decide the gang of a world, and by brute force."""
    world = make_world(seed)
    cluster = Cluster.load(list(world.bodies()), listed=("Pod",))
    answer = explain_gang(cluster, "podgroup/team/gang")
    most = count_most(world)
    counts[answer.state] += 1
    counts["in which some but not all fit"] += 0 < most < len(world.pods)
    problems: list[object] = [*cluster.errors]
    if answer.state == "undecided":
        problems.append(f"undecided: {answer.partial}")
    if answer.fitting != most:
        problems.append(f"{answer.fitting} of {len(world.pods)} fit by the library, {most} by brute force")
    if len(answer.pods) != answer.fitting:
        problems.append(f"{answer.fitting} fit, and {len(answer.pods)} have a node")
    elif fault := find_fault(world, read_places(world, answer)):
        problems.append(f"the assignment has {fault}")
    is_enough = most >= min(world.at_least or len(world.pods), len(world.pods))
    if (answer.state == "fits") is not is_enough:
        problems.append(f"it {answer.state} with {most} of {world.at_least}")
    return problems


if __name__ == "__main__":
    sys.exit(run("gangfuzz", __doc__, check, cases=1000))
