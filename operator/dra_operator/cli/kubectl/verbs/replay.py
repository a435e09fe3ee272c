"""`kubectl dra replay`: what would have happened, by a record, as it was or with other objects."""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from dra_operator.cli.kubectl.answering import NO, YES, Answer, cut_lines, refusing, say, show, style_of
from dra_operator.cli.kubectl.options import Options, option, output, record_options
from dra_operator.cli.kubectl.requests import ReadingError
from dra_operator.cli.kubectl.source import INSTALL, read_record_span
from dra_operator.cli.kubectl.subjects import parse_subject
from dra_operator.cli.kubectl.tables import Column, Style, count, listing, wrapped
from dra_operator.questions.answers import QuestionError

if TYPE_CHECKING:
    from dra_operator.history.check import CheckReport
    from dra_operator.history.comparison import ReplayReport, ReplayRow
    from dra_operator.history.reader import Reader, Span
    from dra_operator.history.timeline import Changes
    from dra_operator.pods.objects import Key, ObjectRecord

_ADDED: Final = ("Node", "ResourceSlice", "DeviceClass", "DeviceTaintRule", "ResourceClaimTemplate")
_REMOVED: Final = ("Node", "DeviceClass", "DeviceTaintRule", "Namespace")


@click.command(
    "replay",
    params=[
        *record_options(required=False),
        option(
            "--from",
            "table",
            metavar="CSV",
            help="Ask no record: the jobs are the lines of a file, on the cluster of -f.",
        ),
        option(
            "-f",
            "--filename",
            "files",
            metavar="FILE_OR_DIR",
            multiple=True,
            help="With --from: the nodes, slices and classes. May be repeated.",
        ),
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
        *output(()),
    ],
)
def app(
    *,
    url: str | None,
    since: str,
    until: str,
    table: str,
    files: tuple[str, ...],
    added: tuple[str, ...],
    removed: tuple[str, ...],
    order: str,
    check: bool,
    format: str | None,  # noqa: A002 - as all verbs name it
    no_headers: bool,
) -> None:
    """Say how long jobs would have waited, and what cards would have been: with other nodes, devices or templates.

    The jobs of the record come when they came and run as long as they ran. RECORD is what happened, REPLAY what the
    simulation makes of the same, CHANGED of what is different: compare these two. A table of jobs (--from) has the
    columns name, arrival, duration (both in seconds), cpu, memory, class, devices, amount and selector. Exit code 0; 1
    if --check found a difference; 2 if there is no answer.

    Example: kubectl dra replay --history history.db --since 30d --with four-nodes.yaml.
    """
    options = Options(format=format or "", headers=not no_headers)
    with refusing():
        if check and (added or removed or table):
            raise click.UsageError("--check decides what was decided: leave out --with, --without and --from")
        if bool(url) is bool(table):
            raise click.UsageError("name a record with --history, or a table of jobs with --from, not both")
        source_of = click.get_current_context().get_parameter_source
        if table and ParameterSource.COMMANDLINE in (source_of("since"), source_of("until")):
            raise click.UsageError("--since and --until are of a record: leave them out with --from")
        if bool(table) is not bool(files):
            raise click.UsageError("--from is for jobs, and -f for the cluster that they come to: name both")
        if url:
            reader, span = read_record_span(url, since, until)
            if check:
                _show_check(reader, span, options)
            from dra_operator.history.comparison import compare
            from dra_operator.history.replay import Order

            report = compare(reader, span, _read_changes(added, removed), Order(order))
        else:
            report = _compare_planned(table, files, _read_changes(added, removed), order)
    show(Answer("ReplayReport", report, _tables(report, options)), options)
    say(f"note: {line}" for line in (f"from {report.since} to {report.until}", *report.notes))
    raise SystemExit(YES)


def _read_changes(added: Sequence[str], removed: Sequence[str]) -> "Changes":
    from dra_operator.history.timeline import Changes

    bodies: list[Any] = []
    for (kind, _, name), record in (_gather(added) if added else {}).items():
        if kind not in _ADDED:
            raise click.UsageError(f"--with: {kind} {name}: choose from {', '.join(_ADDED)}")
        bodies.append(record.body)
    if added and not bodies:
        raise click.UsageError(
            f"--with: {', '.join(added)} has no object: write some, of {', '.join(_ADDED)}"
        )
    return Changes(tuple(bodies), frozenset(parse_subject(text, _REMOVED) for text in removed))


def _gather(paths: Sequence[str]) -> "Mapping[Key, ObjectRecord]":
    """Return the objects of some files. Raises ReadingError."""
    from dra_operator.questions.load import gather
    from dra_operator.questions.manifests import read

    gathered = gather(read(paths))
    if gathered.errors:
        raise ReadingError("\n".join(cut_lines(gathered.errors)))
    return gathered.records


def _compare_planned(table: str, files: Sequence[str], changes: "Changes", order: str) -> "ReplayReport":
    """Return what the jobs of a table come to."""
    try:
        from dra_operator.history.comparison import compare_planned
    except ModuleNotFoundError as error:
        raise ReadingError(f"{INSTALL} ({error})") from error
    from dra_operator.history.planned import CLUSTER, read_planned
    from dra_operator.history.replay import Order

    bodies = [record.body for record in _gather(files).values()]
    left_out = Counter(body["kind"] for body in bodies if body["kind"] not in CLUSTER)
    if left_out:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(left_out.items()))
        say([f"note: left out of the files, as only jobs of {table} run: {counts}"])
    try:
        text = Path(table).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ReadingError(f"{table}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ReadingError(f"{table}: byte {error.start} is not UTF-8") from error
    try:
        history, jobs = read_planned(table, io.StringIO(text), bodies)
    except QuestionError as error:
        raise ReadingError("\n".join(cut_lines(str(error).splitlines()))) from error
    return compare_planned(history, jobs, changes, Order(order))


def _duration(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f}{unit}"
    return f"{seconds:.0f}s"


def _tables(report: "ReplayReport", options: Options) -> list[str]:
    style = style_of(options)

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
        *_unserved(report, style),
    ]


def _unserved(report: "ReplayReport", style: Style) -> Iterator[str]:
    """Yield why jobs wait at the end, in a line or more each."""
    for each in report.unserved:
        yield ""
        more = f" and {count(each.jobs - 1, 'more job')} like it" if each.jobs > 1 else ""
        yield from wrapped(f"{each.first}{more}: unserved: {each.reason}: {each.message}", style)


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
    columns = [
        Column("CLAIMS", lambda row: row.claims),
        Column("NODE", lambda row: row.node),
        Column("DIFFERENCE", lambda row: row.difference),
        Column("RECORDED", lambda row: ", ".join(row.recorded), is_cut=True),
        Column("DECIDED", lambda row: ", ".join(row.decided), is_cut=True),
    ]
    checked = f"{report.same:,} of {count(report.decisions, 'decision')} got the same devices again"
    lines = [checked if report.decisions else "no decision could be checked"]
    if report.differences:
        lines += ["", *listing(columns, report.differences, style_of(options))]
    show(Answer("CheckReport", report, lines), options)
    say(f"note: {count(number, 'decision')} {line}" for line, number in sorted(report.counts.items()))
    raise SystemExit(NO if report.differences else YES)
