"""`python -m changefuzz [--cases N] [--brute N] [--seed S]` applies each change that is named, and decides again.

`--brute` says for how many of the cases all single edits are tried, to compare the smallest of each kind. The same seed
makes the same run. What is wrong is printed with the number of its case, and the exit code is 1 then; `--first` begins
at that case.
"""

import argparse
import sys
import time
from collections import Counter

from changefuzz.brute_force import find_differences
from changefuzz.cluster import make_case
from dra_operator.allocator import Allocated
from dra_operator.pods.change import Kind
from dra_operator.pods.smallest_change import find_smallest_changes


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="changefuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many claims that do not fit")
    parser.add_argument("--brute", type=int, default=200, help="for how many of them all edits are tried")
    parser.add_argument("--seed", type=int, default=1, help="what the cases are made from")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    arguments = parser.parse_args()
    counts = Counter[str]()
    slowest, started, number = 0.0, time.process_time(), arguments.first
    while counts["cases"] < arguments.cases:
        case = make_case(f"{arguments.seed} {number}")
        situation = case.situation()
        number += 1
        if isinstance(situation.decide(), Allocated):
            continue
        counts["cases"] += 1
        before = time.process_time()
        found = find_smallest_changes(situation, most=len(Kind))
        slowest = max(slowest, time.process_time() - before)
        counts["mendable"] += bool(found.changes)
        counts["given up"] += not found.is_complete
        wrong: list[object] = []
        for change in found.changes:
            counts[change.kind.value] += 1
            # By an allocator without a past.
            if not isinstance(change.apply(case.situation()).decide(), Allocated):
                wrong.append(change)
        if counts["cases"] <= arguments.brute:
            counts["tried by brute force"] += 1
            wrong += find_differences(case, found)
        counts["wrong"] += bool(wrong)
        for each in wrong:
            print(f"--- case {number - 1} of seed {arguments.seed}: {each}", flush=True)  # noqa: T201 - the answer
    spent = time.process_time() - started
    kinds = ", ".join(f"{kind.value} {counts[kind.value]}" for kind in Kind)
    print(  # noqa: T201 - the answer
        f"seed {arguments.seed}: {counts['cases']} claims that do not fit, {counts['mendable']} would with a change "
        f"({kinds}), {counts['given up']} not tried to the end; {counts['tried by brute force']} compared with all "
        f"single edits; {counts['wrong']} wrong; at most {slowest * 1000:.0f} ms each; {spent:.0f} s"
    )
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
