"""`kubectl dra fit`: how many copies of a pod, a claim, a template or a class would fit, and where."""

from typing import TYPE_CHECKING, Any, Final

from dra_operator.cli.kubectl.answering import CODES, Answer, Demand, Question, partial_lines, verb
from dra_operator.cli.kubectl.options import option
from dra_operator.cli.kubectl.subjects import copied, remove, resolve_subject, without_option
from dra_operator.cli.kubectl.tables import Column, count, listing, names_cell, sentence, wrapped
from dra_operator.questions.answers import DECISION

if TYPE_CHECKING:
    from dra_operator.questions.fit import FitAnswer

DEMAND = Demand.for_question(DECISION, required=DECISION.required, engine="dra_operator.questions.fit")
_MOST_NODES: Final = 20


@verb(
    "fit",
    DEMAND,
    copied("FILE | template/NAME | class/NAME | claim/NAME | pod/NAME"),
    option(
        *("-c", "--copies"),
        metavar="N",
        type=int,
        help="How many, at most 10,000; by default 1, or as many as a workload has pods at once.",
    ),
    without_option(),
)
def app(question: Question, *, subject: str, copies: int | None, without: tuple[str, ...]) -> Answer:
    """Say how many copies of a pod or claim would fit, where, and why the next one does not.

    They are placed one after the other, each on the first node that fits, as if they were created now; that is not the
    largest number that could be placed. Pods of a gang are placed all at once if so they are not. -f adds slices and
    nodes that are not there yet. Exit code 0: all fit; 1: they do not; 2: it cannot be said.
    """
    from dra_operator.questions.fit import FIRST_FIT, find_fit

    cluster = remove(question, without)
    report = find_fit(cluster, resolve_subject(question, subject), copies)
    is_method_told = report.fitting != report.asked > 1 or report.method != FIRST_FIT
    return Answer(
        "Fit",
        report,
        _lines(question, report),
        CODES[report.conclusion],
        names=[f"node/{each.node}" for each in report.nodes],
        asides=[*partial_lines(report), *([report.method] if is_method_told else [])],
    )


def _lines(question: Question, report: "FitAnswer") -> list[str]:
    style = question.style
    found = f"{report.fitting:,} of {count(report.asked, report.unit)} of {report.subject} fit"
    lines = list(wrapped(f"{found}{', as far as can be said' if report.partial else ''}", style))
    verb = "may not" if report.partial else "does not"
    why = "" if report.fits else f"{report.failing} {verb}: {report.reason}: {report.message}"
    if not report.copies:
        return [*lines, *wrapped(why, style)]
    behind = ["", *sentence(why, style)] if why else []
    if style.wide:
        columns = (
            Column(report.unit.upper(), lambda pair: str(pair[0]), is_number=True),
            Column("NODE", lambda pair: pair[1].node or "-"),
            Column("DEVICES", lambda pair: ", ".join(_paths(pair[1].devices, wide=True)) or "-"),
        )
        return [*lines, "", *listing(columns, list(enumerate(report.copies, 1)), style), *behind]
    devices: dict[str, list[str]] = {}
    for copy in report.copies:
        devices.setdefault(copy.node, []).extend(_paths(copy.devices, wide=False))
    columns = (
        Column("NODE", lambda each: each.node or "(any)"),
        Column("COPIES" if report.unit == "copy" else "PODS", lambda each: str(each.copies), is_number=True),
        Column("DEVICES", lambda each: names_cell(devices[each.node]), is_cut=True),
    )
    nodes = report.nodes if style.width is None else report.nodes[:_MOST_NODES]
    more = len(report.nodes) - len(nodes)
    return [
        *lines,
        "",
        *listing(columns, nodes, style),
        *([f"and {count(more, 'more node')}"] if more else []),
        *behind,
    ]


def _paths(devices: Any, *, wide: bool) -> list[str]:
    return [
        f"{each.driver}/{each.pool}/{each.device}" if wide else f"{each.pool}/{each.device}"
        for each in devices
    ]
