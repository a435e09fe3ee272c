"""`dra-operator simulate`: what the operator would decide, from files alone.

Manifests in, decisions out, no cluster anywhere: to try a claim before it is applied, to see what a taint or
another node would change, to run the state of a cluster again that `snapshot` wrote. The table has one line a claim,
for reading and for `diff`; scripts take the claims as kubectl prints them.
Source: docs/cli.md.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dra_operator.api.core import NodeSelector
from dra_operator.api.names import BROKEN_ANNOTATION, FINALIZER, PENDING_ANNOTATION
from dra_operator.api.node_selector import pinned_to
from dra_operator.api.text import printable
from dra_operator.api.types import AllocationResult, DeviceRequestAllocationResult
from dra_operator.api.versions import FOLLOWED, Rules, Version, rules_of
from dra_operator.api.write import allocation_to_wire, to_wire
from dra_operator.cli.kubectl.options import use_colours
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, Style, listing
from dra_operator.cli.output import FILE, PLACE, opened, refuse, refusing
from dra_operator.pods.claim_sets import Outcome, State
from dra_operator.questions.allocate import decide_all
from dra_operator.questions.answers import UnknownObjectError
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.contents import LoadResult
from dra_operator.questions.fault_texts import everywhere
from dra_operator.questions.gangs import find_gang_notes
from dra_operator.questions.load import gather
from dra_operator.questions.manifests import find_header, read, to_yaml


def _named(_ctx: click.Context, _param: click.Parameter, nodes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of nodes. Raises BadParameter if one is empty."""
    if "" in nodes:
        raise click.BadParameter(
            "an empty name names no node; it may come from a variable that the shell does not know"
        )
    return nodes


