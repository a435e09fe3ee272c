"""`dra-operator simulate`: what the operator would decide, from files alone.

Manifests in, decisions out, no cluster anywhere: to try a claim before it is applied, to see what a taint or
another node would change, to run the state of a cluster again that `snapshot` wrote.
Source: docs/cli.md.
"""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dra_operator.api.text import printable
from dra_operator.cli import outcomes
from dra_operator.cli.arguments import choice_of, file_path, node_name, place
from dra_operator.cli.load import LoadResult, add_daemon_pods, gather
from dra_operator.cli.manifests import read
from dra_operator.cli.offline import Cluster, UnknownNodeError
from dra_operator.cli.output import opened, refuse, refusing
from dra_operator.pods.claim_sets import decide, make_sets
from dra_operator.pods.claims import find_unused_templates, make_claims
from dra_operator.pods.nodes import find_pods_apart
from dra_operator.pods.scheduler import Outcome, State, by_name
from dra_operator.pods.special_claims import decide_special_claims

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Format(StrEnum):
    """How the outcome is printed."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


@app.command()
def simulate(
    more: Annotated[
        # Hidden, as Typer would show its type in Python; the line of usage shows it.
        list[str] | None,
        typer.Argument(metavar="FILE_OR_DIR", parser=place, hidden=True),
    ] = None,
    *,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE_OR_DIR",
            parser=place,
            help="Manifests, YAML or JSON; a folder with everything below it; - is stdin. May be repeated; -f may be "
            "left out.",
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(metavar="NODE", parser=node_name, help="Allow only this node. May be repeated."),
    ] = None,
    output: Annotated[
        Format,
        typer.Option(
            "-o",
            "--output",
            metavar=f"[{'|'.join(Format)}]",
            parser=choice_of(Format),
            help="Output format.",
        ),
    ] = Format.TABLE,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=file_path, help="Write to this file; .gz is compressed."),
    ] = None,
) -> None:
    """Decide the claims in some manifests, those of pods as kube-scheduler would. Needs no cluster.

    Exit code 0: every claim has its devices; 1: a claim waits; 2: something could not be read.
    """
    gathered = _load([*(file or ()), *(more or ())])
    try:
        cluster = Cluster(gathered, node or ())
    except UnknownNodeError as error:
        refuse(*map(printable, (*gathered.errors, f"--node: {error}")))
    add_daemon_pods(gathered, cluster.nodes)
    _say(f"error: {line}" for line in gathered.errors)
    decided, missing, notes = _decide(gathered, cluster)
    _say(f"note: {line}" for line in notes)
    with refusing(None, out):
        _print(decided, output, out)
    counts = Counter(outcome.state for outcome in decided)
    _say([", ".join(f"{counts[state]} {state.value}" for state in State if counts[state]) or "no claims"])
    if gathered.errors:
        raise typer.Exit(2)
    if missing or counts[State.PENDING]:
        raise typer.Exit(1)


def _load(places: Sequence[str]) -> LoadResult:
    if not places:
        refuse("no manifests are given: name files or folders, as in -f FILE")
    found = list(read(places))
    if not found:
        refuse("there is no object in what is given")
    return gather(found)


def _decide(gathered: LoadResult, cluster: Cluster) -> tuple[list[Outcome], list[str], tuple[str, ...]]:
    """Return what becomes of each claim, what is missing for claims to be made, and all notes with that."""
    made, missing = make_claims(gathered)
    sets = make_sets(gathered, [*gathered.of_kind("ResourceClaim"), *made])
    decided = decide(sets, cluster.scheduler)
    special = decide_special_claims(gathered, cluster.scheduler, decided)
    decided = sorted([*decided, *special.outcomes], key=by_name)
    missing += special.problems
    apart = find_pods_apart(gathered, cluster.scheduler, decided)
    failing = cluster.find_failing(decided)
    unused = find_unused_templates(gathered)
    notes = (*gathered.notes, *unused, *cluster.notes, *special.notes, *missing, *apart, *failing)
    return decided, missing, notes


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        # What is in files may be meant for the terminal.
        typer.echo(printable(line), err=True)


def _print(decided: Sequence[Outcome], output: Format, out: Path | None) -> None:
    if output is Format.TABLE and out is None and decided and sys.stdout.isatty():
        outcomes.print_table(decided)
        return
    text = _text(decided, output)
    if out is None:
        typer.echo(text, nl=False)
    else:
        with opened(out, "wb") as file:
            file.write(text.encode())


def _text(decided: Sequence[Outcome], output: Format) -> str:
    if output is Format.YAML:
        return outcomes.as_yaml(decided)
    if output is Format.JSON:
        return outcomes.as_json(decided)
    return outcomes.table(decided) if decided else ""
