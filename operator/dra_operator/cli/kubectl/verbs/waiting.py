"""`kubectl dra waiting`: what waits for devices, and why: a row a reason and class, or a row each."""

from collections import defaultdict
from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import CODES, Answer, Question, partial_lines, run
from dra_operator.cli.kubectl.demand import Demand
from dra_operator.cli.kubectl.options import NAME, WIDE, Options, shared
from dra_operator.cli.kubectl.subjects import age_at, kubectl_name
from dra_operator.cli.kubectl.tables import Column, Row, names_cell, table
from dra_operator.questions.partial import DECISION

if TYPE_CHECKING:
    from dra_operator.questions.waiting import WaitingItem

DEMAND: Final = Demand.for_question(
    DECISION, required=(*DECISION.required, "ResourceClaim"), engine="dra_operator.questions.waiting"
)
_SUMS: Final = (
    Column("REASON"),
    Column("CLASS", is_cut=True),
    Column("WAITING", is_number=True),
    Column("OLDEST"),
    Column("NAMESPACES", is_cut=True),
    Column("FOR EXAMPLE"),
)
_EACH: Final = (
    Column("NAMESPACE"),
    Column("NAME"),
    Column("REASON"),
    Column("CLASS"),
    Column("AGE"),
    Column("MESSAGE", is_cut=True),
)
_MOST_NAMED: Final = 3


@click.command("waiting")
@shared(WIDE, NAME)
def app(options: Options) -> None:
    """List pods and claims that wait for devices: a row a reason and class, with -o wide a row each.

    A pod counts as one, with all its claims. Exit code 0: nothing waits; 1: something does; 2: it cannot be said.
    """
    run(options, DEMAND, _answer)


def _answer(question: Question) -> Answer:
    from dra_operator.questions.waiting import find_waiting

    report = find_waiting(question.cluster, question.namespace)
    rows = _each if question.style.wide else _sums
    asides = partial_lines(report)
    if report.items:
        first = report.items[0]
        name = f"{_kind(first)}/{first.name}"
        asides.append(f"the oldest: kubectl dra explain {name} -n {first.namespace}")
    else:
        where = f' in namespace "{question.namespace}": -A lists those of all' if question.namespace else ""
        asides.append(f"nothing waits for devices{where}")
    return Answer(
        "WaitingList",
        report,
        rows(question, report.items) if report.items else [],
        CODES[report.conclusion],
        names=[kubectl_name(item.kind, item.name) for item in report.items],
        asides=asides,
    )


def _sums(question: Question, items: "tuple[WaitingItem, ...]") -> list[str]:
    """Return a row a reason and class, the one with most first."""
    groups = defaultdict[tuple[str, tuple[str, ...]], list["WaitingItem"]](list)
    for item in items:
        groups[_reason(item), item.classes].append(item)
    rows: list[Row] = []
    for (reason, classes), found in sorted(groups.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        namespaces = sorted({item.namespace for item in found})
        first = found[0]
        example = f"{_kind(first)}/{first.name}"
        rows.append(
            [
                reason,
                names_cell(classes, _MOST_NAMED, ","),
                str(len(found)),
                age_at(first.created, question.cluster.now),
                names_cell(namespaces, _MOST_NAMED, ","),
                example if question.namespace else f"{example} -n {first.namespace}",
            ]
        )
    return list(table(_SUMS, rows, question.style))


def _each(question: Question, items: "tuple[WaitingItem, ...]") -> list[str]:
    """Return a row each, the oldest first."""
    rows: list[Row] = [
        [
            item.namespace,
            f"{_kind(item)}/{item.name}",
            _reason(item),
            ",".join(item.classes) or "-",
            age_at(item.created, question.cluster.now),
            item.message,
        ]
        for item in items
    ]
    return list(table(_EACH, rows, question.style))


def _kind(item: "WaitingItem") -> str:
    return "pod" if item.kind == "Pod" else "claim"


def _reason(item: "WaitingItem") -> str:
    """Return the reason, or for one without a name what state it is in."""
    return item.reason or item.state