@click.command("simulate")
@click.argument("more", type=PLACE, metavar="[FILE_OR_DIR]...", nargs=-1)
@click.option(
    *("-f", "--filename", "files"),
    type=PLACE,
    multiple=True,
    metavar="FILE_OR_DIR",
    help="Manifests, YAML or JSON; a folder with everything below it; - is stdin. May be repeated; -f may be left out.",
)
@click.option(
    *("--node", "nodes"),
    multiple=True,
    metavar="NODE",
    callback=_named,
    help="Allow only this node. May be repeated.",
)
@click.option(
    "--kubernetes",
    type=click.Choice(FOLLOWED),
    help="Version of Kubernetes whose rules decide: that of the snapshot, or 1.37, if left out.",
)
@click.option(
    *("-o", "--output"),
    type=click.Choice(("table", "yaml", "json")),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option("--out", type=FILE, metavar="FILE", help="Write to this file; .gz is compressed.")
def app(
    *,
    more: tuple[str, ...],
    files: tuple[str, ...],
    nodes: tuple[str, ...],
    kubernetes: Version | None,
    output: str,
    out: Path | None,
) -> None:
    """Decide the claims in some manifests, those of pods as kube-scheduler would. Needs no cluster.

    Exit code 0: every claim has its devices; 1: a claim waits or is broken; 2: something could not be read.
    """
    places = [*files, *more]
    gathered = _load(places)
    try:
        cluster = Cluster(gathered, only_nodes=nodes, rules=_rules(kubernetes, places))
    except UnknownObjectError as error:
        refuse(*map(printable, (*gathered.errors, f"--node: {error}")))
    _say(f"error: {line}" for line in cluster.errors)
    decided = decide_all(cluster)
    _say(f"note: {line}" for line in (*decided.notes, *find_gang_notes(cluster)))
    with refusing(None, out):
        _print(decided.outcomes, output, out)
    counts = Counter(outcome.state for outcome in decided.outcomes)
    _say([", ".join(f"{counts[state]} {state.value}" for state in State if counts[state]) or "no claims"])
    if cluster.errors:
        sys.exit(2)
    if decided.missing or counts[State.PENDING] or counts[State.BROKEN]:
        sys.exit(1)


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
        click.echo(printable(line), err=True)


def _print(decided: Sequence[Outcome], output: str, out: Path | None) -> None:
    # As `kubectl get` prints them.
    if output == "yaml":
        text = to_yaml(_list(decided))
    elif output == "json":
        text = json.dumps(_list(decided), indent=4, sort_keys=True, ensure_ascii=False) + "\n"
    else:
        is_shown = out is None and sys.stdout.isatty()
        text = table(decided, Style(colours=use_colours()) if is_shown else _PLAIN)
    if out is None:
        click.echo(text, nl=False)
    else:
        with opened(out, "wb") as file:
            file.write(text.encode())


_PLAIN = Style(gap=2)
_COLOURS = {
    State.ALLOCATED: Colour.GOOD,
    State.BROKEN: Colour.BAD,
    State.PENDING: Colour.WARNING,
    State.LEFT_ALONE: Colour.QUIET,
}


def table(outcomes: Sequence[Outcome], style: Style) -> str:
    """Return the outcomes as lines, columns aligned; a terminal wraps what is long."""
    columns = (
        Column("CLAIM", lambda each: f"{each.claim.metadata.namespace}/{each.claim.metadata.name}"),
        Column("STATE", lambda each: Cell(each.state.value, _COLOURS.get(each.state))),
        Column("NODE", lambda each: "-" if each.allocation is None else _where(each.allocation)),
        Column("DEVICES, OR WHY NOT", _details),
    )
    return "".join(f"{line}\n" for line in listing(columns, outcomes, style))


def body(outcome: Outcome) -> dict[str, Any]:
    """Return the claim as it would be in the cluster afterwards, without the time of the allocation."""
    before = outcome.record.body
    claim = {**before, "spec": to_wire(outcome.claim).get("spec", {})}
    metadata: dict[str, Any] = {**before["metadata"]}
    annotations = {**(metadata.get("annotations") or {})}
    if outcome.state is State.PENDING:
        annotations[PENDING_ANNOTATION] = outcome.message
    if outcome.state is State.BROKEN:
        annotations[BROKEN_ANNOTATION] = outcome.message
    if outcome.state is State.ALLOCATED and outcome.allocation is not None:
        annotations.pop(PENDING_ANNOTATION, None)
        finalizers = [*(metadata.get("finalizers") or ())]
        metadata["finalizers"] = finalizers if FINALIZER in finalizers else [*finalizers, FINALIZER]
        claim["status"] = {
            **(before.get("status") or {}),
            "allocation": allocation_to_wire(outcome.allocation),
        }
    metadata.pop("annotations", None)
    return {**claim, "metadata": {**metadata, "annotations": annotations} if annotations else metadata}


def _list(outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
    return {
        "apiVersion": "v1",
        "items": [body(outcome) for outcome in outcomes],
        "kind": "List",
        "metadata": {"resourceVersion": ""},
    }


def _details(outcome: Outcome) -> str:
    if outcome.allocation is not None and outcome.state is not State.BROKEN:
        return _devices(outcome.allocation)
    is_explained = outcome.allocation is None and outcome.reason
    return f"{outcome.reason}: {outcome.message}" if is_explained else outcome.message


def _where(allocation: AllocationResult) -> str:
    """Return where an allocation can be used: on every node, on one, or on those with certain labels."""
    selector = allocation.node_selector
    if selector is None:
        return everywhere(allocation)
    return pinned_to(selector) or " or ".join(_terms(selector))


def _terms(selector: NodeSelector) -> Iterator[str]:
    for term in selector.node_selector_terms:
        yield " and ".join(
            f"{item.key} {item.operator} {','.join(item.values)}".rstrip()
            for item in (*term.match_fields, *term.match_expressions)
        )


def _devices(allocation: AllocationResult) -> str:
    """Return the devices by request: `gpu: driver/pool/device, driver/pool/device; nic: …`."""
    requests: dict[str, list[str]] = {}
    for result in allocation.devices.results:
        requests.setdefault(result.request, []).append(_device(result))
    return "; ".join(f"{name}: {', '.join(devices)}" for name, devices in requests.items()) or "no devices"


def _device(result: DeviceRequestAllocationResult) -> str:
    details = [f"{name} {amount}" for name, amount in result.consumed_capacity.items()]
    if result.admin_access:
        details.append("admin access")
    name = f"{result.driver}/{result.pool}/{result.device}"
    return f"{name} ({', '.join(details)})" if details else name
