"""`kubectl dra claims`: claims with their devices, or why they wait."""

from typing import TYPE_CHECKING

import click

from dra_operator.cli.kubectl.answering import Answer, Question, run
from dra_operator.cli.kubectl.completion import complete_names
from dra_operator.cli.kubectl.demand import Demand
from dra_operator.cli.kubectl.options import NAME, WIDE, Options, shared
from dra_operator.cli.kubectl.subjects import age_at, hint_at, labels_test
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, Row, count, names_cell, table

if TYPE_CHECKING:
    from dra_operator.questions.claims import ClaimItem

DEMAND = Demand(
    namespaced=("ResourceClaim",), required=("ResourceClaim",), engine="dra_operator.questions.claims"
)
_COLUMNS = (
    Column("NAME"),
    Column("STATE"),
    Column("NODE", is_dropped=True),
    Column("DEVICES", is_cut=True),
    Column("USED BY", is_cut=True),
    Column("AGE"),
    Column("CLASS", is_wide=True),
    Column("MESSAGE", is_cut=True),
)
_COLOURS = {
    "broken": Colour.BAD,
    "deleted": Colour.WARNING,
    "pending": Colour.WARNING,
    "reserved": Colour.GOOD,
}
_MOST_NAMED = 2
_MANY = 200


@click.command("claims")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=complete_names("ResourceClaim"))
@shared(WIDE, NAME, labels="Only claims with these labels, as kubectl has it.")
def app(names: tuple[str, ...], options: Options) -> None:
    """List claims: state, node, devices, who uses them, and why they wait or are broken.

    Exit code 0, whatever state they are in; 2 if they cannot be read or one that is named is not there.
    """
    run(options, DEMAND, lambda question: _answer(question, names))


def _answer(question: Question, names: tuple[str, ...]) -> Answer:
    from dra_operator.questions.claims import list_claims

    matches = labels_test(question.options.labels)
    claims = [
        record.obj
        for record in question.cluster.objects.of_kind("ResourceClaim")
        if (not question.namespace or record.obj.metadata.namespace == question.namespace)
        and matches(record.body)
        and (not names or record.obj.metadata.name in names)
    ]
    if missing := sorted({*names} - {claim.metadata.name for claim in claims}):
        where = f' in namespace "{question.namespace}"' if question.namespace else ""
        hint = hint_at(question, ("ResourceClaim",), question.namespace, missing[0])
        raise click.ClickException(f"there is no claim {', '.join(missing)}{where}; {hint}")
    report = list_claims(claims)
    return Answer(
        "ClaimList",
        report,
        list(_lines(question, report.items)),
        names=[f"resourceclaim.resource.k8s.io/{item.name}" for item in report.items],
        asides=_asides(question, report.items),
    )


def _lines(question: Question, items: "tuple[ClaimItem, ...]") -> list[str]:
    columns = list(_COLUMNS)
    if not question.namespace:
        columns.insert(0, Column("NAMESPACE"))
    if not any(item.message for item in items):
        columns.pop()
    rows = [_row(question, item)[: len(columns)] for item in items]
    return list(table(columns, rows, question.style)) if rows else []


def _row(question: Question, item: "ClaimItem") -> Row:

    classes = dict.fromkeys(name for request in item.requests for name in request.classes)
    cells: list[str | Cell] = [
        item.name,
        Cell(item.state.value, _COLOURS.get(item.state.value)),
        item.node or "-",
        _devices(question, item),
        names_cell([each.removeprefix("pods/") for each in item.consumers], _MOST_NAMED, ","),
        age_at(item.created, question.cluster.now),
        ",".join(classes),
        item.message,
    ]
    return cells if question.namespace else [item.namespace, *cells]


def _devices(question: Question, item: "ClaimItem") -> str | Cell:
    """Return devices: `pool/device` and how many more; with `-o wide` all of them, each with its driver."""
    if question.style.wide:
        return ",".join(item.devices) or "-"
    return names_cell([device.partition("/")[2] for device in item.devices], _MOST_NAMED, ",")


def _asides(question: Question, items: "tuple[ClaimItem, ...]") -> list[str]:
    if not items:
        where = f' in namespace "{question.namespace}": -A lists those of all' if question.namespace else ""
        return [f"there are no claims{where}"]
    found = []
    if len(items) > _MANY and question.style.width is not None:
        found.append(
            f"{count(len(items), 'claim')}: -n, -l and NAME select some, kubectl dra top counts devices"
        )
    silent = [item for item in items if item.state.value == "pending" and not item.message]
    if not silent:
        return found
    item = silent[0]
    flag = "" if question.namespace and not question.options.namespace else f" -n {item.namespace}"
    return [*found, f"to see why {item.name} waits: kubectl dra explain claim/{item.name}{flag}"]
