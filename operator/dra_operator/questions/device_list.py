"""Devices as a list: where each is, what state it is in, who holds it, and what is left of its capacity."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache, partial

from dra_operator.allocator.decider import Decider
from dra_operator.api.quantity import family, format_amount
from dra_operator.api.types import DeviceTaint
from dra_operator.inventory import Slice
from dra_operator.questions.device_table import DeviceRow, DeviceState, build_table
from dra_operator.questions.holders import HolderQuery, unread_lines
from dra_operator.questions.partial import OF_CLASS, USAGE
from dra_operator.questions.published_devices import devices_in_class
from dra_operator.questions.state import ClusterState


@dataclass(frozen=True, slots=True)
class DeviceAmount:
    """A capacity: what is published, and what shares leave of it."""

    name: str
    published: str
    left: str


@dataclass(frozen=True, slots=True)
class DeviceAttribute:
    """An attribute as a text."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class DeviceItem:
    """A device. `node` is empty if it is for several; `holders` are claims, as `namespace/name`.

    `taints` are those in force, as `key=value:effect`, the operator's own included.
    """

    driver: str
    pool: str
    name: str
    state: DeviceState
    node: str = ""
    holders: tuple[str, ...] = ()
    taints: tuple[str, ...] = ()
    capacity: tuple[DeviceAmount, ...] = ()
    attributes: tuple[DeviceAttribute, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceList:
    """Devices by driver and pool, in the order of their slices. `is_at_most` is as in `UsageReport`."""

    items: tuple[DeviceItem, ...]
    is_at_most: bool = False
    unread: tuple[str, ...] = ()


def list_devices(
    state: ClusterState,
    subject: HolderQuery = HolderQuery(),  # noqa: B008 - it is frozen
    nodes: Collection[str] | None = None,
) -> DeviceList:
    """Return the devices that a subject selects; if nodes are given, of these alone.

    Raises QuestionError if slices, or classes, were not read.
    """
    missing = USAGE.find_missing(state.unread)
    if subject.device_class:
        OF_CLASS.check(state.unread)
    name = subject.device_class
    in_class = cache(partial(devices_in_class, state.allocators[Decider.OPERATOR], name))
    found = tuple(
        [
            _build_item(state, row)
            for row in build_table(state)
            if subject.driver in ("", row.slice_.driver)
            and subject.pool in ("", row.slice_.pool)
            and subject.device in ("", row.name)
            and subject.node in ("", row.node)
            and (nodes is None or row.node in nodes)
            and (not name or in_class(row.slice_) >> row.index & 1)
        ]
    )
    return DeviceList(found, bool(missing), unread_lines(state))


def _build_item(state: ClusterState, row: DeviceRow) -> DeviceItem:
    slice_ = row.slice_
    return DeviceItem(
        slice_.driver,
        slice_.pool,
        row.name,
        row.state,
        row.node,
        tuple([f"{namespace}/{claim}" for namespace, claim in sorted(row.holders)]),
        tuple([_taint_text(taint) for taint in slice_.taints[row.index]]) if slice_.taints else (),
        tuple(_amounts(state, slice_, row.index)),
        tuple(_attributes(slice_, row.index)),
    )


def _taint_text(taint: DeviceTaint) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def _amounts(state: ClusterState, slice_: Slice, index: int) -> Iterator[DeviceAmount]:
    consumed = state.ledger.consumed(slice_.key, slice_.names[index])
    for name, capacity in sorted(slice_.capacity_of(index).items()):
        published = str(capacity.value)
        used = consumed.get(name, 0)
        left = format_amount(capacity.value.nano - used, family(capacity.value)) if used else published
        yield DeviceAmount(name, published, left)


def _attributes(slice_: Slice, index: int) -> Iterator[DeviceAttribute]:
    for name, column in sorted(slice_.attributes.items()):
        value = column.values[index]
        if value is not None:
            yield DeviceAttribute(name, _attribute_text(value.value))


def _attribute_text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_attribute_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
