"""`kubectl dra headroom`: how much more there is room for."""

from typing import TYPE_CHECKING, Final

from dra_operator.cli.kubectl.answering import CODES, Answer, Demand, Question, partial_lines, verb
from dra_operator.cli.kubectl.options import WIDE, option
from dra_operator.cli.kubectl.subjects import copied, remove, resolve_subject, without_option
from dra_operator.cli.kubectl.tables import Column, count, listing, names_cell, sentence, wrapped
from dra_operator.questions.answers import DECISION

if TYPE_CHECKING:
    from dra_operator.questions.headroom import HeadroomAnswer

DEMAND = Demand.for_question(DECISION, required=DECISION.required, engine="dra_operator.questions.headroom")
_STRANDED_COLUMNS: Final = (
    Column("STRANDED", lambda each: f"{each.devices:,}", is_number=True),
    Column("REASON", lambda each: each.reason),
    Column("BECAUSE", lambda each: each.message, is_cut=True),
    # Of those beyond the examples only the number is known.
    Column(
        "DEVICES",
        lambda each: names_cell(
            [path.partition("/")[2] for path in each.examples], more=each.devices - len(each.examples)
        ),
        is_cut=True,
    ),
)
_MOST_NODES: Final = 10


@verb(
    "headroom",
    DEMAND,
    copied("class/NAME | template/NAME | FILE | claim/NAME | pod/NAME"),
    option("--by", metavar="CAPACITY", help="What the largest device left has most of, as memory."),
    without_option(),
    formats=(WIDE,),
)
def app(question: Question, *, subject: str, by: str, without: tuple[str, ...]) -> Answer:
    """Say how many more devices of a class, or copies of a template, there is room for.

    Also the largest device left, and which free devices are stranded: no further copy can take them. Copies are placed
    one after the other as `kubectl dra fit` does; of a gang whole ones count. Exit code 0: there is room for one more;
    1: there is none; 2: it cannot be said.
    """
    from dra_operator.questions.headroom import find_headroom

    cluster = remove(question, without)
    report = find_headroom(cluster, resolve_subject(question, subject), by)
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
    pods = f", each with all {count(report.pods, 'pod')} at once" if report.pods > 1 else ""
    lines = list(wrapped(f"room for {_number(report)} more of {report.subject}{pods}", style))
    if report.largest is not None:
        largest = report.largest
        lines += wrapped(
            f"largest left: {largest.pool}/{largest.device}, {largest.capacity.rpartition('/')[2]} {largest.amount}",
            style,
        )
    if report.nodes:
        found = sorted(report.nodes, key=lambda each: (-each.copies, each.node))
        shown = found if style.wide else found[:_MOST_NODES]
        columns = (
            Column("NODE", lambda each: each.node or "(any)"),
            Column("MORE" if report.pods == 1 else "PODS", lambda each: f"{each.copies:,}", is_number=True),
        )
        lines += ["", *listing(columns, shown, style)]
        if rest := len(found) - len(shown):
            lines.append(f"and {count(rest, 'more node')}; -o wide lists them")
    if report.obstacles:
        lines += ["", *listing(_STRANDED_COLUMNS, report.obstacles, style)]
    if report.overlapping:
        lines.append(f"{count(report.overlapping, 'more partition')} overlap with these")
    if report.reason and not report.unlimited:
        text = f"one more does not fit: {report.reason}: {report.message}"
        is_alone = not (report.nodes or report.obstacles)
        lines += wrapped(text, style) if is_alone else ["", *sentence(text, style)]
    return lines
