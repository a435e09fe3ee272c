"""`python -m changefuzz [--cases N] [--brute N] [--seed S]` applies each change that is named, and decides again.

A case is a claim that does not fit. `--brute` says for how many of them all single edits are tried, to compare the
smallest of each kind.
"""

import argparse
import sys
import time

from changefuzz.brute_force import find_differences
from changefuzz.cluster import make_case
from dra_operator.allocator.decision import Allocated
from dra_operator.pods.edits import Kind
from dra_operator.pods.smallest_change import find_smallest_changes
from fuzz_command import Counts, run

TRIED, SLOWEST = "compared with all single edits", "ms for the slowest"


def check(seed: str, arguments: argparse.Namespace, counts: Counts) -> list[object] | None:
    """Apply each change, and decide by an allocator without a past."""
    case = make_case(seed)
    situation = case.situation()
    if isinstance(situation.decide(), Allocated):
        return None
    before = time.process_time()
    found = find_smallest_changes(situation, most=len(Kind))
    counts[SLOWEST] = max(counts[SLOWEST], int((time.process_time() - before) * 1000))
    counts["that would fit with a change"] += bool(found.changes)
    counts["not tried to the end"] += not found.is_complete
    counts.update(f"by {change.kind.value}" for change in found.changes)
    wrong: list[object] = [
        change
        for change in found.changes
        if not isinstance(change.apply(case.situation()).decide(), Allocated)
    ]
    if counts[TRIED] < arguments.brute:
        counts[TRIED] += 1
        wrong += find_differences(case, found)
    return wrong


if __name__ == "__main__":
    brute = (200, "for how many of them all edits are tried")
    sys.exit(run("changefuzz", __doc__, check, cases=2000, options={"brute": brute}))
