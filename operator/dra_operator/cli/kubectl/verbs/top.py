"""`kubectl dra top`: how many devices there are, used, free and tainted."""

from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import Answer, Question, run
from dra_operator.cli.kubectl.demand import Demand
from dra_operator.cli.kubectl.options import NAME, NAMESPACE_OF_CLAIMS, WIDE, Options, shared
from dra_operator.cli.kubectl.subjects import kubectl_name, no_device_line, nodes_with_labels, not_free
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, Row, table
from dra_operator.questions.partial import USAGE

if TYPE_CHECKING:
    from dra_operator.questions.usage import UsageReport, UsageRow

DEMAND = Demand.for_question(USAGE, required=USAGE.required, engine="dra_operator.questions.usage")
GROUPINGS: Final = ("node", "pool", "class", "namespace")
_TITLES: Final = {"node": "NODE", "pool": "POOL", "class": "CLASS", "namespace": "NAMESPACE"}
_KINDS: Final = {"class": "DeviceClass"}
_SEVERAL_NODES: Final = "(several)"
_MANY: Final = 200
_MOST_NAMED: Final = 3
_SORTS: Final = ("name", "free", "used", "total")


@click.command("top")
@click.option(
    "--by", type=click.Choice(GROUPINGS), default="node", show_default=True, help="What a row stands for."
)
@click.option(
    "--sort-by",
    type=click.Choice(_SORTS),
    default="name",
    show_default=True,
    help="Order of the rows; numbers fall.",
)
@click.option(
    "--capacity", metavar="NAME", default="", help="What the largest device has most of, as memory."
)
@shared(
    WIDE,
    NAME,
    labels="Only nodes with these labels, with --by node.",
    namespace=f"With --by namespace, only this one. {NAMESPACE_OF_CLAIMS}",
)
def app(by: str, sort_by: str, capacity: str, options: Options) -> None:
    """Show how many devices there are, and how many are used, free, tainted or blocked.

    USED are held and have no room, SHARED have room for more shares, TAINTED keep claims away that do not tolerate the
    taint, BLOCKED can be given to nobody: their counters are used up, their pool is incomplete or the node cannot be
    used. IDLE are held by claims without a running pod. Exit code 0; 2 if devices cannot be read.

    Examples: kubectl dra top --by class; kubectl dra top --by pool --sort-by free.
    """
    run(options, DEMAND, lambda question: _answer(question, by, sort_by, capacity))


def _answer(question: Question, by: str, sort_by: str, capacity: str) -> Answer:
    from dataclasses import replace

    from dra_operator.questions.usage import Grouping, find_usage

    report = find_usage(question.cluster, Grouping(by), capacity)
    rows = list(report.rows)
    if question.options.labels:
        if by != "node":
            raise click.ClickException("-l selects nodes: leave it out, or --by")
        nodes = nodes_with_labels(question.cluster, question.options.labels)
        rows = [row for row in rows if row.name in nodes]
    if by == "namespace" and question.options.namespace:
        rows = [row for row in rows if row.name == question.options.namespace]
    if sort_by != "name":
        rows.sort(key=lambda row: -(getattr(row, sort_by) or 0))
    report = replace(report, rows=tuple(rows))
    return Answer(
        "Usage",
        report,
        _lines(question, report, by),
        names=[kubectl_name(_KINDS.get(by, by), row.name) for row in rows if row.name],
        asides=_asides(question, report, by),
    )


def _asides(question: Question, report: "UsageReport", by: str) -> list[str]:
    rows, found = report.rows, []
    if by == "namespace":
        where = f' of namespace "{question.options.namespace}"' if question.options.namespace else ""
        found += [] if rows else [f"no claim{where} holds a published device"]
    elif question.options.namespace and not report.is_at_most:
        found.append("all claims can be read, so -n changes nothing; --by namespace counts what each holds")
    are_rows_classes = by == "class" and bool(question.cluster.inventory.pools)
    if are_rows_classes and not rows:
        found.append("there is no DeviceClass")
    if by != "namespace" and not are_rows_classes and all(row.total == 0 for row in rows):
        where = " on nodes with these labels" if question.options.labels else ""
        found.append(f"no devices are published{where or ': is a DRA driver running?'}")
    elif by == "class":
        found += [no_device_line(row.name) for row in rows if not row.total][:_MOST_NAMED]
    if report.is_at_most:
        found.append(f"FREE is at most: {not_free(question)}")
    if len(rows) > _MANY and question.style.width is not None:
        found.append(f"{len(rows):,} rows: --by class counts them together, -l and --sort-by free find some")
    return found


def _lines(question: Question, report: "UsageReport", by: str) -> list[str]:
    rows = report.rows
    if not rows:
        return []
    if by == "namespace":
        titles = ("USED", "SHARED", "IDLE", "CLAIMS")
        columns = [Column("NAMESPACE"), *(Column(title, is_number=True) for title in titles)]
        cells: list[Row] = [[row.name, *_numbers(row.used, row.shared, row.idle, row.claims)] for row in rows]
        return list(table(columns, cells, question.style))
    has = {
        name: any(getattr(row, name) for row in rows)
        for name in ("shared", "tainted", "blocked", "idle", "owned")
    }
    wide = question.style.wide
    shown = [name for name in ("shared", "tainted", "blocked", "idle") if has[name] or wide]
    columns = [
        Column(_TITLES[by]),
        *(Column(each.upper(), is_number=True) for each in ("total", "used", "free", *shown)),
        Column("OWNED", is_number=True, is_wide=not has["owned"]),
        Column("CLAIMS", is_number=True, is_wide=True),
        Column("LARGEST FREE"),
        Column("CONDITION", is_wide=not any(row.condition for row in rows)),
    ]
    cells = [_row(row, shown) for row in rows]
    if len(rows) > 1 and by != "class":
        cells.append(_sum(rows, shown))
    return list(table(columns, cells, question.style))


def _row(row: "UsageRow", shown: list[str]) -> Row:
    largest = row.largest
    free = Cell(_number(row.free), Colour.GOOD if row.free else Colour.QUIET)
    return [
        row.name or _SEVERAL_NODES,
        _number(row.total),
        _number(row.used),
        free,
        *(_warning(getattr(row, name)) for name in shown),
        _number(row.owned),
        _number(row.claims),
        f"{largest.capacity.rpartition('/')[2]} {largest.amount}" if largest else "-",
        Cell(row.condition or "-", Colour.WARNING if row.condition else None),
    ]


def _sum(rows: "tuple[UsageRow, ...]", shown: list[str]) -> Row:
    def add(name: str) -> str:
        numbers = [getattr(row, name) for row in rows]
        return _number(None if None in numbers else sum(numbers))

    return [
        f"({len(rows):,})",
        *(add(name) for name in ("total", "used", "free", *shown, "owned")),
        "",
        "",
        "",
    ]


def _numbers(*values: int | None) -> list[str]:
    return [_number(value) for value in values]


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _warning(value: int | None) -> Cell:
    return Cell(_number(value), Colour.WARNING if value else None)
