"""`python -m conformance replay FILE`: scenarios decided again, compared with their answers, or timed.

With --sequential claims in a row that one pod owns are decided together, and share the time. Timed is what a decision
costs from the claim as read to the ledger updated, first evaluations included; compiling expressions is timed apart,
reading files and building the inventory are not timed.
Source: tests/recorded/README.md.
"""

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import click
import orjson

from conformance.files import end
from conformance.scenarios import Scenario, difference, is_equal, load, read_row
from dra_operator.allocator.allocator import Allocator
from dra_operator.allocator.decision import Allocated, Decision, Failed
from dra_operator.allocator.search.chain import SearchMode
from dra_operator.api.types import DeviceSelector, ResourceClaim
from dra_operator.api.write import allocation_to_wire
from dra_operator.cel.errors import CelError
from dra_operator.cel.program import compile_derived_attribute
from dra_operator.cli.output import FILE, opened, refusing

_TIMED_COLLECTION, _READING_COLLECTION = 20_000, 500_000
"""New objects between two garbage collections: while decisions are timed, and while scenarios are read."""


@dataclass(slots=True)
class SequentialRun:
    """Claims, the decision about each, the milliseconds that each took, and those of compiling before."""

    claims: Sequence[ResourceClaim]
    decisions: list[Decision] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    compiling: float = 0.0

    def summary(self, name: str) -> dict[str, Any]:
        """Return the line of output about all of them."""
        times = self.milliseconds
        return {
            "name": name,
            "claims": len(times),
            "allocated": sum(isinstance(decision, Allocated) for decision in self.decisions),
            "mean_ms": round(sum(times) / max(1, len(times)), 4),
            "p50_ms": percentile(times, 50),
            "p99_ms": percentile(times, 99),
            "compile_ms": round(self.compiling, 4),
        }

    def answers(self, name: str) -> Iterator[dict[str, Any]]:
        """Yield the line of output about each; node and result are null where there are none."""
        for claim, decision in zip(self.claims, self.decisions, strict=True):
            yield {"name": name, "claim": claim.metadata.name, **_decision_row(decision)}


def decide_one_by_one(scenario: Scenario, rehearse: Callable[[], None] | None = None) -> SequentialRun:
    """Allocate the claims of a scenario one after the other, those of a pod together, the state carried on.

    `rehearse` is called right before the first of them: reading the scenario and compiling its expressions have pushed
    the code that decides out of the processor's cache.
    """
    allocator = scenario.allocator
    allocator.refresh()
    decided = SequentialRun(scenario.claims)
    with _frozen_heap():
        started = time.perf_counter()
        compile_expressions(allocator, scenario.claims)
        decided.compiling = _since(started)
        if rehearse is not None:
            rehearse()
        gc.freeze()
        for claims in _by_pod(scenario.claims):
            started = time.perf_counter()
            decision = allocator.allocate(claims)
            if isinstance(decision, Allocated):
                for number, claim in enumerate(claims, len(decided.decisions)):
                    # Recorded claims may share a name, and an assumption takes the place of the one before.
                    owner = f"{claim.metadata.name}\x00{number}"
                    result = decision.results[number - len(decided.decisions)]
                    allocator.ledger.assume(claim.metadata.namespace, owner, result)
                allocator.refresh()
            each = _since(started) / len(claims)
            decided.milliseconds += [each] * len(claims)
            decided.decisions += [_part(decision, place) for place in range(len(claims))]
    return decided


def _by_pod(claims: Sequence[ResourceClaim]) -> Iterator[tuple[ResourceClaim, ...]]:
    """Yield the claims: those in a row that the same pod owns together, others each alone."""
    numbered = groupby(enumerate(claims), lambda item: _pod_of(item[1]) or item[0])
    return (tuple([claim for _, claim in group]) for _, group in numbered)


def _pod_of(claim: ResourceClaim) -> str | None:
    return next((owner.uid for owner in claim.metadata.owner_references if owner.kind == "Pod"), None)


def _part(decision: Decision, place: int) -> Decision:
    """Return what was decided about one of some claims."""
    if isinstance(decision, Allocated):
        return replace(decision, results=(decision.results[place],))
    return decision


def compile_expressions(allocator: Allocator, claims: Sequence[ResourceClaim]) -> None:
    """Compile every expression that a decision may need, and join those of each request with those of its class.

    One that does not compile is met again later.
    """
    requests = [request for claim in claims for request in claim.spec.devices.requests]
    parts = [part for request in requests for part in (request.exactly, *request.first_available) if part]
    classes = allocator.inventory.classes
    pairs = [
        (_expressions(device_class.spec.selectors), _expressions(part.selectors))
        for part in parts
        if (device_class := classes.get(part.device_class_name)) is not None
    ]
    for of_class, of_request in dict.fromkeys(pairs):
        allocator.candidates.selectors.joined(of_class, of_request)
    for expression in dict.fromkeys(item.expression for part in parts for item in part.derived_attributes):
        with suppress(CelError):
            compile_derived_attribute(expression, allocator.candidates.selectors.environment)


