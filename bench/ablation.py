"""Measures what each optional mechanism of the allocator earns: one is off at a time, over all shapes of workloads.

    python bench/ablation.py                                # every shape, at its largest size up to 1,000 nodes
    python bench/ablation.py cluster-01000 mig-00100        # these
    python bench/ablation.py --mechanisms templates # these mechanisms

A workload is loaded once. A measurement is two forked processes that decide all claims, one right after the other: with
everything on, and with a mechanism off. A factor is the processor time of the second by that of the first, compiling
included, and the median of the rounds: a machine that is faster for a while does not count. Further rounds are only for
factors near the line. It is at most the one at which a process is stopped. Factors of 1.3 and more are printed. A
mechanism that no shape misses by 1.3, and without which nothing stays undecided, is listed at the end: it is to be
removed, and the exit code is 1. So it is if an answer differs.
"""

import argparse
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeAlias
from unittest.mock import patch

from workloads import SHAPES, check, write

from conformance.replay import decide_one_by_one
from conformance.scenarios import Scenario, load
from dra_operator.allocator import Allocator, Failed
from dra_operator.allocator.nodes import iteration
from dra_operator.allocator.nodes.capacity_filter import CapacityFilter
from dra_operator.allocator.nodes.equivalence_cache import EquivalenceCache, Feasibility
from dra_operator.allocator.nodes.error_check import ErrorFreeNodes
from dra_operator.allocator.search import backtracking, chain
from dra_operator.allocator.search.chain import SearchChain
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.result_types import UNDECIDED
from dra_operator.allocator.search.single_request import has_single_request

WORTH_IT = 1.3
MOST_NODES = 1000
UNSURE = (1.1, 1.8)
"""Factors that are measured in further rounds."""
STOPPED_AT = 10.0
"""A process that takes so many times what it takes with all mechanisms is stopped."""
_LEAST_SECONDS = 1.0
_NEVER = 1_000_000_000

Patch: TypeAlias = Any
"""A context manager inside which something is replaced."""


def _without_backtracking(self: SearchChain, plans: Sequence[Any]) -> Sequence[Any]:
    return self.fast[:1] if self.fast and has_single_request(plans) else ()


def _new_problem(self: EquivalenceCache, problem: object) -> Feasibility:
    del problem
    return Feasibility(self.log.end)


def _without_answers() -> Sequence[Patch]:
    """Forget, before each decision, which devices of which pool can serve which request."""
    allocate = Allocator.allocate
    views: dict[int, Any] = {}

    def forgetting(self: Allocator, claims: Sequence[Any], nodes: Sequence[str] | None = None) -> Any:
        if not views:
            views.update(
                (pool.serial, pool) for node in self.availability.views.node_views() for pool in node.pools
            )
        self.candidates.forget(tuple(views.values()))
        return allocate(self, claims, nodes)

    return [patch.object(Allocator, "allocate", forgetting)]


def _always(answer: object) -> Callable[..., object]:
    """Return a function that has one answer."""
    return lambda *_args, **_more: answer


MECHANISMS: Final[Mapping[str, Callable[[], Sequence[Patch]]]] = {
    "single request": lambda: [patch.object(chain, "has_single_request", _always(answer=False))],
    "backtracking": lambda: [patch.object(SearchChain, "fast_for", _without_backtracking)],
    "beginning of a large pool": lambda: [patch.object(Eligibility, "beginning_of", _always(UNDECIDED))],
    "hardest first": lambda: [
        # Every model counts as large: what is checked there before more tries stays on.
        patch.object(backtracking, "_MOST_DEVICES", -1),
        patch.object(backtracking, "_TRIES_ON_LARGE", _NEVER),
    ],
    "subproblem filter": lambda: [patch.object(iteration, "build_subproblem_filter", _always(None))],
    "capacity filter": lambda: [
        patch.object(iteration, "build_capacity_filter", _always(None)),
        patch.object(iteration, "build_for_new_amounts", _always(None)),
    ],
    "node capacity index": lambda: [patch.object(CapacityFilter, "exclude", _always(0))],
    "error check": lambda: [
        patch.object(ErrorFreeNodes, "verify", _always(answer=False)),
        patch.object(ErrorFreeNodes, "among", _always(0)),
    ],
    "equivalence cache": lambda: [patch.object(EquivalenceCache, "get", _new_problem)],
    "kept answers": _without_answers,
}
"""What can be switched off, with what switches it off. Answers stay the same without each."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One process: its seconds of the processor, a digest of its answers, and how many claims it left undecided."""

    seconds: float
    answers: str
    undecided: int


