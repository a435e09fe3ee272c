"""`kubectl dra report`: card-hours, waits and costs over a span of a record."""

import csv
import io
from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import YES, Answer, refusing, say, show, style_of, write_page
from dra_operator.cli.kubectl.options import JSON, YAML, Options, option, output, record_options
from dra_operator.cli.kubectl.source import read_record_span, read_span
from dra_operator.cli.kubectl.tables import Column, listing

if TYPE_CHECKING:
    from fractions import Fraction

    from dra_operator.history.report import HistoryReport, Period, ReportRow

CSV: Final = "csv"
_GROUPINGS: Final = ("namespace", "class", "node", "owner")
_MOST_REASONS: Final = 3


def _read_grouping(ctx: click.Context, param: click.Parameter, value: str) -> str:  # noqa: ARG001 - click's
    if value in _GROUPINGS or (value.startswith("label=") and value != "label="):
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
        *output([CSV]),
        option("--html", metavar="FILE", help="Write it as one page for a browser, too."),
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
        reader, span = read_record_span(url, since, until)
        from dra_operator.history.page import render_page
        from dra_operator.history.report import Grouping, ReportQuery, make_report, read_prices

        name, _, label = by.partition("=")
        period = read_span(every) if every else 0
        listed = read_prices(prices) if prices else {}
        query = ReportQuery(span, Grouping(name), label, period, by_amount, listed, namespace)
        report = make_report(reader, query)
        if html:
            write_page(html, render_page(report))
    options = Options(format=format if format in (JSON, YAML) else "", headers=not no_headers)
    lines = [*_csv(report)] if format == CSV else _tables(report, options)
    show(Answer("HistoryReport", report, lines), options)
    share = f"{float(report.unknown):.1%} of the published time is unknown, as it lies in gaps"
    say(f"note: {line}" for line in (f"from {report.since} to {report.until}", share, report.note))
    raise SystemExit(YES)


def _tables(report: "HistoryReport", options: Options) -> list[str]:
    from dra_operator.history.report import AMOUNTS, CARDS

    style = style_of(options)

    def amount(field: str) -> Column:
        return Column(field.upper(), lambda item: _amount(getattr(item, field)), is_number=True)

    def reasons(row: "ReportRow") -> str:
        return (
            ", ".join(f"{each.reason} {_amount(each.hours)}" for each in row.reasons[:_MOST_REASONS]) or "-"
        )

    since = Column("SINCE", lambda item: item.since)
    # Who has no prices, or holds nothing that is not published, need not see a column for it.
    is_told = {"cost": any(row.cost is not None for row in report.rows)}
    is_told["unpublished"] = any(row.unpublished for row in report.rows)
    columns = [
        *([since] if len(report.periods) > 1 else []),
        Column(report.by.upper(), lambda row: row.name),
        *[amount(name) for name in AMOUNTS if is_told.get(name, True)],
        Column("REASONS", reasons, is_cut=True),
    ]
    cards = listing([since, *map(amount, CARDS)], report.periods, style)
    return [*listing(columns, report.rows, style), "", *cards]


def _amount(value: "Fraction | int | None") -> str:
    return "-" if value is None else str(value) if isinstance(value, int) else f"{float(value):,.2f}"


def _csv(report: "HistoryReport") -> list[str]:
    """Return the rows, and behind them the cards by period, which have no name."""
    from dra_operator.history.report import AMOUNTS, CARDS

    # Programs know the cost behind the others.
    amounts = sorted(AMOUNTS, key="cost".__eq__)
    names = dict.fromkeys(("name", "since", *amounts, "reasons", "until", *CARDS))
    text = io.StringIO()
    lines = csv.DictWriter(text, list(names), lineterminator="\n")
    lines.writeheader()
    for row in report.rows:
        told = " ".join(f"{each.reason}={float(each.hours):.6f}" for each in row.reasons)
        lines.writerow({**{name: _cell(row, name) for name in ("name", "since", *AMOUNTS)}, "reasons": told})
    for period in report.periods:
        lines.writerow({name: _cell(period, name) for name in ("since", "until", *CARDS)})
    return text.getvalue().split("\n")[:-1]


def _cell(item: "ReportRow | Period", field: str) -> str:
    value = getattr(item, field)
    return "" if value is None else str(value) if isinstance(value, int | str) else f"{float(value):.6f}"
