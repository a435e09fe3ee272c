"""`kubectl dra devices`: devices, where they are and who holds them."""

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
from dra_operator.cli.kubectl.options import complete_names, option
from dra_operator.cli.kubectl.subjects import (
    no_device_line,
    nodes_with_labels,
    not_free,
    value_option,
)
from dra_operator.cli.kubectl.tables import Cell, Colour, Column, count, listing, names_cell
from dra_operator.questions.answers import USAGE

if TYPE_CHECKING:
    from dra_operator.questions.device_table import DeviceItem, DeviceList

DEMAND = Demand.for_question(USAGE, required=USAGE.required, engine="dra_operator.questions.device_table")
_STATES: Final = ("free", "used", "shared", "tainted", "blocked")
_COLOURS: Final = {
    "free": Colour.GOOD,
    "tainted": Colour.WARNING,
    "blocked": Colour.BAD,
}


def _amount(name: str, published: str, left: str) -> str:
    short = name.rpartition("/")[2]
    return f"{short} {published}" if left == published else f"{short} {left} of {published}"


_COLUMNS: Final = (
    Column("DEVICE", lambda item: f"{item.pool}/{item.name}"),
    Column("NODE", lambda item: item.node or "(several)", is_dropped=True),
    Column("STATE", lambda item: Cell(item.state.value, _COLOURS.get(item.state.value))),
    Column("HELD BY", lambda item: names_cell(item.holders, separator=","), is_cut=True),
    Column(
        "CAPACITY",
        lambda item: ",".join(_amount(each.name, each.published, each.left) for each in item.capacity) or "-",
        is_cut=True,
        is_optional=True,
    ),
    Column("TAINTS", lambda item: ",".join(item.taints) or "-", is_cut=True, is_optional=True),
    Column("DRIVER", lambda item: item.driver, is_wide=True),
    Column(
        "ATTRIBUTES",
        lambda item: (
            ",".join(f"{each.name.rpartition('/')[2]}={each.value}" for each in item.attributes) or "-"
        ),
        is_wide=True,
        is_cut=True,
    ),
)


@verb(
    "devices",
    DEMAND,
    click.Argument(["names"], metavar="[POOL[/DEVICE]]...", nargs=-1),
    option("--node", metavar="NAME", shell_complete=complete_names("Node"), help="Only those on a node."),
    option(
        *("--class", "device_class"),
        metavar="NAME",
        shell_complete=complete_names("DeviceClass"),
        help="Only those that a class selects.",
    ),
    option("--driver", metavar="NAME", help="Only those of a driver."),
    option(
        *("--state", "states"),
        type=click.Choice(_STATES),
        multiple=True,
        help="Only those in a state. May be repeated.",
    ),
    option("--taint", metavar="KEY[=VALUE]", help="Only those with a taint, whatever state they are in."),
    value_option(),
    labels="Only those on nodes with these labels.",
)
def app(
    question: Question,
    *,
    names: tuple[str, ...],
    node: str,
    device_class: str,
    driver: str,
    states: tuple[str, ...],
    taint: str,
    value: str,
) -> Answer:
    """List devices: where they are, what state they are in, and which claims hold them.

    The states are those of `kubectl dra top`. Exit code 0, whatever state they are in; 2 if they cannot be read or what
    is named is not there.

    Examples: kubectl dra devices --class gpu.example.com --state free; kubectl dra devices --value GPU-1f0c.
    """
    from dataclasses import replace

    from dra_operator.questions.device_table import HolderQuery, list_devices
    from dra_operator.questions.usage import find_holders

    subject = HolderQuery(driver=driver, node=node, device_class=device_class, value=value)
    if node or device_class or driver or value:
        # It knows what is meant by a name that is not there.
        find_holders(question.cluster, subject)
    labels = question.options.labels
    nodes = nodes_with_labels(question.cluster, labels) if labels else None
    report = list_devices(question.cluster, subject, nodes)
    items = [
        item
        for item in report.items
        if (not states or item.state in states) and _is_named(item, names) and _is_tainted(item, taint)
    ]
    absent = [name for name in names if not any(_is_named(item, (name,)) for item in report.items)]
    if absent:
        raise click.ClickException(
            f"there is no pool or device {', '.join(absent)}: write POOL or POOL/DEVICE"
        )
    report = replace(report, items=tuple(items))
    return Answer(
        "DeviceList",
        report,
        listing(_COLUMNS, items, question.style),
        CANNOT_SAY if report.partial else YES,
        names=[f"device/{item.driver}/{item.pool}/{item.name}" for item in items],
        asides=_asides(question, report, device_class),
        many=f"{len(items):,} devices: --node, --class, --state, --value select some; `kubectl dra top` counts them",
    )


def _is_named(item: "DeviceItem", names: tuple[str, ...]) -> bool:
    if not names:
        return True
    short, long = item.pool, f"{item.driver}/{item.pool}"
    return any(name in (short, long, f"{short}/{item.name}", f"{long}/{item.name}") for name in names)


def _is_tainted(item: "DeviceItem", wanted: str) -> bool:
    return not wanted or any(f"{each}:".startswith((f"{wanted}=", f"{wanted}:")) for each in item.taints)


def _asides(question: Question, report: "DeviceList", device_class: str) -> list[str]:
    if report.partial:
        return partial_lines(report)
    items = report.items
    found = [] if items else ["no such devices are published; `kubectl dra top` shows what there is"]
    if device_class and not items:
        found = _empty_class_lines(question, device_class) or found
    if report.is_at_most and any(item.state.value == "free" for item in items):
        found.append(f"free is at most: {not_free(question)}")
    return found


def _empty_class_lines(question: Question, name: str) -> list[str]:
    """Return that a class selects no device at all; nothing if it selects some, elsewhere."""
    from dra_operator.questions.device_table import HolderQuery
    from dra_operator.questions.usage import find_holders

    if find_holders(question.cluster, HolderQuery(device_class=name)).devices:
        return []
    published = find_holders(question.cluster, HolderQuery()).devices
    return [no_device_line(name, f"none of {count(published, 'device')}")] if published else []
