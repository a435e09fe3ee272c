"""`kubectl dra headroom`: how much more there is room for."""

from collections.abc import Iterator
from itertools import groupby
from math import ceil
from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import (
    CODES,
    Answer,
    Demand,
    Question,
    partial_lines,
    verb,
    write_page,
)
from dra_operator.cli.kubectl.options import WIDE, option
from dra_operator.cli.kubectl.subjects import copied, remove, resolve_subject, without_option
from dra_operator.cli.kubectl.tables import Column, count, listing, names_cell, sentence, wrapped
from dra_operator.questions.answers import DECISION

if TYPE_CHECKING:
    from dra_operator.history.room import PastHeadroom
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
_MARKS: Final = {"none": "x", "unknown": "?"}


@verb(
    "headroom",
    DEMAND,
    copied("class/NAME | template/NAME | FILE | claim/NAME | pod/NAME"),
    option("--by", metavar="CAPACITY", help="What the largest device left has most of, as memory."),
    without_option(),
    option(
        "--for",
        "period",
        metavar="DURATION",
        help="With --history: from each hour of the last 30d, say, how long until there was room.",
    ),
    option("--html", metavar="FILE", help="With --for: write it as one page for a browser, too."),
    formats=(WIDE,),
)
def app(
    question: Question, *, subject: str, by: str, without: tuple[str, ...], period: str, html: str
) -> Answer:
    """Say how many more devices of a class, or copies of a template, there is room for.

    Also the largest device left, and which free devices are stranded: no further copy can take them. Copies are placed
    one after the other as `kubectl dra fit` does; of a gang whole ones count. Exit code 0: there is room for one more;
    1: there is none; 2: it cannot be said. With --history and --for, how long it was until there was room for one.
    """
    if period or html:
        if by or without or not period:
            raise click.UsageError("--html is for --for, which is asked without --by and --without")
        return _past(question, subject, period, html)
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


def _past(question: Question, subject: str, period: str, html: str) -> Answer:
    """Return from each hour of a record how long it was until there was room for one copy."""
    from dra_operator.cli.kubectl.source import read_record, read_span, read_time
    from dra_operator.questions.copies import find_template

    options = question.options
    if not options.history:
        raise click.UsageError("--for asks a record: name it with --history")
    reader = read_record(options.history)
    from dra_operator.history.page import render_room
    from dra_operator.history.reader import Span
    from dra_operator.history.room import find_past_headroom

    until = read_time(options.at) if options.at else reader.span.until
    _, template = find_template(question.cluster, resolve_subject(question, subject))
    span = Span(max(until - read_span(period), reader.span.since), until)
    report = find_past_headroom(reader, span, template)
    if html:
        write_page(html, render_room(report))
    unsure = [f"{report.unsure:,} searches took too long, and count as no room"] if report.unsure else []
    return Answer("PastHeadroom", report, [*_plot(report)], asides=[*template.find_unchecked(), *unsure])


def _plot(report: "PastHeadroom") -> Iterator[str]:
    """Yield a line a day, with a character for each hour: how many hours it was until there was room."""
    yield f"room for one more of {report.subject} at once in {report.at_once:,} of {len(report.hours):,} hours"
    yield f"{'':12}00    06    12    18     (UTC)"
    for day, hours in groupby(report.hours, key=lambda hour: hour.at[:10]):
        marks = [" "] * 24
        for each in hours:
            number = min(ceil((each.wait or 0) / 3600), 9)
            marks[int(each.at[11:13])] = _MARKS.get(each.room) or (str(number) if number else ".")
        yield f"{day}  {''.join(marks)}".rstrip()
    yield (
        ". at once; 1-8: room within so many hours; 9: nine or more; x: no room to the end of the record; "
        "?: not recorded"
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
