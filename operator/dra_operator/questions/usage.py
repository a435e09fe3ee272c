"""Usage: how many devices are used, free, tainted or blocked, by node, pool, class or namespace.

Each published device counts once in a row: `total` is the sum of the five states. Of each pool the newest generation
counts. Classes may overlap, so rows by class do not add up.
Source: docs/audit.md.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby

from dra_operator.allocator.decider import Decider
from dra_operator.allocator.decision import claim_key
from dra_operator.api.quantity import family, format_amount
from dra_operator.inventory import Verdict
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.questions.answers import LargestDevice
from dra_operator.questions.device_table import DeviceRow, DeviceState, build_table, find_node_condition
from dra_operator.questions.holders import ConsumerIndex, Use, allocated_claims, unread_lines
from dra_operator.questions.partial import OF_CLASS, USAGE
from dra_operator.questions.published_devices import devices_in_class
from dra_operator.questions.state import ClusterState


class Grouping(StrEnum):
    """What a row stands for."""

    NODE = "node"
    POOL = "pool"
    CLASS = "class"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One node (empty: devices that are on no single node), pool (`driver/pool`), class or namespace.

    `used` to `blocked` are numbers of devices by their `DeviceState`; of a namespace only `used` and `shared` are
    known. `idle` are devices whose holders all have no running consumer, `owned` those that the operator owns, whatever
    their state. No row counts devices that are not published.
    """

    name: str
    total: int | None
    used: int
    shared: int
    free: int | None
    tainted: int | None
    blocked: int | None
    idle: int | None
    claims: int
    owned: int = 0
    largest: LargestDevice | None = None
    condition: str = ""
    """What is wrong with the node or pool: `cordoned`, `incomplete`."""


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows sorted by name. `is_at_most`: claims, taint rules or nodes were not all read, so that less may be free."""

    grouping: Grouping
    rows: tuple[UsageRow, ...]
    is_at_most: bool = False
    unread: tuple[str, ...] = ()


def find_usage(state: ClusterState, grouping: Grouping = Grouping.NODE, by: str = "") -> UsageReport:
    """Return a row for each node, pool or namespace that has devices, and for each class.

    `by` is the capacity by which a device is the largest, with or without its domain; without it, it is the first
    capacity by name that any device of the row has. Raises QuestionError if slices, or classes, were not read.
    """
    missing = USAGE.find_missing(state.unread)
    if grouping is Grouping.CLASS:
        OF_CLASS.check(state.unread)
    # A class that selects no device has a row as well: that is what is wrong with it.
    classes = [*state.inventory.classes] if grouping is Grouping.CLASS else []
    groups: dict[str, list[DeviceRow]] = {name: [] for name in classes}
    for (_, slice_), rows_of_slice in groupby(build_table(state), lambda row: (row.pool.key, row.slice_)):
        in_class = {
            name: devices_in_class(state.allocators[Decider.OPERATOR], name, slice_) for name in classes
        }
        for row in rows_of_slice:
            for name in _find_groups(grouping, row, in_class):
                groups.setdefault(name, []).append(row)
    is_idle = _find_idle(state)
    if grouping is Grouping.NAMESPACE:
        rows = [_build_namespace_row(name, group, is_idle) for name, group in groups.items()]
    else:
        rows = [
            replace(
                _build_row(name, group, state.ledger, is_idle, by),
                condition=_find_condition(state, grouping, name, group),
            )
            for name, group in groups.items()
        ]
    rows.sort(key=lambda row: row.name)
    return UsageReport(grouping, tuple(rows), bool(missing), unread_lines(state))


def _find_groups(grouping: Grouping, row: DeviceRow, in_class: Mapping[str, int]) -> Iterator[str]:
    """Yield the rows that a device counts in, given the devices of its slice that are in each class."""
    match grouping:
        case Grouping.NODE:
            yield row.node
        case Grouping.POOL:
            yield row.pool.path
        case Grouping.NAMESPACE:
            yield from sorted({namespace for namespace, _ in row.holders})
        case Grouping.CLASS:
            yield from (name for name, devices in in_class.items() if devices >> row.index & 1)


def _find_condition(state: ClusterState, grouping: Grouping, name: str, group: Sequence[DeviceRow]) -> str:
    """Return what is wrong with a node or a pool, or nothing."""
    if grouping is Grouping.NODE:
        return find_node_condition(state, name) if name else ""
    verdict = group[0].pool.judgement.verdict if grouping is Grouping.POOL else Verdict.COMPLETE
    return "" if verdict is Verdict.COMPLETE else verdict.value


def _find_idle(state: ClusterState) -> dict[ClaimKey, bool | None]:
    """Return the claims that hold devices, and of each whether it is idle, where that is known."""
    consumers = ConsumerIndex.build(state)
    found: dict[ClaimKey, bool | None] = {}
    for claim in allocated_claims(state.objects):
        use = consumers.find_use(claim)
        found[claim_key(claim)] = None if use is Use.UNKNOWN else use is not Use.RUNNING
    return found


def _count_idle(
    devices: Sequence[AbstractSet[ClaimKey]], is_idle: Mapping[ClaimKey, bool | None]
) -> int | None:
    """Return how many of some devices, by their holders, have only idle ones; None if that is not known of one."""
    found = 0
    for claims in devices:
        states = [is_idle.get(claim) for claim in claims]
        if False in states:
            continue
        if None in states:
            return None
        found += 1
    return found


def _build_row(
    name: str,
    group: Sequence[DeviceRow],
    ledger: Ledger,
    is_idle: Mapping[ClaimKey, bool | None],
    by: str,
) -> UsageRow:
    counts = Counter(row.state for row in group)
    holders = [row.holders for row in group if row.holders]
    return UsageRow(
        name,
        len(group),
        counts[DeviceState.USED],
        counts[DeviceState.SHARED],
        counts[DeviceState.FREE],
        counts[DeviceState.TAINTED],
        counts[DeviceState.BLOCKED],
        _count_idle(holders, is_idle),
        len(frozenset[ClaimKey]().union(*holders)),
        owned=sum(row.is_owned for row in group),
        largest=_find_largest(group, ledger, by),
    )


def _build_namespace_row(
    name: str, group: Sequence[DeviceRow], is_idle: Mapping[ClaimKey, bool | None]
) -> UsageRow:
    holders = [{key for key in row.holders if key[0] == name} for row in group]
    counts = Counter(row.state for row in group)
    return UsageRow(
        name,
        total=None,
        used=counts[DeviceState.USED],
        shared=counts[DeviceState.SHARED],
        free=None,
        tainted=None,
        blocked=None,
        idle=_count_idle(holders, is_idle),
        claims=len(set[ClaimKey]().union(*holders)),
    )


def _find_largest(group: Sequence[DeviceRow], ledger: Ledger, by: str) -> LargestDevice | None:
    """Return the device with room that has most left of a capacity; of equals the first by driver, pool and name."""
    roomy = [row for row in group if row.has_room]
    slices = {row.slice_.name: row.slice_ for row in roomy}
    names = {
        name
        for slice_ in slices.values()
        for name in slice_.capacity
        if by in ("", name, name.rpartition("/")[2])
    }
    best: tuple[int, DeviceRow, str] | None = None
    for name in sorted(names):
        for row in roomy:
            column = row.slice_.capacity.get(name)
            value = column.values[row.index] if column is not None else None
            if value is None:
                continue
            left = value.value.nano - ledger.consumed(row.pool.key, row.name).get(name, 0)
            if best is None or left > best[0]:
                best = left, row, name
        if best is not None and not by:
            break
    if best is None:
        return None
    left, row, name = best
    published = row.slice_.capacity_of(row.index)[name].value
    amount = str(published) if left == published.nano else format_amount(left, family(published))
    return LargestDevice(*row.pool.key, row.name, name, amount)
