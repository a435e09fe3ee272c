"""Availability: what the inventory shows and the ledger leaves, joined and kept up to date.

For each pool view the devices that are free, for each pool's counters what is left, and the nodes with a free device.
A decision flips a few bits. What may help a claim that fitted nowhere goes into a log, which equivalence caches read
on from where they last stopped.
Source: docs/engine sections 3 to 5.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from dra_operator.inventory import PoolKey, PoolView, ViewChanges, Views, bits
from dra_operator.inventory.pool import CounterLayout, Draw
from dra_operator.ledger.allocated_state import ChangedDevices, Ledger


@dataclass(frozen=True, slots=True)
class SetOccupancy:
    """The devices placed in one counter set: whether they name groups, and the groups they all share."""

    grouped: bool
    shared: frozenset[str]

    def admits(self, groups: frozenset[str]) -> bool:
        """True if a device with these groups may join."""
        return bool(self.shared & groups) if self.grouped and groups else not self.grouped and not groups


def join(placed: SetOccupancy | None, groups: frozenset[str]) -> SetOccupancy:
    """Return what is placed in a set after a device with these groups joined."""
    if placed is None:
        return SetOccupancy(bool(groups), groups)
    if placed.grouped and groups:
        return SetOccupancy(grouped=True, shared=placed.shared & groups)
    return placed


@dataclass(slots=True)
class CounterState:
    """What is left of a layout's counters: `left` by position in nano-units, `overdrawn` how many are negative.

    What committed devices occupy is computed when it is asked for.
    """

    layout: CounterLayout
    left: list[int] = field(init=False)
    overdrawn: int = field(init=False)
    _used: set[str] = field(default_factory=set)
    _placed: dict[frozenset[int], tuple[SetOccupancy | None, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left = list(self.layout.totals)
        self.overdrawn = sum(amount < 0 for amount in self.left)

    def mark(self, device: str, *, used: bool) -> None:
        """Count a device as used, or not; one that draws on none of the counters never is."""
        draws = self.layout.draws.get(device)
        if draws is None or (device in self._used) == used:
            return
        (self._used.add if used else self._used.remove)(device)
        sign = -1 if used else 1
        for draw in draws:
            for position, amount in draw.amounts:
                before = self.left[position]
                after = self.left[position] = before + sign * amount
                self.overdrawn += (after < 0) - (before < 0)
        self._placed.clear()

    def placed(self, concerned: frozenset[int] = frozenset()) -> tuple[SetOccupancy | None, ...]:
        """Return what committed devices occupy, by set, on a node that these slices concern (by serial number)."""
        found = self._placed.get(concerned)
        if found is None:
            table: list[SetOccupancy | None] = [None] * self.layout.sets
            joining = sorted(self.layout.joining, key=lambda entry: entry[0] not in concerned)
            for _, device, draw in joining:
                if device in self._used:
                    _place(table, draw)
            found = self._placed[concerned] = tuple(table)
        return found


def _place(table: list[SetOccupancy | None], draw: Draw) -> None:
    for number, groups in draw.groups:
        table[number] = join(table[number], groups)


_LOG_LENGTH = 4096


@dataclass(slots=True)
class Log:
    """Sets of nodes on which something came back.

    It forgets its older half when it is full, and all when the nodes have other positions.
    """

    _start: int = 0
    _entries: list[int] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The position behind the last entry."""
        return self._start + len(self._entries)

    def append(self, nodes: int) -> None:
        """Add a set of nodes."""
        if len(self._entries) >= _LOG_LENGTH:
            del self._entries[: _LOG_LENGTH // 2]
            self._start += _LOG_LENGTH // 2
        self._entries.append(nodes)

    def forget(self) -> None:
        """Forget all entries, so that whoever reads on is told of all nodes."""
        self._start = self.end + 1
        self._entries.clear()

    def joined(self, position: int, nodes: int) -> int:
        """Return a set of nodes of a position with those of all entries since; all nodes if some are forgotten."""
        if position < self._start:
            return -1
        for entry in self._entries[position - self._start :]:
            nodes |= entry
        return nodes


@dataclass(slots=True, eq=False)
class PoolState:
    """What is in use of a pool as some nodes see it.

    Sets of positions: `free` (not allocated exclusively, nor shared without being shareable) and `charged` (shares
    consume capacity).
    """

    view: PoolView
    free: int
    charged: int = 0


@dataclass(slots=True)
class Availability:
    """The joined state. `nonempty` is the set of nodes with a free device, or with a view that is an error.

    `states` holds what is in use of each pool view, by its serial number.
    Devices that a slice keeps for other nodes count: selectors are evaluated on them, too, and can fail.
    """

    views: Views
    ledger: Ledger
    nonempty: int = 0
    log: Log = field(default_factory=Log)
    states: dict[int, PoolState] = field(default_factory=dict)
    _counters: dict[CounterLayout, CounterState] = field(default_factory=dict)
    _changed: ChangedDevices = field(init=False)

    def __post_init__(self) -> None:
        self._changed = self.ledger.subscribe()

    def refresh(self) -> ViewChanges | None:
        """Take in what changed in inventory and ledger; return the change of the views, or None."""
        changes = self.views.refresh()
        closed = 0
        if changes is not None:
            self._apply_views(changes)
            closed = bits.first(len(self.views.order)) if changes.is_renumbered else changes.nodes
        if changed := self._changed.by_pool:
            self._changed.by_pool = {}
            closed |= self._update(changed)
        # A view can look open until the last of its devices is up to date, so what may be closed is counted last.
        if closed:
            self._count_free(closed)
        return changes

    def counters(self, layout: CounterLayout) -> CounterState:
        """Return what is left of a pool's counters."""
        return self._counters[layout]

    def find_counters(self, layout: CounterLayout | None) -> CounterState | None:
        """Return what is left of a pool's counters, or None if it has none or no node sees it."""
        return None if layout is None else self._counters.get(layout)

    def _apply_views(self, changes: ViewChanges) -> None:
        if changes.is_renumbered:
            self.log.forget()
            self.nonempty = 0
        for view in changes.removed:
            self.states.pop(view.serial, None)
        for view in changes.added:
            held, shared = self.ledger.held(view.key), self.ledger.shared(view.key)
            state = self.states[view.serial] = PoolState(view, bits.first(view.size))
            for device, position in view.positions.items() if held or shared else ():
                if device in held:
                    state.free &= ~(1 << position)
                if device in shared:
                    state.free &= ~(1 << position) | self._free_beside_shares(view)
                    if shared[device].amounts:
                        state.charged |= 1 << position
            if view.counters is not None and view.counters not in self._counters:
                counters = self._counters[view.counters] = CounterState(view.counters)
                for device in {*held, *shared}:
                    counters.mark(device, used=True)
        if any(view.counters is not None for view in changes.removed):
            alive = {
                view.counters
                for views in self.views.of_pool.values()
                for view in views.values()
                if view.counters is not None
            }
            self._counters = {layout: state for layout, state in self._counters.items() if layout in alive}
        self.log.append(changes.nodes)

    def _update(self, changed: Mapping[PoolKey, Mapping[str, bool]]) -> int:
        """Bring devices up to date; return the nodes of views that have lost their last free one."""
        opened = closed = helped = 0
        for pool, devices in changed.items():
            held, shared = self.ledger.held(pool), self.ledger.shared(pool)
            views = self.views.of_pool.get(pool, {}).values()
            for view in views:
                state = self.states[view.serial]
                for device in devices.keys() & view.positions.keys():
                    bit = 1 << view.positions[device]
                    if device not in held and (device not in shared or self._free_beside_shares(view) & bit):
                        state.free |= bit
                        opened |= view.nodes
                    else:
                        state.free &= ~bit
                        if not state.free:
                            closed |= view.nodes
                    if device in shared and shared[device].amounts:
                        state.charged |= bit
                    else:
                        state.charged &= ~bit
                    if devices[device]:
                        helped |= view.nodes
            helped |= self._update_counters(pool, views, devices)
        self.nonempty |= opened
        if helped:
            self.log.append(helped)
        return closed

    def _free_beside_shares(self, view: PoolView) -> int:
        """Return the devices of a view that are free though somebody has shares of them.

        One that is no longer shareable is in use as long as somebody has a share of it.
        """
        features = self.views.features
        if features.consumable_capacity:
            return view.shareable
        return 0 if features.rules.any_share_keeps else -1

    def _update_counters(
        self, pool: PoolKey, views: Collection[PoolView], devices: Mapping[str, bool]
    ) -> int:
        """Bring the counters up to date; return the nodes that this may help.

        What came back helps. So does taking: the first share of a device has paid its counters, and a device in place
        can change which compatibility groups are admitted, or take less than nothing.
        """
        held, shared = self.ledger.held(pool), self.ledger.shared(pool)
        every, sharing = defaultdict[CounterLayout, int](int), defaultdict[CounterLayout, int](int)
        for view in views:
            if view.counters is not None:
                every[view.counters] |= view.nodes
                sharing[view.counters] |= view.nodes if view.shareable else 0
        helped = 0
        for layout, nodes in every.items():
            state = self._counters[layout]
            for device in layout.draws.keys() & devices.keys():
                state.mark(device, used=device in held or device in shared)
                helped |= nodes if devices[device] or not layout.is_plain else sharing[layout]
        return helped

    def _count_free(self, nodes: int) -> None:
        """Find out anew which of these nodes have a free device."""
        order = self.views.order
        nonempty = 0
        for position in bits.each(nodes):
            view = self.views.of_node(order[position])
            if view.error is not None or any(self.states[pool.serial].free for pool in view.pools):
                nonempty |= 1 << position
        self.nonempty = (self.nonempty & ~nodes) | nonempty