def _expressions(selectors: Sequence[DeviceSelector]) -> tuple[str, ...]:
    return tuple([selector.cel.expression for selector in selectors if selector.cel])


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the smallest value that `percent` of 100 values do not exceed; 0 if there are none."""
    if not values:
        return 0
    rank = -(-percent * len(values) // 100)
    return round(sorted(values)[max(1, rank) - 1], 4)


def _decision_row(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Allocated):
        return {"node": decision.node, "result": allocation_to_wire(decision.results[0])}
    nothing = {"node": None, "result": None}
    if isinstance(decision, Failed):
        return {**nothing, "error": decision.message, "errorKind": decision.kind}
    return nothing


def _since(started: float) -> float:
    return 1000 * (time.perf_counter() - started)


@contextmanager
def _frozen_heap() -> Iterator[None]:
    """Keep the collector from looking again and again at what was built before: once costs more than many claims.

    What is decided from there on is let go by counting references alone, so it looks at that seldom. Nothing is
    collected first: a walk over all there is would push what the first claims read out of the processor's cache.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_TIMED_COLLECTION)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


Write = Callable[[Mapping[str, Any]], None]
Respond = Callable[[str, Mapping[str, Any], Scenario], str]
"""Takes the name of a scenario, the line it came in, and itself, and says how it ended."""


@click.command("replay")
@click.argument("file", type=FILE)
@click.option("--seed", type=int, default=0, show_default=True, help="Where share ids start from.")
@click.option(
    "--search",
    type=click.Choice([item.value for item in SearchMode]),
    default=SearchMode.COUNTING.value,
    show_default=True,
    help="plain: one device at a time, as Kubernetes does; counting: by the fast searches.",
)
@click.option("--sequential", is_flag=True, help="Decide claims one after the other, and measure times.")
@click.option("--cold", is_flag=True, help="With --sequential: do not warm up before the claims.")
@click.option(
    "--out", type=FILE, metavar="FILE", help="Write the JSON lines to this file; .gz is compressed."
)
def app(file: Path, *, seed: int, search: str, sequential: bool, cold: bool, out: Path | None) -> None:
    """Decide recorded allocator scenarios again and compare with the recorded answers.

    FILE has scenarios, one JSON object a line; .gz is read, - is stdin.
    """
    if cold and not sequential:
        raise click.UsageError("--cold goes with --sequential: without it there is no rehearsal to leave out")
    searching = SearchMode(search)
    counts: Counter[str] = Counter()
    if not sequential:
        # Scenarios hold nearly no cycles and go as they came. Claims that are timed meet the collector as in `run`.
        gc.freeze()
        gc.set_threshold(_READING_COLLECTION)
    elif not cold:
        _run_self_check()
    with refusing(file, out), _writer(out) as write, opened(file, "rb") as lines:
        respond = partial(_compare, write)
        if sequential:
            respond = partial(
                _time, write, rehearse=None if cold else _run_self_check, to_file=out is not None
            )
        for number, line in enumerate(lines, 1):
            if line.strip():
                ended = _answer(line, number, seed=seed, search=searching, write=write, respond=respond)
                counts[ended] += 1
    end(counts, "no scenarios")


def _run_self_check() -> None:
    """Let the process do before anything is timed what it does once, and what decides be in the processor's cache."""
    # Only those who time anything need the cluster.
    from dra_operator.allocator.self_check import SelfCheckError, run_self_check  # noqa: PLC0415

    try:
        run_self_check()
    except SelfCheckError as error:
        click.echo(f"error: {error}", err=True)
        raise click.exceptions.Exit(1) from None


def outcome(decision: Decision) -> dict[str, Any]:
    """Return a decision as a line of output has it, without the name."""
    if isinstance(decision, Allocated):
        return {"node": decision.node, "results": [allocation_to_wire(item) for item in decision.results]}
    if isinstance(decision, Failed):
        return {"error": decision.message, "errorKind": decision.kind}
    return {"unsatisfiable": True}


def _answer(
    line: bytes, number: int, *, seed: int, search: SearchMode, write: Write, respond: Respond
) -> str:
    """Answer one line; return how it ended: equal, different, on purpose, not compared or unreadable."""
    name = str(number)
    try:
        row: Mapping[str, Any] = read_row(line)
        name = str(row.get("name") or number)
        scenario = load(row, seed=seed)
        scenario.allocator.searching = search
    except ValueError as error:
        write({"name": name, "error": str(error), "errorKind": "input"})
        return "unreadable"
    return respond(name, row, scenario)


def _time(
    write: Write,
    name: str,
    _row: Mapping[str, Any],
    scenario: Scenario,
    *,
    rehearse: Callable[[], None] | None,
    to_file: bool,
) -> str:
    decided = decide_one_by_one(scenario, rehearse)
    summary = decided.summary(name)
    if not to_file:
        write(summary)
        return "not compared"
    for answer in decided.answers(name):
        write(answer)
    click.echo(orjson.dumps(summary).decode())
    return "not compared"


def _compare(write: Write, name: str, row: Mapping[str, Any], scenario: Scenario) -> str:
    answer = outcome(scenario.allocator.allocate(scenario.claims))
    expected = row.get("expected")
    if expected is None:
        write({"name": name, **answer})
        return "not compared"
    if is_equal(answer, expected):
        write({"name": name, **answer})
        return "equal"
    if (known := difference(row)) is not None:
        write({"name": name, **answer, "difference": known})
        return "different on purpose"
    write({"name": name, **answer})
    click.echo(f"{name}: expected {orjson.dumps(expected).decode()}", err=True)
    return "different"


@contextmanager
def _writer(path: Path | None) -> Iterator[Write]:
    if path is None:
        yield lambda line: click.echo(orjson.dumps(line).decode())
        return
    with opened(path, "wb") as file:

        def write(line: Mapping[str, Any]) -> None:
            file.write(orjson.dumps(line) + b"\n")

        yield write
