"""`python -m explanations [--worlds N]` compares what is said of 10,000 failing claims with what was said of them.

A difference is of a class: the reason before and now, the request, or the stage at which numbers differ. Of each class
some are shown, with the number of the world; `--world N` shows one world whole. The exit code is 1 if more than one in
a hundred differs.
"""

import argparse
import json
import sys
from collections import Counter, defaultdict
from itertools import islice

from explanations.answers import Wire, answers_today
from recordings import recorded

_MOST_DIFFERENT = 0.01


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="explanations", description=__doc__)
    parser.add_argument("--worlds", type=int, help="the first so many only, of about 6,000")
    parser.add_argument("--samples", type=int, default=2, help="how many of each class are shown (2)")
    parser.add_argument("--world", type=int, help="show this one")
    arguments = parser.parse_args()
    rows = recorded("explanations")
    if arguments.world is not None:
        row = next(islice(rows, arguments.world, None))
        print(json.dumps(row["world"], indent=1))  # noqa: T201 - the answer
        for before, now in zip(row["answers"], answers_today(row["world"]), strict=False):
            print(f"before {json.dumps(before)}\nnow    {json.dumps(now)}")  # noqa: T201 - the answer
        return 0
    claims, classes, samples = 0, Counter[str](), defaultdict[str, list[str]](list)
    for number, row in enumerate(islice(rows, arguments.worlds)):
        found = answers_today(row["world"])
        for place, before in enumerate(row["answers"]):
            claims += 1
            now = found[place] if found else {"reason": "nothing, it is allocated"}
            for name in differences(before, now)[:1]:
                classes[name] += 1
                samples[name].append(f"world {number}, claim {place}: {now.get('message', '')}")
    for name, count in classes.most_common():
        print(f"{count} {name}")  # noqa: T201 - the answer
        for sample in samples[name][: arguments.samples]:
            print(f"    {sample}")  # noqa: T201 - the answer
    different = sum(classes.values())
    print(f"{claims} claims: {claims - different} equal, {different} different")  # noqa: T201 - the answer
    return 1 if different > claims * _MOST_DIFFERENT else 0


def differences(before: Wire, now: Wire) -> list[str]:
    """Return the classes of what differs between two answers about a claim, the weightiest first."""
    found = []
    if before["reason"] != now["reason"]:
        found.append(f"reason {before['reason']} -> {now['reason']}")
    if before.get("request") != now.get("request"):
        found.append(f"request of {before['reason']}")
    counts, others = before["counts"], now.get("counts", {})
    if counts != others:
        names = sorted({*counts} | {*others})
        stages = {
            key
            for name in names
            for key in ({*counts.get(name, ())} | {*others.get(name, ())})
            if counts.get(name, {}).get(key) != others.get(name, {}).get(key)
        }
        found.append(f"numbers: {', '.join(sorted(stages))}")
    return found


if __name__ == "__main__":
    sys.exit(main())
