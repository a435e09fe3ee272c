"""Device table: each published device with its node, its state, and the claims that hold it.

`usage` counts its rows, `device_list` lists them. Of each pool the newest generation counts.
Source: docs/audit.md.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from dra_operator.inventory import PoolKey, Slice, Verdict, bits
from dra_operator.inventory.counters import CounterLayout
from dra_operator.inventory.ownership import is_owned_taint
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.ledger.counters import CounterState
from dra_operator.questions.published_devices import NewestGeneration, PublishedDevices, devices_by_node
from dra_operator.questions.state import ClusterState

_EFFECTIVE: Final = ("NoSchedule", "NoExecute")


class DeviceState(StrEnum):
    """What state a device is in."""

    USED = "used"
    """Held by claims, without room for more."""
    SHARED = "shared"
    """Held by shares, with room for more."""
    BLOCKED = "blocked"
    """Held by nobody, and cannot be given to anybody: counters used up, pool not complete, node not usable."""
    TAINTED = "tainted"
    """Held by nobody, with a taint that keeps claims away."""
    FREE = "free"


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device: by its slice and its place there. `node` is empty if it is for several, or for all."""

    pool: NewestGeneration
    slice_: Slice
    index: int
    node: str
    state: DeviceState
    is_owned: bool
    holders: AbstractSet[ClaimKey]

    @property
    def name(self) -> str:
        """The name in its pool."""
        return self.slice_.names[self.index]

    @property
    def has_room(self) -> bool:
        """True if it is free, or has room for more shares."""
        return self.state in (DeviceState.FREE, DeviceState.SHARED)


def build_table(state: ClusterState) -> list[DeviceRow]:
    """Return a row for each published device, pools in order, devices in the order of their slices."""
    found: list[DeviceRow] = []
    for pool in PublishedDevices(state.inventory).pools.values():
        counters = _count_down(pool.judgement.counters, pool.key, state.ledger)
        for slice_ in pool.slices:
            found += _build_rows(state, pool, slice_, counters)
    return found


def find_node_condition(state: ClusterState, name: str) -> str:
    """Return why a node cannot be used, or nothing; where no node is given, none is gone."""
    node = state.inventory.nodes.get(name)
    if node is None:
        return "gone" if state.has_all("Node") else ""
    return node.unusable or ""


def _build_rows(
    state: ClusterState, pool: NewestGeneration, slice_: Slice, counters: CounterState | None
) -> Iterator[DeviceRow]:
    by_node = devices_by_node(slice_)
    nodes = {index: name for name, devices in by_node.items() for index in bits.each(devices)}
    states = _find_states(state, pool, slice_, counters, by_node)
    for index, name in enumerate(slice_.names):
        is_owned = bool(slice_.taints) and any(map(is_owned_taint, slice_.taints[index]))
        found = next((each for each, devices in states.items() if devices >> index & 1), DeviceState.FREE)
        is_held = found in (DeviceState.USED, DeviceState.SHARED)
        holders = state.ledger.holders(pool.key, [name]) if is_held else frozenset[ClaimKey]()
        yield DeviceRow(pool, slice_, index, nodes.get(index, ""), found, is_owned, holders)


def _find_states(
    state: ClusterState,
    pool: NewestGeneration,
    slice_: Slice,
    counters: CounterState | None,
    by_node: Mapping[str, int],
) -> dict[DeviceState, int]:
    """Return the devices of a slice by their state, as sets of bits; the first that a device is in counts."""
    used, shared = _in_use(slice_, state.ledger)
    if pool.judgement.verdict is not Verdict.COMPLETE:
        blocked = slice_.every
    else:
        # The operator allocates none of those that are half owned, and others keep off them.
        blocked = _without_counters(slice_, counters) | slice_.half_owned
        for name, devices in by_node.items():
            if name and find_node_condition(state, name):
                blocked |= devices
    return {
        DeviceState.USED: used,
        DeviceState.SHARED: shared,
        DeviceState.BLOCKED: blocked,
        DeviceState.TAINTED: _tainted(slice_),
    }


def _in_use(slice_: Slice, ledger: Ledger) -> tuple[int, int]:
    """Return the devices of a slice that are in use and have no room, and those that have room for more shares."""
    used = _positions(slice_, ledger.held(slice_.key))
    shares = ledger.shared(slice_.key)
    shared = _positions(slice_, shares) & ~used
    for index in bits.each(shared):
        amounts = shares[slice_.names[index]].amounts
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


def _tainted(slice_: Slice) -> int:
    """Return the devices with a taint that keeps claims away, beside that of ownership."""
    return bits.from_positions(
        index
        for index, taints in enumerate(slice_.taints)
        if any(taint.effect in _EFFECTIVE and not is_owned_taint(taint) for taint in taints)
    )


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