@dataclass(slots=True)
class Row:
    """A workload: the least seconds with everything on, and by mechanism how many times that runs took."""

    name: str
    whole: float
    ratios: dict[str, list[float]] = field(default_factory=dict)
    undecided: set[str] = field(default_factory=set)
    different: set[str] = field(default_factory=set)

    def factor(self, mechanism: str) -> float:
        """Return how much slower the workload is without a mechanism."""
        return min(median(self.ratios[mechanism]), STOPPED_AT)

    def is_plain(self, mechanism: str) -> bool:
        """True if the first round has told already: a factor far from the line does not come to the other side."""
        ratios = self.ratios.get(mechanism)
        return ratios is not None and not UNSURE[0] <= ratios[0] <= UNSURE[1]

    def needs(self, mechanism: str) -> bool:
        """True if the mechanism earns its place here."""
        return mechanism in self.undecided or self.factor(mechanism) >= WORTH_IT


def main() -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="workloads, such as cluster-01000")
    parser.add_argument(
        "--mechanisms", nargs="+", choices=MECHANISMS, default=[*MECHANISMS], metavar="MECHANISM"
    )
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    try:
        for name in arguments.names:
            check(name)
    except ValueError as error:
        parser.error(str(error))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.names or _largest():
            row = measure(name, Path(folder), arguments.mechanisms, arguments.rounds)
            print(_line(row), flush=True)
            rows.append(row)
    return _report(rows, arguments.mechanisms)


def _largest() -> list[str]:
    """Return, for each shape, its largest workload of at most so many nodes."""
    return [
        f"{name}-{max(size for size in shape.sizes if size <= MOST_NODES):0{shape.digits}}"
        for name, shape in SHAPES.items()
    ]


def measure(name: str, folder: Path, mechanisms: Sequence[str], rounds: int) -> Row:
    """Measure a workload with everything on and without each of some mechanisms."""
    scenario = load(json.loads(write(name, folder).read_text().splitlines()[0]))
    scenario.allocator.refresh()
    gc.freeze()
    first = _decide_in_fork(scenario, None, None)
    assert first is not None
    row = Row(name, first.seconds)
    for _ in range(rounds):
        for mechanism in mechanisms:
            if row.is_plain(mechanism):
                continue
            whole = _decide_in_fork(scenario, None, None)
            assert whole is not None
            row.whole = min(row.whole, whole.seconds)
            limit = max(_LEAST_SECONDS, row.whole * STOPPED_AT)
            measured = _decide_in_fork(scenario, mechanism, limit)
            if measured is None:
                row.ratios[mechanism] = [STOPPED_AT]
                continue
            row.ratios.setdefault(mechanism, []).append(measured.seconds / whole.seconds)
            if measured.undecided > first.undecided:
                row.undecided.add(mechanism)
            elif measured.answers != first.answers:
                row.different.add(mechanism)
    return row


def _decide_in_fork(scenario: Scenario, without: str | None, limit: float | None) -> Measured | None:
    """Decide all claims in a forked process, without a mechanism; None if it took longer than the limit in seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        if limit is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, limit)
        try:
            os.write(writing, json.dumps(_decide(scenario, without)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return Measured(*json.loads(text)) if text else None


def _decide(scenario: Scenario, without: str | None) -> tuple[float, str, int]:
    with ExitStack() as off:
        for each in MECHANISMS[without]() if without is not None else ():
            off.enter_context(each)
        started = time.process_time()
        decided = decide_one_by_one(scenario)
        seconds = time.process_time() - started
    answers = [json.dumps(answer, sort_keys=True) for answer in decided.answers("")]
    undecided = sum(
        isinstance(decision, Failed) and decision.kind == "aborted" for decision in decided.decisions
    )
    return seconds, sha256("\n".join(answers).encode()).hexdigest(), undecided


def _line(row: Row) -> str:
    """Return what a workload misses, the most first."""
    missed = sorted((each for each in row.ratios if row.needs(each)), key=row.factor, reverse=True)
    parts = [f"{each} {'undecided' if each in row.undecided else _text(row.factor(each))}" for each in missed]
    parts += [f"{each} DIFFERENT" for each in sorted(row.different)]
    return f"{row.name:24} {1000 * row.whole:8.1f} ms   {', '.join(parts)}"


def _text(factor: float) -> str:
    return f">={factor:.0f}" if factor >= STOPPED_AT else f"{factor:.2f}"


def _report(rows: Sequence[Row], mechanisms: Sequence[str]) -> int:
    """Print a line for each mechanism, and what is to be removed; return the exit code."""
    print("\nmechanism                   earns 1.3 on   most")
    for each in mechanisms:
        best = max(rows, key=lambda row: row.factor(each))
        count = sum(row.needs(each) for row in rows)
        print(f"{each:27} {count:12}   {_text(best.factor(each))} on {best.name}")
    useless = [each for each in mechanisms if not any(row.needs(each) for row in rows)]
    print(f"\nto be removed: {', '.join(useless) or 'nothing'}")
    return 1 if useless or any(row.different for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
