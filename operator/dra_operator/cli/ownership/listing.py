"""`dra-operator owned`: which devices are the operator's, by which rule or slice, and how many are in use.

Source: docs/operator.md, "Devices that are ours".
"""

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from dra_operator.api.names import OWNED_KEY, SETTLED_ANNOTATION
from dra_operator.api.text import listed, printable
from dra_operator.api.types import DeviceTaintRule
from dra_operator.cli.arguments import choice_of
from dra_operator.cli.client import Context, Kubeconfig, ask
from dra_operator.cli.output import align
from dra_operator.cli.ownership.devices import read_cluster
from dra_operator.cli.ownership.policy import FenceReport, read_fence
from dra_operator.inventory.ownership import is_owned_taint, rule_problem, settled_mark, taint_problem
from dra_operator.questions.manifests import to_yaml
from dra_operator.questions.raw_devices import ClusterDevices, PublishedDevice

if TYPE_CHECKING:
    from dra_operator.cluster.session import ApiSession

COLUMNS = ("NAME", "DRIVER", "POOL", "DEVICE", "DEVICES", "IN-USE", "STATE")
SETTLED = "settled"
SETTLING = "settling"
RELEASED = "being released"
BY_SLICE = "by its slice"
_ANY = "*"

app = typer.Typer(rich_markup_mode=None, add_completion=False)


class ListFormat(StrEnum):
    """How the list is printed."""

    TABLE = "table"
    YAML = "yaml"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Row:
    """Devices that a rule or a slice owns, or does not own although it has the key; `problem` says why not."""

    kind: str
    name: str
    driver: str | None
    pool: str | None
    device: str | None
    devices: int
    in_use: int
    state: str
    problem: str | None = None


@app.command()
def owned(
    *,
    output: Annotated[
        ListFormat,
        typer.Option(
            "-o", "--output", metavar="table|yaml|json", parser=choice_of(ListFormat), help="How to print."
        ),
    ] = ListFormat.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """List the devices that are the operator's, and how many are in use."""
    cluster, fence = ask(kubeconfig, context, _read)
    found = rows(cluster)
    for note in cluster.notes:
        typer.echo(f"note: {note}", err=True)
    if found and fence.problem is not None:
        typer.echo(f"warning: {fence.problem}", err=True)
    if output is ListFormat.TABLE:
        typer.echo(
            table(found) if found else "no device is owned: `dra-operator own --driver ...` takes some\n",
            nl=False,
        )
        return
    items = {"items": [_item(row) for row in found]}
    typer.echo(to_yaml(items) if output is ListFormat.YAML else f"{json.dumps(items, indent=4)}\n", nl=False)


async def _read(session: "ApiSession") -> tuple[ClusterDevices, FenceReport]:
    return await read_cluster(session), await read_fence(session)


def rows(cluster: ClusterDevices) -> list[Row]:
    """Return a row for each rule with the key of ownership, and for each slice and what is wrong in it."""
    held = cluster.holders().keys()
    found = []
    for name, rule in sorted(cluster.rules.items()):
        if rule.spec.taint.key == OWNED_KEY:
            problem = rule_problem(rule)
            matched = [] if problem else cluster.matched(rule)
            in_use = sum(device.key in held for device in matched)
            selector = rule.spec.device_selector
            driver, pool, device = (
                (selector.driver, selector.pool, selector.device) if selector else (None, None, None)
            )
            found.append(
                Row(
                    "DeviceTaintRule",
                    name,
                    driver,
                    pool,
                    device,
                    len(matched),
                    in_use,
                    _state(rule, problem),
                    problem,
                )
            )
    for (slice_name, problem), devices in _by_slice(cluster).items():
        driver, pool, _ = devices[0].key
        count, in_use = (0, 0) if problem else (len(devices), sum(device.key in held for device in devices))
        device = listed([each.key.name for each in devices])
        state = "problem" if problem else BY_SLICE
        found.append(Row("ResourceSlice", slice_name, driver, pool, device, count, in_use, state, problem))
    return found


def _state(rule: DeviceTaintRule, problem: str | None) -> str:
    if problem:
        return "problem"
    metadata = rule.metadata
    if metadata.deletion_timestamp:
        return RELEASED
    # By which policy, is the operator's to know.
    mark = metadata.annotations.get(SETTLED_ANNOTATION, "")
    is_settled = f"{mark}/".startswith(f"{settled_mark(metadata)}/")
    return SETTLED if is_settled else SETTLING


def _by_slice(cluster: ClusterDevices) -> dict[tuple[str, str | None], list[PublishedDevice]]:
    """Return the devices with a taint of the key in their slice, by slice and what is wrong with the taint."""
    found = defaultdict[tuple[str, str | None], list[PublishedDevice]](list)
    for device in cluster.devices.values():
        taints = [taint for taint in device.device.taints if taint.key == OWNED_KEY]
        if taints:
            is_ours = any(map(is_owned_taint, taints))
            found[device.slice_name, None if is_ours else taint_problem(taints[0])].append(device)
    return dict(found)


def table(found: list[Row]) -> str:
    """Return rows as plain lines, columns aligned."""
    return align([COLUMNS, *map(_cells, found)])


def _cells(row: Row) -> tuple[str, ...]:
    cells = (
        row.name if row.kind == "DeviceTaintRule" else f"slice {row.name}",
        row.driver or _ANY,
        row.pool or _ANY,
        row.device or _ANY,
        str(row.devices),
        str(row.in_use),
        f"{row.state}: {row.problem}" if row.problem else row.state,
    )
    return tuple(map(printable, cells))


def _item(row: Row) -> dict[str, object]:
    item = {("inUse" if name == "in_use" else name): value for name, value in asdict(row).items()}
    return {name: value for name, value in item.items() if value is not None}
