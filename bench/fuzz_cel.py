"""Looks for expressions that our CEL gets wrong or takes too long for.

    python bench/fuzz_cel.py --seconds 3600 --seed 1

Each case is an expression and a device (tests/celfuzz). A case that goes wrong is made as short as possible and printed
as a JSON line for tests/celfuzz/findings.jsonl; the exit code is then 1. A slow case counts only if it is slow again,
since other load on the machine affects the time. The current case is kept in a file (--last), in case the process
crashes.
"""

import argparse
import faulthandler
import gc
import json
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from celfuzz import Case, Expressions, Finding, Hang, judge, random_device, random_driver
from celfuzz.expressions import reference_expressions
from celfuzz.judge import ENVIRONMENTS
from celfuzz.shorten import shortened

HANG_SECONDS = 30
MEMORY = 4 << 30
EVERY = 60


def _hang(_number: int, _frame: Any) -> None:
    raise Hang


def guarded(case: Case) -> Finding | None:
    """Judge a case, and end a call that does not come back."""
    signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
    # What is not Python does not see the signal: then the process ends, and says where.
    faulthandler.dump_traceback_later(120, exit=True)
    try:
        return judge(case)
    except Hang:
        return Finding("judge", "does not come back")
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main() -> int:
    """Run, and return 1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--last", type=Path, default=None, help="keep the current case in this file")
    options = parser.parse_args()
    signal.signal(signal.SIGPROF, _hang)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    corpus = reference_expressions(ROOT.parent / "shared" / "data" / "cel")
    # What the fuzzer itself holds is none of the collector's business while a case is timed.
    gc.freeze()
    source = random.Random(options.seed)
    expressions = Expressions(source, corpus)
    counts: Counter[str] = Counter()
    found: dict[str, Case] = {}
    started = reported = time.monotonic()
    while (now := time.monotonic()) - started < options.seconds:
        case = Case(
            expressions.expression(),
            random_driver(source),
            random_device(source),
            source.choices(tuple(ENVIRONMENTS), (8, 1, 1, 1))[0],
        )
        if options.last:
            options.last.write_text(json.dumps(case.wire()))
        counts["cases"] += 1
        finding = guarded(case)
        if finding is not None and finding.is_slow and not _same(case, finding.sort):
            counts["slow once"] += 1
            print(f"# slow, and not again: {finding.stage} {case.expression}", file=sys.stderr, flush=True)
            finding = None
        if finding is not None and finding.sort not in found:
            case = shortened(case, lambda other, sort=finding.sort: _same(other, sort))
            found[finding.sort] = case
            print(
                json.dumps({"finding": f"{finding.stage}: {finding.what}"[:300], **case.wire()}), flush=True
            )
        if now - reported > EVERY:
            reported = now
            print(
                f"# {now - started:.0f} s, {counts['cases']} cases, {len(found)} findings",
                file=sys.stderr,
                flush=True,
            )
    faulthandler.cancel_dump_traceback_later()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"# seed {options.seed}: {counts['cases']} cases in {time.monotonic() - started:.0f} s"
        f" over {len(corpus)} known expressions, {len(found)} findings, {peak} MiB at most,"
        f" {counts['slow once']} slow on a busy machine and not again"
    )
    return 1 if found else 0


def _same(case: Case, sort: str) -> bool:
    finding = guarded(case)
    return finding is not None and finding.sort == sort


if __name__ == "__main__":
    sys.exit(main())
