"""The command line of the fuzzers (`python -m stepfuzz` and others): so many random cases, and what is wrong with them.

The same seed makes the same cases. Each case in which something is wrong is printed with its number, and the exit code
is 1 then; `--first` begins at that number.
"""

import argparse
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import structlog

Counts = Counter[str]
Check = Callable[[str, argparse.Namespace, Counts], Iterable[object] | None]
"""Runs the case of a seed and returns what is wrong with it, None if it is no case; counts what it was like."""


def run(
    name: str,
    description: str | None,
    check: Check,
    *,
    cases: int,
    options: Mapping[str, tuple[int, str]] | None = None,
) -> int:
    """Do what the command line says; return the exit code.

    `cases` is how many there are if nothing is said. `options` are numbers of this fuzzer alone, with default and help.
    """
    parser = argparse.ArgumentParser(prog=name, description=description)
    common = {
        "cases": (cases, "how many cases"),
        "seed": (1, "what they are made from"),
        "first": (0, "the number of the first one"),
        "most": (10, "stop at so many wrong ones"),
    }
    for option, (default, text) in (common | dict(options or {})).items():
        parser.add_argument(f"--{option}", type=int, default=default, help=f"{text} ({default})")
    arguments = parser.parse_args()
    # What an operator logs on the way is not what is looked for.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    counts, started, number, done, wrong = Counts(), time.process_time(), arguments.first, 0, 0
    while done < arguments.cases and wrong < arguments.most:
        case = f"case {number} of seed {arguments.seed}"
        try:
            problems = check(f"{arguments.seed} {number}", arguments, counts)
        except Exception as error:
            error.add_note(f"in {case}")
            raise
        number += 1
        if problems is None:
            continue
        found = [*problems]
        done, wrong = done + 1, wrong + bool(found)
        for problem in found:
            print(f"--- {case}: {problem}", flush=True)  # noqa: T201 - the answer
    listed = "".join(f", {count} {what}" for what, count in counts.items())
    spent = time.process_time() - started
    print(f"seed {arguments.seed}: {done} cases{listed}; {wrong} wrong; {spent:.0f} s")  # noqa: T201 - the answer
    return 1 if wrong else 0
