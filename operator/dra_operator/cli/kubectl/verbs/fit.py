"""`kubectl dra fit`: how many copies of a pod, a claim, a template or a class would fit, and where."""

from typing import TYPE_CHECKING, Any, Final

import click

from dra_operator.cli.kubectl.answering import CODES, Answer, Question, partial_lines, run
from dra_operator.cli.kubectl.completion import complete_subjects
from dra_operator.cli.kubectl.demand import Demand
from dra_operator.cli.kubectl.options import NAME, WIDE, Options, shared
from dra_operator.cli.kubectl.subjects import COPIED, remove, resolve_subject, without_option
from dra_operator.cli.kubectl.tables import Column, Row, count, names_cell, table, wrapped
from dra_operator.questions.partial import DECISION

if TYPE_CHECKING:
    from dra_operator.questions.fit import FitAnswer

DEMAND = Demand.for_question(DECISION, required=DECISION.required, engine="dra_operator.questions.fit")
_COLUMNS: Final = (Column("NODE"), Column("COPIES", is_number=True), Column("DEVICES", is_cut=True))
_COPY_COLUMNS: Final = (Column("COPY", is_number=True), Column("NODE"), Column("DEVICES"))
_MOST_NODES: Final = 20


@click.command("fit")
@click.argument(
    "subject",
    metavar="FILE | template/NAME | class/NAME | claim/NAME | pod/NAME",
    shell_complete=complete_subjects(COPIED),
)
@click.option(
    "-c",
    "--copies",
    metavar="N",
    type=int,
    help="How many, at most 10,000; by default 1, or as many as a workload has pods at once.",
)
@without_option
@shared(WIDE, NAME)
def app(*, subject: str, copies: int | None, without: tuple[str, ...], options: Options) -> None:
    """Say how many copies of a pod or claim would fit, where, and why the next one does not.

    They are placed one after the other, each on the first node that fits, as if they were created now; that is not the
    largest number that could be placed. -f adds slices and nodes that are not there yet. Exit code 0: all fit; 1: they
    do not; 2: it cannot be said.
    """
    run(options, DEMAND, lambda question: _answer(question, subject, copies, without))


def _answer(question: Question, text: str, copies: int | None, without: tuple[str, ...]) -> Answer:
    from dra_operator.questions.copies import count_pods
    from dra_operator.questions.fit import find_fit

    cluster = remove(question, without)
    subject = resolve_subject(question, text)
    report = find_fit(cluster, subject, count_pods(subject) if copies is None else copies)
    return Answer(
        "Fit",
        report,
        _lines(question, report),
        CODES[report.conclusion],
        names=[f"node/{each.node}" for each in report.nodes],
        asides=[*partial_lines(report), *([report.method] if report.fitting != report.asked > 1 else [])],
    )


def _lines(question: Question, report: "FitAnswer") -> list[str]:
    style = question.style
    found = f"{report.fitting:,} of {count(report.asked, 'copy')} of {report.subject} fit"
    lines = list(wrapped(f"{found}{', as far as can be said' if report.partial else ''}", style))
    if not report.fits:
        number = report.fitting + 1
        verb = "may not" if report.partial else "does not"
        lines += wrapped(f"copy {number:,} {verb}: {report.reason}: {report.message}", style)
    if not report.copies:
        return lines
    if style.wide:
        rows: list[Row] = [
            [str(number), copy.node or "-", ", ".join(_paths(copy.devices, wide=True)) or "-"]
            for number, copy in enumerate(report.copies, 1)
        ]
        return [*lines, "", *table(_COPY_COLUMNS, rows, style)]
    devices: dict[str, list[str]] = {}
    for copy in report.copies:
        devices.setdefault(copy.node, []).extend(_paths(copy.devices, wide=False))
    nodes = report.nodes if style.width is None else report.nodes[:_MOST_NODES]
    rows = [[each.node or "(any)", str(each.copies), names_cell(devices[each.node])] for each in nodes]
    more = len(report.nodes) - len(nodes)
    return [*lines, "", *table(_COLUMNS, rows, style), *([f"and {count(more, 'more node')}"] if more else [])]


def _paths(devices: Any, *, wide: bool) -> list[str]:
    return [
        f"{each.driver}/{each.pool}/{each.device}" if wide else f"{each.pool}/{each.device}"
        for each in devices
    ]
