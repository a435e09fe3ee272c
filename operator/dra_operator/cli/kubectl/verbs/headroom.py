"""`kubectl dra headroom`: how much more there is room for."""

from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import CODES, Answer, Question, partial_lines, run
from dra_operator.cli.kubectl.completion import complete_subjects
from dra_operator.cli.kubectl.demand import Demand
from dra_operator.cli.kubectl.options import WIDE, Options, shared
from dra_operator.cli.kubectl.subjects import COPIED, remove, resolve_subject, without_option
from dra_operator.cli.kubectl.tables import Cell, Column, Row, count, names_cell, table, wrapped
from dra_operator.questions.partial import DECISION

if TYPE_CHECKING:
    from dra_operator.questions.headroom import HeadroomAnswer, StrandedDevices

DEMAND = Demand.for_question(DECISION, required=DECISION.required, engine="dra_operator.questions.headroom")
_NODE_COLUMNS: Final = (Column("NODE"), Column("MORE", is_number=True))
_STRANDED_COLUMNS: Final = (
    Column("STRANDED", is_number=True),
    Column("REASON"),
    Column("BECAUSE", is_cut=True),
    Column("DEVICES", is_cut=True),
)
_MOST_NODES: Final = 10


@click.command("headroom")
@click.argument(
    "subject",
    metavar="class/NAME | template/NAME | FILE | claim/NAME | pod/NAME",
    shell_complete=complete_subjects(COPIED),
)
@click.option(
    "--by", metavar="CAPACITY", default="", help="What the largest device left has most of, as memory."
)
@without_option
@shared(WIDE)
def app(*, subject: str, by: str, without: tuple[str, ...], options: Options) -> None:
    """Say how many more devices of a class, or copies of a template, there is room for.

    Also the largest device left, and which free devices are stranded: no further copy can take them. Copies are placed
    one after the other as `kubectl dra fit` does. Exit code 0: there is room for one more; 1: there is none; 2: it
    cannot be said.
    """
    run(options, DEMAND, lambda question: _answer(question, subject, by, without))


def _answer(question: Question, text: str, by: str, without: tuple[str, ...]) -> Answer:
    from dra_operator.questions.headroom import find_headroom

    cluster = remove(question, without)
    report = find_headroom(cluster, resolve_subject(question, text), by)
    has_room = report.more > 0 or report.unlimited
    return Answer(
        "Headroom",
        report,
        _lines(question, report),
        CODES[report.conclusion],
        asides=[*partial_lines(report), *([report.method] if has_room and not report.unlimited else [])],
    )


def _number(report: "HeadroomAnswer") -> str:
    """Return for how many there is room, with what is known of it."""
    number = "an unlimited number of" if report.unlimited else f"{report.more:,}"
    if report.partial:
        return f"{number} (it may be fewer, or more)"
    return f"{number} or more" if report.is_capped else number


def _lines(question: Question, report: "HeadroomAnswer") -> list[str]:
    style = question.style
    lines = list(wrapped(f"room for {_number(report)} more of {report.subject}", style))
    if report.largest is not None:
        largest = report.largest
        lines += wrapped(
            f"largest left: {largest.pool}/{largest.device}, {largest.capacity.rpartition('/')[2]} {largest.amount}",
            style,
        )
    if report.reason and not report.unlimited:
        lines += wrapped(f"one more does not fit: {report.reason}: {report.message}", style)
    if report.nodes:
        found = sorted(report.nodes, key=lambda each: (-each.copies, each.node))
        shown = found if style.wide else found[:_MOST_NODES]
        rows: list[Row] = [[each.node or "(any)", f"{each.copies:,}"] for each in shown]
        lines += ["", *table(_NODE_COLUMNS, rows, style)]
        if rest := len(found) - len(shown):
            lines.append(f"and {count(rest, 'more node')}; -o wide lists them")
    if report.obstacles:
        rows = [
            [
                f"{each.devices:,}",
                each.reason,
                each.message,
                _examples(each),
            ]
            for each in report.obstacles
        ]
        lines += ["", *table(_STRANDED_COLUMNS, rows, style)]
    if report.overlapping:
        lines.append(f"{count(report.overlapping, 'more partition')} overlap with these")
    return lines


def _examples(stranded: "StrandedDevices") -> Cell:
    """Return the first of some devices, and how many more there are: of those beyond the examples only the number."""
    names = [path.partition("/")[2] for path in stranded.examples]
    return names_cell(names, more=stranded.devices - len(names))
