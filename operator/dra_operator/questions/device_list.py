"""Devices as a list: where each is, what state it is in, who holds it, and what is left of its capacity.

Of each pool the newest generation counts, as in `usage`, whose states these are.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dra_operator.allocator.decider import Decider
from dra_operator.api.quantity import family, format_amount
from dra_operator.api.types import DeviceTaint
from dra_operator.inventory import Slice, bits
from dra_operator.questions.holders import HolderQuery, unread_lines
from dra_operator.questions.partial import OF_CLASS, USAGE
from dra_operator.questions.published_devices import devices_in_class, node_of_device
from dra_operator.questions.state import ClusterState
from dra_operator.questions.usage import SliceStates, find_device_states


class DeviceState(StrEnum):
    """What state a device is in; `usage` says what each means."""

    USED = "used"
    SHARED = "shared"
    TAINTED = "tainted"
    BLOCKED = "blocked"
    FREE = "free"


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
    found: list[DeviceItem] = []
    for states in find_device_states(state):
        slice_ = states.slice_
        if subject.driver not in ("", slice_.driver) or subject.pool not in ("", slice_.pool):
            continue
        chosen = slice_.every
        if subject.device_class:
            chosen &= devices_in_class(state.allocators[Decider.OPERATOR], subject.device_class, slice_)
        if subject.device:
            index = slice_.indexes.get(subject.device)
            chosen &= 0 if index is None else 1 << index
        for index in bits.each(chosen):
            node = node_of_device(slice_, index)
            if subject.node in ("", node) and (nodes is None or node in nodes):
                found.append(_item(state, states, index, node))
    return DeviceList(tuple(found), bool(missing), unread_lines(state))


def _item(state: ClusterState, states: SliceStates, index: int, node: str) -> DeviceItem:
    slice_ = states.slice_
    name = slice_.names[index]
    is_held = (states.used | states.shared) >> index & 1
    holders = sorted(state.ledger.holders(slice_.key, [name])) if is_held else []
    return DeviceItem(
        slice_.driver,
        slice_.pool,
        name,
        _state(states, index),
        node,
        tuple([f"{namespace}/{claim}" for namespace, claim in holders]),
        tuple([_taint_text(taint) for taint in slice_.taints[index]]) if slice_.taints else (),
        tuple(_amounts(state, slice_, index)),
        tuple(_attributes(slice_, index)),
    )


def _state(states: SliceStates, index: int) -> DeviceState:
    for found in (DeviceState.USED, DeviceState.SHARED, DeviceState.TAINTED, DeviceState.BLOCKED):
        if getattr(states, found.value) >> index & 1:
            return found
    return DeviceState.FREE


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
