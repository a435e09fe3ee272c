"""`kubectl dra report`: card-hours, waits and costs over a span of a record."""

import csv
import io
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import YES, Answer, refusing, say, show
from dra_operator.cli.kubectl.options import JSON, YAML, Options, option, record_options, use_colours
from dra_operator.cli.kubectl.requests import ReadingError
from dra_operator.cli.kubectl.source import read_record_span, read_span
from dra_operator.cli.kubectl.tables import Column, listing, terminal_style

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from dra_operator.history.reader import Span
    from dra_operator.history.report import HistoryReport, ReportQuery, ReportRow

CSV: Final = "csv"
_GROUPINGS: Final = ("namespace", "class", "node", "owner")
_MOST_REASONS: Final = 3


def _read_grouping(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001 - click's
    if value in _GROUPINGS or value.startswith("label="):
        return value
    raise click.BadParameter(f"{value!r}: choose from {', '.join(_GROUPINGS)} and label=KEY")


@click.command(
    "report",
    params=[
        *record_options(),
        option("--every", metavar="DURATION", help="A row for each period, as 1d."),
        option(
            "--by",
            metavar="namespace|class|node|owner|label=KEY",
            default="namespace",
            show_default=True,
            callback=_read_grouping,
            help="What a row stands for.",
        ),
        option(
            "--by-amount",
            metavar="NAME",
            default="memory",
            show_default=True,
            help="The capacity, or counter, by which shares and partitions are parts of a card.",
        ),
        option(
            "-n",
            "--namespace",
            metavar="NAME",
            help="Only this namespace by name; what all others had is summed up.",
        ),
        option("--prices", metavar="FILE", help="What a card-hour costs: one `CLASS: PRICE` a line."),
        option(
            "-o",
            "--output",
            "format",
            type=click.Choice([CSV, JSON, YAML]),
            help="Output format; a table if left out.",
        ),
        option("--html", metavar="FILE", help="Write it as one page for a browser, too."),
        option("--no-headers", is_flag=True, help="No line of column names."),
    ],
)
def app(
    *,
    url: str,
    since: str,
    until: str,
    every: str,
    by: str,
    by_amount: str,
    namespace: str,
    prices: str,
    format: str | None,  # noqa: A002 - as all verbs name it
    html: str,
    no_headers: bool,
) -> None:
    """Say how many card-hours were held, idle and waited for, and what they cost, by a record.

    A card is a device that draws on no counters, or a counter set; partitions and shares are parts of it. HELD is what
    claims had, IDLE what of it no running pod used, WAITED how long pods waited for a node and claims for devices. The
    second table has all cards by state, which come to PUBLISHED. Exit code 0; 2 if there is no answer.

    Example: kubectl dra report --history history.db --since 7d --by owner --prices prices.yaml.
    """
    with refusing():
        query = partial(_query, by=by, by_amount=by_amount, prices=_read_prices(prices), namespace=namespace)
        report = _make(url, (since, until, every), query)
        if html:
            _write_page(report, html)
    options = Options(format=format if format in (JSON, YAML) else "", headers=not no_headers)
    lines = [*_csv(report)] if format == CSV else _tables(report, options)
    show(Answer("HistoryReport", report, lines), options)
    share = f"{float(report.unknown):.1%} of the published time is unknown: nothing was recorded"
    say(f"note: {line}" for line in (f"from {report.since} to {report.until}", share, report.note))
    raise SystemExit(YES)


def _make(
    url: str, times: tuple[str, str, str], query: "Callable[[Span, int], ReportQuery]"
) -> "HistoryReport":
    since, until, every = times
    reader, span = read_record_span(url, since, until)
    from dra_operator.history.report import make_report
    from dra_operator.history.schema import StoreError

    try:
        return make_report(reader, query(span, read_span(every) if every else 0))
    except StoreError as error:
        raise ReadingError(str(error)) from error


def _query(
    span: "Span", every: int, *, by: str, by_amount: str, prices: "dict[str, Fraction]", namespace: str
) -> "ReportQuery":
    from dra_operator.history.report import Grouping, ReportQuery

    name, _, label = by.partition("=")
    return ReportQuery(span, Grouping(name), label, every, by_amount, prices, namespace)


def _write_page(report: "HistoryReport", path: str) -> None:
    from pathlib import Path

    from dra_operator.history.page import render_page

    try:
        Path(path).write_text(render_page(report), encoding="utf-8")
    except OSError as error:
        raise ReadingError(f"{path}: {error.strerror or error}") from error


def _read_prices(path: str) -> "dict[str, Fraction]":
    if not path:
        return {}
    from pathlib import Path

    import yaml

    from dra_operator.history.report import read_prices

    try:
        return read_prices(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ReadingError(f"{path}: {error}") from error


def _hours(value: "Fraction | None") -> str:
    return "-" if value is None else f"{float(value):,.2f}"


def _tables(report: "HistoryReport", options: Options) -> list[str]:
    style = terminal_style(wide=False, headers=options.headers, colours=use_colours())

    def hours(field: str, title: str = "") -> Column:
        return Column(title or field.upper(), lambda row: _hours(getattr(row, field)), is_number=True)

    def reasons(row: "ReportRow") -> str:
        return ", ".join(f"{each.reason} {_hours(each.hours)}" for each in row.reasons[:_MOST_REASONS]) or "-"

    has_periods = len(report.periods) > 1
    since = [Column("SINCE", lambda row: row.since)] if has_periods else []
    cost = [hours("cost")] if any(row.cost is not None for row in report.rows) else []
    columns = [
        *since,
        Column(report.by.upper(), lambda row: row.name),
        *(hours("held"), hours("idle")),
        *([hours("unpublished")] if any(row.unpublished for row in report.rows) else []),
        *cost,
        Column("WAITS", lambda row: str(row.waits), is_number=True),
        *(hours("waited"), hours("median"), hours("p90")),
        Column("REASONS", reasons, is_cut=True),
    ]
    states = ("published", "used", "shared", "free", "tainted", "blocked", "unknown", "idle")
    cards = listing([Column("SINCE", lambda row: row.since), *map(hours, states)], report.periods, style)
    return [*listing(columns, report.rows, style), "", *cards]


def _csv(report: "HistoryReport") -> Iterator[str]:
    """Yield the rows, and behind them the cards by period, which have no name."""
    from dra_operator.history.report import Period, ReportRow

    names = [each.name for each in fields(ReportRow) if each.name != "reasons"]
    states = [each.name for each in fields(Period) if each.name not in ("since", "idle")]
    yield from _lines([*names, "reasons", *states])
    for row in report.rows:
        reasons = " ".join(f"{each.reason}={float(each.hours):.6f}" for each in row.reasons)
        yield from _lines([*(_cell(getattr(row, name)) for name in names), reasons, *[""] * len(states)])
    for period in report.periods:
        of_row = [_cell(getattr(period, name)) if name in ("since", "idle") else "" for name in names]
        yield from _lines([*of_row, "", *(_cell(getattr(period, name)) for name in states)])


def _cell(value: object) -> str:
    from fractions import Fraction

    return "" if value is None else f"{float(value):.6f}" if isinstance(value, Fraction) else str(value)


def _lines(cells: list[str]) -> Iterator[str]:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    yield text.getvalue()
