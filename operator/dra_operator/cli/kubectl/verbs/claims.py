"""`kubectl dra claims`: claims with their devices, or why they wait."""

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from dra_operator.cli.kubectl.answering import Answer, Demand, Question, verb
from dra_operator.cli.kubectl.options import complete_names, option
from dra_operator.cli.kubectl.subjects import age_at, hint_at, labels_test, source_flags
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, count, listing, names_cell

if TYPE_CHECKING:
    from dra_operator.questions.claims import ClaimItem

DEMAND = Demand(
    namespaced=("ResourceClaim",), required=("ResourceClaim",), engine="dra_operator.questions.claims"
)
_COLOURS = {
    "broken": Colour.BAD,
    "deleted": Colour.WARNING,
    "pending": Colour.WARNING,
    "reserved": Colour.GOOD,
}
_STATES = ("pending", "allocated", "reserved", "broken", "deleted")
_MOST_NAMED = 2


@verb(
    "claims",
    DEMAND,
    click.Argument(["names"], metavar="[NAME]...", nargs=-1, shell_complete=complete_names("ResourceClaim")),
    option(
        *("--state", "states"),
        type=click.Choice(_STATES),
        multiple=True,
        help="Only those in a state. May be repeated.",
    ),
    labels="Only claims with these labels, as kubectl has it.",
)
def app(question: Question, *, names: tuple[str, ...], states: tuple[str, ...]) -> Answer:
    """List claims: state, node, devices, who uses them, and why they wait or are broken.

    Exit code 0, whatever state they are in; 2 if they cannot be read or one that is named is not there.
    """
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
    if states:
        report = replace(report, items=tuple([item for item in report.items if item.state in states]))
    return Answer(
        "ClaimList",
        report,
        listing(_columns(question), report.items, question.style),
        names=[f"resourceclaim.resource.k8s.io/{item.name}" for item in report.items],
        asides=_asides(question, report.items, states),
        many=f"{count(len(report.items), 'claim')}: -n, -l, --state, NAME select some; kubectl dra top counts devices",
    )


def _columns(question: Question) -> list[Column]:
    namespace = [] if question.namespace else [Column("NAMESPACE", lambda item: item.namespace)]
    return [
        *namespace,
        Column("NAME", lambda item: item.name),
        Column("STATE", lambda item: Cell(item.state.value, _COLOURS.get(item.state.value))),
        Column("NODE", lambda item: item.node or "-", is_dropped=True),
        Column("DEVICES", lambda item: _devices(question, item), is_cut=True),
        Column("USED BY", _users, is_cut=True),
        Column("AGE", lambda item: age_at(item.created, question.cluster.now)),
        Column("CLASS", _classes, is_wide=True),
        Column("MESSAGE", lambda item: item.message, is_cut=True, is_optional=True),
    ]


def _users(item: "ClaimItem") -> Cell:
    return names_cell([each.removeprefix("pods/") for each in item.consumers], _MOST_NAMED, ",")


def _classes(item: "ClaimItem") -> str:
    return ",".join(dict.fromkeys(name for request in item.requests for name in request.classes))


def _devices(question: Question, item: "ClaimItem") -> str | Cell:
    """Return devices: `pool/device` and how many more; with `-o wide` all of them, each with its driver."""
    if question.style.wide:
        return ",".join(item.devices) or "-"
    return names_cell([device.partition("/")[2] for device in item.devices], _MOST_NAMED, ",")


def _asides(question: Question, items: "tuple[ClaimItem, ...]", states: tuple[str, ...]) -> list[str]:
    if not items and states:
        return [f"no claim is {' or '.join(states)}"]
    if not items:
        where = f' in namespace "{question.namespace}": -A lists those of all' if question.namespace else ""
        return [f"there are no claims{where}"]
    silent = [item for item in items if item.state.value == "pending" and not item.message]
    if not silent:
        return []
    item = silent[0]
    flag = "" if question.namespace and not question.options.namespace else f" -n {item.namespace}"
    return [
        f"to see why {item.name} waits: kubectl dra explain claim/{item.name}{flag}{source_flags(question)}"
    ]
