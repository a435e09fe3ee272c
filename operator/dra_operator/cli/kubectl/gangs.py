"""How `kubectl dra` prints what becomes of a gang."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dra_operator.cli.kubectl.tables import Column, Style, count, listing, sentence, wrapped

if TYPE_CHECKING:
    from dra_operator.questions.gangs import GangAnswer

_STATES: Final = {"fits": "fits", "runs": "runs", "waits": "does not fit", "undecided": "is not decided"}


def gangs_lines(style: Style, reports: "Sequence[GangAnswer]") -> Iterator[str]:
    """Yield the lines about gangs: of several the first that does not fit in full, and of the others one line."""
    waiting = [each for each in reports if each.state in ("waits", "undecided")]
    whole = reports[0] if len(reports) == 1 else next(iter(waiting), None)
    for each in reports:
        if each is not whole:
            yield from _headline(style, each)
    if whole is not None:
        yield from [""] if len(reports) > 1 else ()
        yield from gang_lines(style, whole)


def _headline(style: Style, report: "GangAnswer") -> Iterator[str]:
    number = f"{report.fitting:,} of {count(report.size, 'pod')} fit together"
    least = "" if report.at_least == report.size else f", at least {report.at_least:,} have to"
    value = f", all with {report.value}" if report.value else ""
    yield from wrapped(f"{report.subject} {_STATES[report.state]}: {number}{value}{least}", style)


def gang_lines(style: Style, report: "GangAnswer") -> Iterator[str]:
    """Yield the lines about a gang: how many of its pods fit, where, and what the next one lacks."""
    yield from _headline(style, report)
    if report.pods:
        columns = (
            Column("POD", lambda each: each.name),
            Column("NODE", lambda each: each.node),
            Column("STATE", lambda each: "bound" if each.is_bound else "fits"),
            Column(
                "DEVICES",
                lambda each: ", ".join(f"{item.pool}/{item.device}" for item in each.devices) or "-",
                is_cut=True,
            ),
        )
        yield ""
        yield from listing(columns, report.pods, style)
    if report.scheduler:
        yield ""
        yield from wrapped(report.scheduler, style)
    if report.message:
        name = f"{report.failing} does not fit beside them: {report.reason}: " if report.failing else ""
        yield ""
        yield from sentence(f"{name}{report.message}", style)
    if report.values:
        yield ""
        values = (
            Column("VALUE", lambda each: each.value),
            Column("FIT", lambda each: "?" if each.fitting is None else str(each.fitting), is_number=True),
        )
        yield from listing(values, report.values, style)
    if report.changes:
        yield ""
        yield "it would fit if"
        for change in report.changes:
            yield f"  - {change.text}"
    if report.searched:
        yield report.searched
