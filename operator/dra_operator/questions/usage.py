"""Usage: how many devices are used, free, tainted or blocked, by node, pool, class or namespace.

Each published device counts once in a row: `total` is the sum of the five states. Of each pool the newest generation
counts. Classes may overlap, so rows by class do not add up.
Source: docs/audit.md.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from dra_operator.allocator.decider import Decider
from dra_operator.allocator.decision import claim_key
from dra_operator.api.quantity import family, format_amount
from dra_operator.inventory import PoolKey, Slice, Verdict, bits
from dra_operator.inventory.counters import CounterLayout
from dra_operator.inventory.ownership import is_owned_taint
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.ledger.counters import CounterState
from dra_operator.questions.answers import LargestDevice
from dra_operator.questions.holders import ConsumerIndex, Use, allocated_claims, unread_lines
from dra_operator.questions.partial import OF_CLASS, USAGE
from dra_operator.questions.published_devices import (
    NewestGeneration,
    PublishedDevices,
    devices_by_node,
    devices_in_class,
)
from dra_operator.questions.state import ClusterState

_EFFECTIVE: Final = ("NoSchedule", "NoExecute")


class Grouping(StrEnum):
    """What a row stands for."""

    NODE = "node"
    POOL = "pool"
    CLASS = "class"
    NAMESPACE = "namespace"


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One node (empty: devices that are on no single node), pool (`driver/pool`), class or namespace.

    `used` are held by claims and have no room; `shared` are held by shares and have room; `tainted` are held by nobody
    and have a taint that keeps claims away; `blocked` are held by nobody and cannot be given to anybody, since their
    counters are used up, their pool is not complete or their node cannot be used; `free` are the others. Of a
    namespace only `used` and `shared` are known. `idle` are devices whose holders all have no running consumer.
    `owned` are those that the operator owns, whatever their state. No row counts devices that are not published.
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
    claims = _ClaimUses.build(state)
    if grouping is Grouping.NAMESPACE:
        published = PublishedDevices(state.inventory)
        rows = [
            _namespace_row(name, keys, state, claims, published)
            for name, keys in claims.by_namespace().items()
        ]
    else:
        conditions = _NodeConditions(state)
        # A class that selects no device has a row as well: that is what is wrong with it.
        classes = state.inventory.classes if grouping is Grouping.CLASS else ()
        tallies = {name: _Tally() for name in classes}
        for states in _find_states(state, conditions):
            for name, devices in _split(state, grouping, states):
                tallies.setdefault(name, _Tally()).add(states, devices)
        rows = [tally.build_row(name, state, claims, by) for name, tally in tallies.items()]
        if grouping is Grouping.POOL:
            rows = [replace(row, condition=tallies[row.name].verdict) for row in rows]
        if grouping is Grouping.NODE:
            rows = [replace(row, condition=conditions.find(row.name) if row.name else "") for row in rows]
    return UsageReport(
        grouping, tuple(sorted(rows, key=lambda row: row.name)), bool(missing), unread_lines(state)
    )


def _split(state: ClusterState, grouping: Grouping, states: "SliceStates") -> Iterator[tuple[str, int]]:
    """Yield the rows that devices of a slice count in, with the devices of each."""
    slice_ = states.slice_
    if grouping is Grouping.NODE:
        yield from devices_by_node(slice_).items()
    elif grouping is Grouping.POOL:
        if slice_.every:
            yield states.pool.path, slice_.every
    else:
        allocator = state.allocators[Decider.OPERATOR]
        for name in state.inventory.classes:
            if devices := devices_in_class(allocator, name, slice_):
                yield name, devices


@dataclass(frozen=True, slots=True)
class SliceStates:
    """The devices of a slice of a newest generation by their state, as sets of bits that do not overlap."""

    pool: NewestGeneration
    slice_: Slice
    used: int
    shared: int
    blocked: int
    tainted: int
    free: int
    owned: int


def find_device_states(state: ClusterState) -> Iterator[SliceStates]:
    """Yield what state the devices of each slice of a newest generation are in, pools in order."""
    yield from _find_states(state, _NodeConditions(state))


def _find_states(state: ClusterState, conditions: "_NodeConditions") -> Iterator[SliceStates]:
    for pool in PublishedDevices(state.inventory).pools.values():
        counters = _count_down(pool.judgement.counters, pool.key, state.ledger)
        for slice_ in pool.slices:
            used, shared = _in_use(slice_, state.ledger)
            left = slice_.every & ~used & ~shared
            if pool.judgement.verdict is not Verdict.COMPLETE:
                blocked = left
            else:
                # The operator allocates none of those that are half owned, and others keep off them.
                blocked = left & (_without_counters(slice_, counters) | slice_.half_owned)
                for name, devices in devices_by_node(slice_).items():
                    if name and conditions.find(name):
                        blocked |= devices & left
            left &= ~blocked
            tainted, owned = _tainted(slice_)
            yield SliceStates(pool, slice_, used, shared, blocked, left & tainted, left & ~tainted, owned)


@dataclass(slots=True)
class _NodeConditions:
    """Why nodes cannot be used; where none is given, none is gone."""

    state: ClusterState

    def find(self, name: str) -> str:
        """Return why a node cannot be used, or nothing."""
        node = self.state.inventory.nodes.get(name)
        if node is None:
            return "gone" if self.state.has_all("Node") else ""
        return node.unusable or ""


def _in_use(slice_: Slice, ledger: Ledger) -> tuple[int, int]:
    """Return the devices of a slice that are in use and have no room, and those that have room for more shares."""
    held, shared_devices = ledger.held(slice_.key), ledger.shared(slice_.key)
    used = _positions(slice_, held)
    shared = _positions(slice_, shared_devices) & ~used
    for index in bits.each(shared):
        amounts = shared_devices[slice_.names[index]].amounts
        is_full = any(
            0 < capacity.value.nano <= amounts.get(name, 0)
            for name, capacity in slice_.capacity_of(index).items()
        )
        if is_full or not slice_.shareable >> index & 1:
            used |= 1 << index
    return used, shared & ~used


def _positions(slice_: Slice, devices: Mapping[str, object]) -> int:
    if len(devices) < len(slice_.names):
        return bits.from_positions(slice_.indexes[name] for name in devices if name in slice_.indexes)
    return bits.from_flags([name in devices for name in slice_.names])


def _tainted(slice_: Slice) -> tuple[int, int]:
    """Return the devices with a taint that keeps claims away, and those that the operator owns."""
    tainted = owned = 0
    for index, taints in enumerate(slice_.taints):
        if any(map(is_owned_taint, taints)):
            owned |= 1 << index
        if any(taint.effect in _EFFECTIVE and not is_owned_taint(taint) for taint in taints):
            tainted |= 1 << index
    return tainted, owned


def _count_down(layout: CounterLayout | None, key: PoolKey, ledger: Ledger) -> CounterState | None:
    """Return what the devices in use leave of the counters of a pool."""
    if layout is None:
        return None
    found = CounterState(layout)
    for device in layout.draws.keys() & {*ledger.held(key), *ledger.shared(key)}:
        found.mark(device, used=True)
    return found


def _without_counters(slice_: Slice, counters: CounterState | None) -> int:
    """Return the devices of a slice that draw on counters of which too little is left, or cannot join a group."""
    if counters is None or not slice_.counted:
        return 0
    if counters.overdrawn:
        # Nothing that draws on counters of such a pool is allocated.
        return slice_.counted
    found, placed = 0, counters.placed()
    for index in bits.each(slice_.counted):
        draw = counters.layout.draw(slice_, index)
        if any(counters.left[position] < amount for position, amount in draw.amounts) or any(
            (occupancy := placed[number]) is not None and not occupancy.admits(groups)
            for number, groups in draw.groups
        ):
            found |= 1 << index
    return found


@dataclass(slots=True)
class _ClaimUses:
    """The claims that hold devices, and of each whether it is idle, where that is known."""

    is_idle: Mapping[ClaimKey, bool | None]

    @classmethod
    def build(cls, state: ClusterState) -> "_ClaimUses":
        consumers = ConsumerIndex.build(state)
        found: dict[ClaimKey, bool | None] = {}
        for claim in allocated_claims(state.objects):
            use = consumers.find_use(claim)
            found[claim_key(claim)] = None if use is Use.UNKNOWN else use is not Use.RUNNING
        return cls(found)

    def by_namespace(self) -> dict[str, list[ClaimKey]]:
        found: dict[str, list[ClaimKey]] = {}
        for key in self.is_idle:
            found.setdefault(key[0], []).append(key)
        return found

    def count_idle(self, holders: Iterable[Iterable[ClaimKey]]) -> int | None:
        """Return how many of some devices have only idle holders; None if that is not known of one."""
        found = 0
        for claims in holders:
            states = [self.is_idle.get(claim) for claim in claims]
            if False in states:
                continue
            if None in states:
                return None
            found += 1
        return found


@dataclass(slots=True)
class _Tally:
    """What has been counted for one row, and the devices of each slice that are in it."""

    parts: list[tuple[SliceStates, int]] = field(default_factory=list)

    def add(self, states: SliceStates, devices: int) -> None:
        self.parts.append((states, devices))

    @property
    def verdict(self) -> str:
        """What is wrong with the pool of the first device, or nothing."""
        verdict = self.parts[0][0].pool.judgement.verdict
        return "" if verdict is Verdict.COMPLETE else verdict.value

    def build_row(self, name: str, state: ClusterState, claims: _ClaimUses, by: str) -> UsageRow:
        counts = {
            kind: sum((getattr(states, kind) & devices).bit_count() for states, devices in self.parts)
            for kind in ("used", "shared", "free", "tainted", "blocked", "owned")
        }
        holders = [
            state.ledger.holders(states.pool.key, [states.slice_.names[index]])
            for states, devices in self.parts
            for index in bits.each((states.used | states.shared) & devices)
        ]
        return UsageRow(
            name,
            sum(devices.bit_count() for _, devices in self.parts),
            idle=claims.count_idle(holders),
            claims=len({claim for each in holders for claim in each}),
            largest=_find_largest(self.parts, state.ledger, by),
            **counts,
        )


def _namespace_row(
    name: str,
    keys: Sequence[ClaimKey],
    state: ClusterState,
    claims: _ClaimUses,
    published: PublishedDevices,
) -> UsageRow:
    devices: dict[tuple[str, str, str], set[ClaimKey]] = {}
    shares: set[tuple[str, str, str]] = set()
    holding: set[ClaimKey] = set()
    for key in keys:
        for result in state.ledger.results(key):
            device = result.driver, result.pool, result.device
            if result.admin_access or published.find(*device) is None:
                continue
            holding.add(key)
            devices.setdefault(device, set()).add(key)
            if result.share_id:
                shares.add(device)
    return UsageRow(
        name,
        total=None,
        used=len(devices) - len(shares),
        shared=len(shares),
        free=None,
        tainted=None,
        blocked=None,
        idle=claims.count_idle(devices.values()),
        claims=len(holding),
    )


def _find_largest(parts: Sequence[tuple[SliceStates, int]], ledger: Ledger, by: str) -> LargestDevice | None:
    """Return the device with room that has most left of a capacity; of equals the first by driver, pool and name."""
    rooms = [
        (states.slice_, room)
        for states, devices in parts
        if (room := (states.free | states.shared) & devices)
    ]
    names = {
        name for slice_, _ in rooms for name in slice_.capacity if by in ("", name, name.rpartition("/")[2])
    }
    best: tuple[int, Slice, int, str] | None = None
    for name in sorted(names):
        for slice_, room in rooms:
            column = slice_.capacity.get(name)
            for index in bits.each(room) if column is not None else ():
                value = column.values[index] if column is not None else None
                if value is None:
                    continue
                left = value.value.nano - ledger.consumed(slice_.key, slice_.names[index]).get(name, 0)
                if best is None or left > best[0]:
                    best = left, slice_, index, name
        if best is not None and not by:
            break
    if best is None:
        return None
    left, slice_, index, name = best
    published = slice_.capacity_of(index)[name].value
    amount = str(published) if left == published.nano else format_amount(left, family(published))
    return LargestDevice(*slice_.key, slice_.names[index], name, amount)
