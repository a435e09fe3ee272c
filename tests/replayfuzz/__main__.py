"""`python -m replayfuzz [--cases N] [--seed S]` replays small random histories, also changed, and compares them."""

import argparse
import sys

from dra_operator.history.jobs import read_jobs
from dra_operator.history.replay import Order, Replay
from dra_operator.history.timeline import ChangedHistory
from fuzz_command import Counts, run
from replayfuzz.naive import Simulation
from replayfuzz.world import make_world


def check(seed: str, _arguments: argparse.Namespace, counts: Counts) -> list[object]:
    """Replay a history by the library, and naively."""
    world = make_world(seed)
    order = world.random.choice([*Order])
    naive = Simulation(world, order is Order.PRIORITY)
    naive.run()
    history = ChangedHistory(world, world.changes)
    jobs = read_jobs(history, world.span)
    if len(jobs.items) != len(world.plans):
        return [f"{len(jobs.items)} jobs of {len(world.plans)}"]
    runs = Replay(history, world.span, jobs.items, order).run()
    found = {
        run.job.name: (
            run.started,
            run.node,
            tuple((each.pool, each.device) for part in run.allocations for each in part.devices.results),
        )
        for run in runs
    }
    # A shared claim that one job alone names is its own.
    for plan in world.plans:
        if plan.shared and plan.name in found and plan.name in naive.results:
            found[plan.name] = (
                *found[plan.name][:2],
                found[plan.name][2][: len(naive.results[plan.name][2])],
            )
    counts["jobs"] += len(world.plans)
    counts["that waited"] += sum(
        plan.name not in found or found[plan.name][0] > plan.arrival for plan in world.plans
    )
    counts["that never ran"] += sum(plan.name not in found for plan in world.plans)
    return [
        f"{plan.name}: {found.get(plan.name)}, and naively {naive.results.get(plan.name)}"
        for plan in world.plans
        if found.get(plan.name) != naive.results.get(plan.name)
    ][:3]


if __name__ == "__main__":
    sys.exit(run("replayfuzz", __doc__, check, cases=300))
