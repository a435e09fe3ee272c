"""`dra-operator replay`: recorded allocator scenarios, decided again.

What comes out is a decision a scenario, and where the scenario carries the answer of Kubernetes' own allocator, whether
it is the same. A difference that we make on purpose is named.
Source: docs/cli.md and the scenario format it refers to.
"""

import gc
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
import orjson

from dra_operator.allocator import Allocated, Decision, Failed, SearchMode
from dra_operator.api.write import allocation_to_wire
from dra_operator.cli.compare import difference, is_equal
from dra_operator.cli.lines import FILE, end, opened, refusing
from dra_operator.cli.scenarios import Scenario, load, read_row
from dra_operator.cli.sequential import decide_one_by_one

Write = Callable[[Mapping[str, Any]], None]
Respond = Callable[[str, Mapping[str, Any], Scenario], str]
"""Takes the name of a scenario, the line it came in, and itself, and says how it ended."""

_OBJECTS_A_COLLECTION = 500_000


@click.command("replay", short_help="Decide recorded scenarios again and compare with the recorded answers.")
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
        gc.set_threshold(_OBJECTS_A_COLLECTION)
    elif not cold:
        _rehearse()
    with refusing(file, out), _writer(out) as write, opened(file, "rb") as lines:
        respond = partial(_compare, write)
        if sequential:
            respond = partial(_time, write, rehearse=None if cold else _rehearse, to_file=out is not None)
        for number, line in enumerate(lines, 1):
            if line.strip():
                ended = _answer(line, number, seed=seed, search=searching, write=write, respond=respond)
                counts[ended] += 1
    end(counts, "no scenarios")


def _rehearse() -> None:
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
