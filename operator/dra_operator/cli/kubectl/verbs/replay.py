"""`kubectl dra replay`: what would have happened, by a record, as it was or with other objects."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from dra_operator.cli.kubectl.answering import NO, YES, Answer, refusing, say, show
from dra_operator.cli.kubectl.options import JSON, YAML, Options, option, record_options, use_colours
from dra_operator.cli.kubectl.requests import ReadingError
from dra_operator.cli.kubectl.source import read_record_span
from dra_operator.cli.kubectl.subjects import parse_subject
from dra_operator.cli.kubectl.tables import Column, listing, terminal_style

if TYPE_CHECKING:
    from dra_operator.history.check import CheckReport
    from dra_operator.history.comparison import ReplayReport, ReplayRow
    from dra_operator.history.reader import Reader, Span
    from dra_operator.history.timeline import Changes

_ADDED: Final = ("Node", "ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourceClaimTemplate")
_REMOVED: Final = ("Node", "DeviceClass", "DeviceTaintRule", "Namespace")


@click.command(
    "replay",
    params=[
        *record_options(),
        option(
            "--with",
            "added",
            metavar="FILE",
            multiple=True,
            help="With other nodes, slices, classes or templates.",
        ),
        option(
            "--without",
            "removed",
            metavar="KIND/NAME",
            multiple=True,
            help="Without a node, class, rule or namespace.",
        ),
        option(
            "--order",
            type=click.Choice(["fifo", "priority"]),
            default="fifo",
            show_default=True,
            help="What is tried first: what came first, or what has the higher priority.",
        ),
        option("--check", is_flag=True, help="Decide each recorded decision again on its node, and compare."),
        option(
            "-o",
            "--output",
            "format",
            type=click.Choice([JSON, YAML]),
            help="Output format; a table if left out.",
        ),
        option("--no-headers", is_flag=True, help="No line of column names."),
    ],
)
def app(
    *,
    url: str,
    since: str,
    until: str,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    order: str,
    check: bool,
    format: str | None,  # noqa: A002 - as all verbs name it
    no_headers: bool,
) -> None:
    """Say how long jobs would have waited, and what cards would have been: with other nodes, devices or templates.

    The jobs of the record come when they came and run as long as they ran. RECORD is what happened, REPLAY what the
    simulation makes of the same, CHANGED of what is different: compare these two. Exit code 0; 1 if --check found a
    difference; 2 if there is no answer.

    Example: kubectl dra replay --history history.db --since 30d --with four-nodes.yaml.
    """
    options = Options(format=format or "", headers=not no_headers)
    with refusing():
        if check and (added or removed):
            raise click.UsageError("--check decides what was decided: leave out --with and --without")
        reader, span = read_record_span(url, since, until)
        if check:
            _show_check(reader, span, options)
        report = _compare(reader, span, _read_changes(added, removed), order)
    show(Answer("ReplayReport", report, _tables(report, options)), options)
    say(f"note: {line}" for line in (f"from {report.since} to {report.until}", *report.notes))
    raise SystemExit(YES)


def _read_changes(added: Sequence[str], removed: Sequence[str]) -> "Changes":
    from dra_operator.history.timeline import Changes
    from dra_operator.questions.load import gather
    from dra_operator.questions.manifests import read_source

    bodies: list[Any] = []
    if added:
        gathered = gather(read_source([Path(path) for path in added]))
        if gathered.errors:
            raise ReadingError("\n".join(gathered.errors))
        for (kind, _, name), record in gathered.records.items():
            if kind not in _ADDED:
                raise click.UsageError(f"--with: {kind} {name}: choose from {', '.join(_ADDED)}")
            bodies.append(record.body)
    subjects = [parse_subject(text, _REMOVED) for text in removed]
    return Changes(tuple(bodies), frozenset((each.kind, each.name) for each in subjects))


def _compare(reader: "Reader", span: "Span", changes: "Changes", order: str) -> "ReplayReport":
    from dra_operator.history.comparison import compare
    from dra_operator.history.replay import Order
    from dra_operator.history.schema import StoreError

    try:
        return compare(reader, span, changes, Order(order))
    except StoreError as error:
        raise ReadingError(str(error)) from error


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"


def _tables(report: "ReplayReport", options: Options) -> list[str]:
    style = terminal_style(wide=False, headers=options.headers, colours=use_colours())

    def hours(field: str) -> Column:
        return Column(field.upper(), lambda row: f"{float(getattr(row, field)):,.2f}", is_number=True)

    def wait(field: str) -> Column:
        return Column(field.upper(), lambda row: _duration(getattr(row, field)), is_number=True)

    columns = [
        Column("NAMESPACE", lambda row: row.namespace or "(all)"),
        Column("CLASS", lambda row: row.device_class or "(all)"),
        Column("BY", lambda row: row.source),
        Column("JOBS", lambda row: f"{row.waits:,}", is_number=True),
        Column("UNSERVED", lambda row: f"{row.unserved:,}", is_number=True),
        *(wait("p50"), wait("p90"), wait("mean"), hours("held")),
    ]
    states = ("published", "used", "shared", "free", "tainted", "blocked", "unknown")
    cards = [Column("BY", lambda row: row.source), *map(hours, states)]
    return [
        *listing(columns, report.rows, style),
        "",
        *listing(cards, report.cards, style),
        *_differences(report),
    ]


def _differences(report: "ReplayReport") -> Iterator[str]:
    """Yield what the change makes of the waits of all, in a line."""
    by_source = {row.source: row for row in report.rows if not row.namespace}
    if (changed := by_source.get("changed")) is None:
        return
    before: ReplayRow = by_source["replay"]
    parts = [
        f"{name} {_duration(getattr(before, name))} -> {_duration(getattr(changed, name))}"
        for name in ("p50", "p90", "mean")
    ]
    yield ""
    yield f"with the change: {', '.join(parts)}; unserved {before.unserved:,} -> {changed.unserved:,}"


def _show_check(reader: "Reader", span: "Span", options: Options) -> None:
    from dra_operator.history.check import check_decisions

    report: CheckReport = check_decisions(reader, span)
    style = terminal_style(wide=False, headers=options.headers, colours=use_colours())
    columns = [
        Column("CLAIMS", lambda row: row.claims),
        Column("NODE", lambda row: row.node),
        Column("DIFFERENCE", lambda row: row.difference),
        Column("RECORDED", lambda row: ", ".join(row.recorded), is_cut=True),
        Column("DECIDED", lambda row: ", ".join(row.decided), is_cut=True),
    ]
    lines = [f"{report.same:,} of {report.decisions:,} decisions get the same devices again"]
    if report.differences:
        lines += ["", *listing(columns, report.differences, style)]
    show(Answer("CheckReport", report, lines), options)
    say(f"note: {number:,} {line}" for line, number in sorted(report.counts.items()))
    raise SystemExit(NO if report.differences else YES)
