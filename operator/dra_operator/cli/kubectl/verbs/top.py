"""`kubectl dra top`: how many devices there are, used, free and tainted."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Final

import click

from dra_operator.cli.kubectl.answering import (
    CANNOT_SAY,
    YES,
    Answer,
    Demand,
    Question,
    partial_lines,
    verb,
)
from dra_operator.cli.kubectl.options import NAMESPACE_OF_CLAIMS, complete_names, option
from dra_operator.cli.kubectl.subjects import kubectl_name, no_device_line, nodes_with_labels, not_free
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, listing
from dra_operator.questions.answers import USAGE

if TYPE_CHECKING:
    from dra_operator.questions.usage import UsageReport, UsageRow

DEMAND = Demand.for_question(USAGE, required=USAGE.required, engine="dra_operator.questions.usage")
GROUPINGS: Final = ("node", "pool", "class", "namespace")
_KINDS: Final = {"class": "DeviceClass"}
_SEVERAL_NODES: Final = "(several)"
_MOST_NAMED: Final = 3
_COLOURS: Final = {
    "free": (Colour.GOOD, Colour.QUIET),
    **dict.fromkeys(("shared", "tainted", "blocked", "idle"), (Colour.WARNING, None)),
}
"""The colours of a number that is not 0, and of 0."""
_SORTS: Final = ("name", "free", "used", "total", "shared", "tainted", "blocked", "idle")


@verb(
    "top",
    DEMAND,
    click.Argument(["names"], metavar="[NAME]...", nargs=-1, shell_complete=complete_names("Node")),
    option(
        "--by", type=click.Choice(GROUPINGS), default="node", show_default=True, help="What a row stands for."
    ),
    option(
        "--sort-by",
        type=click.Choice(_SORTS),
        default="name",
        show_default=True,
        help="Order of the rows; numbers fall.",
    ),
    option("--missing", is_flag=True, help="The nodes that should have devices of a driver and have none."),
    option("--capacity", metavar="NAME", help="What the largest device has most of, as memory."),
    labels="Only nodes with these labels, with --by node.",
    namespace=f"With --by namespace, only this one. {NAMESPACE_OF_CLAIMS}",
)
def app(
    question: Question, *, names: tuple[str, ...], by: str, sort_by: str, missing: bool, capacity: str
) -> Answer:
    """Show how many devices there are, and how many are used, free, tainted or blocked; only of rows with some names.

    USED are held and have no room, SHARED have room for more shares, TAINTED keep claims away that do not tolerate the
    taint, BLOCKED can be given to nobody: their counters are used up, their pool is incomplete or the node cannot be
    used. IDLE are held by claims without a running pod. Exit code 0; 2 if devices cannot be read.

    Examples: kubectl dra top node-1; kubectl dra top --by class; kubectl dra top --by pool --sort-by free.
    """
    from dra_operator.questions.usage import add_empty, find_usage, sum_rows, unknown_object

    if missing:
        if by != "node":
            raise click.ClickException("--missing lists nodes: leave it out, or --by")
        return _missing(question, names)
    report = find_usage(question.cluster, by, by=capacity)
    rows = list(report.rows)
    if question.options.labels:
        if by != "node":
            raise click.ClickException("-l selects nodes: leave it out, or --by")
        nodes = nodes_with_labels(question.cluster, question.options.labels)
        rows = add_empty(question.cluster, [row for row in rows if row.name in nodes], nodes)
    if by == "namespace" and question.options.namespace:
        rows = [row for row in rows if row.name == question.options.namespace]
    if names:
        rows = [row for row in rows if row.name in names]
        if absent := sorted({*names} - {row.name for row in rows}):
            raise unknown_object(f"{by} with devices", absent[0], [row.name for row in report.rows])
    if sort_by != "name":
        rows.sort(key=lambda row: -(getattr(row, sort_by) or 0))
    report = replace(report, rows=tuple(rows), sum=sum_rows(report.grouping, rows))
    return Answer(
        "Usage",
        report,
        _lines(question, report, by),
        CANNOT_SAY if report.partial else YES,
        names=[kubectl_name(_KINDS.get(by, by), row.name) for row in rows if row.name],
        asides=_asides(question, report, by),
        many=f"{len(rows):,} rows: --by class counts them together, -l and --sort-by free find some",
    )


def _missing(question: Question, names: tuple[str, ...]) -> Answer:
    from dra_operator.questions.usage import find_nodes_without_devices

    found = find_nodes_without_devices(question.cluster)
    labels = question.options.labels
    nodes = nodes_with_labels(question.cluster, labels) if labels else {*question.cluster.nodes}
    items = [each for each in found.items if each.node in nodes and (not names or each.node in names)]
    columns = (
        Column("NODE", lambda each: each.node),
        Column("DRIVER", lambda each: each.driver),
        Column("CONDITION", lambda each: Cell(each.condition or "-", Colour.WARNING), is_optional=True),
        Column("BECAUSE", lambda each: each.why, is_cut=True),
    )
    report = replace(found, items=tuple(items))
    lines = listing(columns, items, question.style) if items else []
    asides = [*partial_lines(report), *([] if items else ["no node lacks devices that others like it have"])]
    node_names = dict.fromkeys(f"node/{each.node}" for each in items)
    return Answer("MissingDevices", report, lines, names=[*node_names], asides=asides)


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
    found += partial_lines(report)
    if report.is_at_most:
        found.append(f"FREE is at most: {not_free(question)}")
    return found


def _lines(question: Question, report: "UsageReport", by: str) -> list[str]:
    rows = report.rows
    name = Column(by.upper(), lambda row: row.name or _SEVERAL_NODES)
    if by == "namespace":
        return listing([name, *map(_counted, ("used", "shared", "idle", "claims"))], rows, question.style)
    columns = [
        name,
        *map(_counted, ("total", "used")),
        replace(_counted("free"), title="FREE<=" if report.is_at_most else "FREE"),
        *[
            replace(_counted(each), is_optional=True)
            for each in ("shared", "tainted", "blocked", "idle", "owned")
        ],
        replace(_counted("claims"), is_wide=True),
        Column("LARGEST FREE", _largest),
        Column("CONDITION", lambda row: Cell(row.condition or "-", Colour.WARNING), is_optional=True),
    ]
    return listing(columns, rows, question.style, _sums(report) if len(rows) > 1 else None)


def _counted(field: str) -> Column:
    """Return the column of a number of devices, in the colour that it has where there are some."""

    def show(row: "UsageRow") -> Cell:
        number = getattr(row, field)
        some, none = _COLOURS.get(field, (None, None))
        return Cell("-" if number is None else str(number), some if number else none)

    return Column(field.upper(), show, is_number=True)


def _largest(row: "UsageRow") -> str:
    found = row.largest
    return f"{found.capacity.rpartition('/')[2]} {found.amount}" if found else "-"


def _sums(report: "UsageReport") -> dict[str, str] | None:
    if report.sum is None:
        return None
    found = {name.upper(): "-" if each is None else str(each) for name, each in asdict(report.sum).items()}
    rows = f"({report.sum.rows:,})"
    return {**found, "NODE": rows, "POOL": rows, "FREE<=": found["FREE"]}
