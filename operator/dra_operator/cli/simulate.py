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
from dra_operator.api.versions import FOLLOWED, Rules, Version, rules_of
from dra_operator.cli import outcomes
from dra_operator.cli.arguments import choice_of, file_path, node_name, place
from dra_operator.cli.output import opened, refuse, refusing
from dra_operator.pods.scheduler import Outcome, State
from dra_operator.questions.allocate import decide_all
from dra_operator.questions.assumed_nodes import UnknownNodeError
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.contents import LoadResult
from dra_operator.questions.load import gather
from dra_operator.questions.manifests import read
from dra_operator.questions.snapshot_header import find_header

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class Format(StrEnum):
    """How the outcome is printed."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


_Kubernetes = Annotated[
    Version | None,
    typer.Option(
        metavar=f"[{'|'.join(FOLLOWED)}]",
        parser=choice_of(FOLLOWED),
        help="Version of Kubernetes whose rules decide: that of the snapshot, or 1.37, if left out.",
    ),
]


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
    kubernetes: _Kubernetes = None,
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

    Exit code 0: every claim has its devices; 1: a claim waits or is broken; 2: something could not be read.
    """
    places = [*(file or ()), *(more or ())]
    gathered = _load(places)
    try:
        cluster = Cluster(gathered, only_nodes=node or (), rules=_rules(kubernetes, places))
    except UnknownNodeError as error:
        refuse(*map(printable, (*gathered.errors, f"--node: {error}")))
    _say(f"error: {line}" for line in cluster.errors)
    decided = decide_all(cluster)
    _say(f"note: {line}" for line in decided.notes)
    with refusing(None, out):
        _print(decided.outcomes, output, out)
    counts = Counter(outcome.state for outcome in decided.outcomes)
    _say([", ".join(f"{counts[state]} {state.value}" for state in State if counts[state]) or "no claims"])
    if cluster.errors:
        raise typer.Exit(2)
    if decided.missing or counts[State.PENDING] or counts[State.BROKEN]:
        raise typer.Exit(1)


def _load(places: Sequence[str]) -> LoadResult:
    if not places:
        refuse("no manifests are given: name files or folders, as in -f FILE")
    found = list(read(places))
    if not found:
        refuse("there is no object in what is given")
    return gather(found)


def _rules(kubernetes: Version | None, places: Sequence[str]) -> Rules:
    """Return the rules that were chosen, or those of the cluster of which a snapshot is among the files."""
    header = None if kubernetes else find_header(places)
    return rules_of(kubernetes or (header.kubernetes if header is not None else ""))


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        # What is in files may be meant for the terminal.
        typer.echo(printable(line), err=True)


def _print(decided: Sequence[Outcome], output: Format, out: Path | None) -> None:
    is_shown = output is Format.TABLE and out is None and sys.stdout.isatty()
    text = outcomes.coloured_table(decided) if is_shown else _text(decided, output)
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
