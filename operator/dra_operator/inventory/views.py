"""Views: which pools and devices each node sees, in the order in which upstream looks at them.

Nodes that see the same slices of a pool share one pool view, and nodes that see the same pools share one node view: a
search that fails on one of them fails on all. In a pool view devices stand by slice name and published order; in a node
view pools stand by driver and name, those with binding conditions last.
Source: docs/dra-semantics 2.2 to 2.4; docs/engine sections 2 to 4.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import accumulate, count
from typing import NamedTuple, TypeAlias

from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.api.versions import Features
from dra_operator.inventory import bits
from dra_operator.inventory.change_set import ChangeSet
from dra_operator.inventory.inventory import Inventory
from dra_operator.inventory.nodes import NodeFields, NodeRecord
from dra_operator.inventory.pool import CounterLayout, Judgement, Pool, Verdict
from dra_operator.inventory.slices import PoolKey, Slice

_Visible: TypeAlias = tuple[int, tuple[tuple[int, str], ...]]
"""The devices of a slice with per-device selection that a node can use, and those with a broken selector."""


@dataclass(frozen=True, slots=True)
class VisibleSlices:
    """What a node sees of a pool: slices in upstream's order, and what of their devices where those say it."""

    slices: tuple[Slice, ...]
    devices: tuple[tuple[int, _Visible], ...]


class BrokenSelector(NamedTuple):
    """A slice with a node selector that cannot be parsed, and why it cannot."""

    slice: str
    why: str


def _concern(fields: NodeFields, node: NodeRecord) -> bool:
    """True if the fields concern the node. Raises NodeSelectorError if their selector cannot be parsed."""
    if fields.node_name is not None:
        return fields.node_name == node.name
    if fields.all_nodes:
        return True
    return fields.selector is not None and matches(fields.selector, node.name, node.labels)


def find_visible_slices(
    pool: Pool, node: NodeRecord, features: Features
) -> VisibleSlices | BrokenSelector | None:
    """Return what a node sees of a pool, or None if no slice of it concerns the node.

    If a selector that had to be asked cannot be parsed, that is the answer.
    """
    slices: list[Slice] = []
    devices: list[tuple[int, _Visible]] = []
    # Upstream lists the slices of the node first, then those without a node name.
    local = pool.local.get(node.name)
    own = [local[name] for name in sorted(local)] if local else ()
    for slice_ in (*own, *pool.near(node)):
        if not is_known(slice_, features):
            continue
        try:
            if slice_.nodes.is_set:
                if _concern(slice_.nodes, node):
                    slices.append(slice_)
            elif slice_.per_device_nodes and (visible := _visible_devices(slice_, node)):
                slices.append(slice_)
                devices.append((slice_.serial, visible))
        except NodeSelectorError as error:
            return BrokenSelector(slice_.name, str(error))
    return VisibleSlices(tuple(slices), tuple(devices)) if slices else None


def is_known(slice_: Slice, features: Features) -> bool:
    """True if a slice uses nothing that is switched off."""
    if not features.partitionable_devices and (slice_.per_device_nodes or slice_.counter_sets):
        return False
    return features.compatibility_groups or not slice_.has_groups


def _visible_devices(slice_: Slice, node: NodeRecord) -> _Visible | None:
    visible = 0
    errors: list[tuple[int, str]] = []
    for index in slice_.selector_index.near(node):
        try:
            if _concern(slice_.device_fields[index].nodes, node):
                visible |= 1 << index
        except NodeSelectorError as error:
            if not visible:
                # Upstream asks in order until one device matches; a broken selector before it ends the attempt.
                raise
            errors.append((index, str(error)))
    return (visible, tuple(errors)) if visible else None


_serials = count()
"""Of all views: what is kept about some by number is kept about those of several followers of an inventory."""


@dataclass(frozen=True, slots=True, eq=False)
class PoolView:
    """A pool as some nodes see it. What is in use of it is kept elsewhere (`ledger.PoolState`).

    `driver` is that of all devices, or empty if one of them cannot be read: each selector fails on it.
    Positions: `offsets[i]` is the first position of `slices[i]`, `placed` has both together, `size` is their number;
    only a complete pool has any.
    Sets of positions: `visible` (usable on these nodes), `shareable`, `counted`.
    `selector_errors` holds, by position, why a node selector of a device cannot be parsed: no search may take it.
    `nodes` is the set of the nodes that see it; `Views` keeps it up to date.
    `judged_by` is the epoch of the pool in which it was judged.
    """

    serial: int
    key: PoolKey
    verdict: Verdict
    reason: str
    slices: tuple[Slice, ...]
    offsets: tuple[int, ...]
    placed: tuple[tuple[int, Slice], ...]
    size: int
    visible: int
    selector_errors: Mapping[int, str]
    counters: CounterLayout | None
    binding: bool
    skips_operations: bool
    shareable: int
    counted: int
    judged_by: object
    driver: str
    nodes: int = 0
    _positions: Mapping[str, int] | None = None

    @property
    def unreadable(self) -> int:
        """The devices with an attribute whose value is not known."""
        if self.driver:
            return 0
        return sum([slice_.unreadable << offset for offset, slice_ in self.placed])

    @property
    def has_surplus(self) -> bool:
        """True if nodes see more slices than are announced: no update ends that."""
        return Judgement(self.verdict, self.reason).has_surplus

    def locate(self, position: int) -> tuple[Slice, int]:
        """Return the slice of the device at a position, and its index there."""
        number = bisect_right(self.offsets, position) - 1
        return self.slices[number], position - self.offsets[number]

    @property
    def positions(self) -> Mapping[str, int]:
        """The positions of the devices by name."""
        positions = self._positions
        if positions is None:
            if len(self.slices) == 1:
                positions = self.slices[0].indexes
            else:
                names = (name for slice_ in self.slices for name in slice_.names)
                positions = {name: position for position, name in enumerate(names)}
            object.__setattr__(self, "_positions", positions)
        return positions


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NodeView:
    """The pools of some `nodes` in search order; `error` tells of a node selector that cannot be parsed.

    `countable` says that what fits on its nodes can be counted: no error, and no slice skips node operations.
    Side by side the pools make one row of positions: `starts` holds the first of each, `row` both together. `nodes` is
    kept up to date by `Views`.
    """

    key: object
    pools: tuple[PoolView, ...]
    starts: tuple[int, ...]
    row: tuple[tuple[int, PoolView], ...]
    error: BrokenSelector | None
    skips_operations: bool
    countable: bool
    nodes: int = 0

    def number_of(self, position: int) -> int:
        """Return the number of the pool of the device at a position of the row."""
        return bisect_right(self.starts, position) - 1

    def locate(self, position: int) -> tuple[PoolView, int]:
        """Return the pool of the device at a position of the row, and its position there."""
        number = self.number_of(position)
        return self.pools[number], position - self.starts[number]


@dataclass(frozen=True, slots=True)
class ViewChanges:
    """What bringing the views up to date has changed.

    With `is_renumbered` nodes have other positions than before, so that every earlier set of them is void. `nodes` is
    the set of nodes that see something else than before.
    """

    is_renumbered: bool
    nodes: int
    added: tuple[PoolView, ...]
    removed: tuple[PoolView, ...]


_Seen: TypeAlias = PoolView | BrokenSelector | None
"""What a node sees of a pool, or why a node selector of it cannot be parsed."""


@dataclass(slots=True)
class Views:
    """The views of all nodes of an inventory under given features.

    `order` holds the names of the nodes in byte order, `index` the position of each: sets of nodes count by it.
    `of_pool` holds the views of each pool; `usable` is the set of nodes that claims may be given to.
    """

    inventory: Inventory
    features: Features
    order: list[str] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=dict)
    usable: int = 0
    of_pool: dict[PoolKey, dict[VisibleSlices, PoolView]] = field(default_factory=dict)
    _of_node: dict[str, NodeView] = field(default_factory=dict)
    _seen: dict[str, dict[PoolKey, _Seen]] = field(default_factory=dict)
    _watchers: dict[PoolKey, set[str]] = field(default_factory=dict)
    _node_views: dict[object, NodeView] = field(default_factory=dict)
    _replaced: list[PoolView] = field(default_factory=list)
    _idle: list[NodeView] = field(default_factory=list)
    _changes: ChangeSet = field(init=False)

    def __post_init__(self) -> None:
        self._changes = self.inventory.subscribe()

    @property
    def behind(self) -> int:
        """How many pools and nodes have changed since the views were brought up to date."""
        return len(self._changes.pools) + len(self._changes.nodes)

    def of_node(self, name: str) -> NodeView:
        """Return what a node sees."""
        return self._of_node[name]

    def node_views(self) -> Iterable[NodeView]:
        """Return the different views that nodes have."""
        return self._node_views.values()

    def refresh(self) -> ViewChanges | None:
        """Bring the views up to date; return what changed, or None if nothing did."""
        changes = self._changes
        if not changes.pools and not changes.nodes:
            return None
        pools, nodes = changes.pools, changes.nodes
        changes.pools, changes.nodes = {}, set()
        is_renumbered = self._renumber(nodes)
        there = nodes & self.index.keys()
        added: dict[int, PoolView] = {}
        moved: set[str] = set()
        work = self._work(pools, nodes)
        for name in nodes - there:
            self._forget_node(name)
        for key, targets in work.items():
            self._update(key, targets, moved, added)
        # A node that is new has a view even where it sees no pool.
        changed_nodes = self._join(moved | there)
        if is_renumbered:
            self._count_nodes()
        else:
            self._mark_usable(there)
        removed = self._drop_unused(work)
        kept = tuple(view for view in added.values() if view.nodes)
        return ViewChanges(is_renumbered, changed_nodes | self.set_of(nodes), kept, removed)

    def _renumber(self, nodes: set[str]) -> bool:
        if nodes & self.index.keys() == nodes & self.inventory.nodes.keys():
            return False
        self.order = sorted(self.inventory.nodes)
        self.index = {name: position for position, name in enumerate(self.order)}
        return True

    def _work(self, pools: Iterable[PoolKey], nodes: set[str]) -> dict[PoolKey, AbstractSet[str]]:
        """Return the pools to update, each with the nodes whose view of it may change.

        The pools of nodes that are gone are among them.
        """
        work: dict[PoolKey, AbstractSet[str]] = {}
        for key in pools:
            pool, watchers = self.inventory.pools.get(key), self._watchers.setdefault(key, set())
            if pool is None:
                work[key] = set(watchers)
            else:
                work[key] = self.index.keys() if pool.shared else pool.local.keys() | watchers
        # Most pools are of one node, which sees the same of them whatever it is like.
        other = {name for name in nodes if (name in self.index) != (name in self._of_node)}
        for key, pool in self.inventory.pools.items() if nodes else ():
            if key not in work and (pool.shared or (other and not other.isdisjoint(pool.local))):
                work[key] = nodes
        return work

    def _update(
        self, key: PoolKey, targets: AbstractSet[str], moved: set[str], added: dict[int, PoolView]
    ) -> None:
        pool = self.inventory.pools.get(key)
        for name in targets:
            if name not in self.index:
                continue
            seen = None if pool is None else self._see(pool, self.inventory.nodes[name], added)
            self._assign(name, key, seen, moved)

    def _see(self, pool: Pool, node: NodeRecord, added: dict[int, PoolView]) -> _Seen:
        visible = find_visible_slices(pool, node, self.features)
        if visible is None or isinstance(visible, BrokenSelector):
            return visible
        known = self.of_pool.setdefault(pool.key, {})
        if (found := known.get(visible)) is not None and found.judged_by is pool.epoch:
            return found
        view = self._build(pool, visible)
        if view is None:
            return None
        if found is not None:
            self._replaced.append(found)
        known[visible] = view
        added[view.serial] = view
        return view

    def _build(self, pool: Pool, seen: VisibleSlices) -> PoolView | None:
        judgement = pool.judge(seen.slices, self.features)
        if judgement.verdict is Verdict.OBSOLETE:
            return None
        own = dict(seen.devices)
        offsets: list[int] = []
        size = visible = shareable = counted = 0
        errors: dict[int, str] = {}
        for slice_ in judgement.slices:
            offsets.append(size)
            visible_of_slice, broken = own.get(slice_.serial, (slice_.every, ()))
            visible |= visible_of_slice << size
            for index, text in broken:
                errors[size + index] = text
            shareable |= slice_.shareable << size
            counted |= slice_.counted << size
            size += len(slice_.names)
        return PoolView(
            serial=next(_serials),
            key=pool.key,
            verdict=judgement.verdict,
            reason=judgement.reason,
            slices=judgement.slices,
            offsets=tuple(offsets),
            placed=tuple(zip(offsets, judgement.slices, strict=True)),
            size=size,
            visible=visible,
            selector_errors=errors,
            counters=judgement.counters,
            binding=any(slice_.binding for slice_ in judgement.slices),
            skips_operations=any(slice_.skip_node_operations for slice_ in judgement.slices),
            shareable=shareable,
            counted=counted,
            judged_by=pool.epoch,
            driver="" if any(slice_.unreadable for slice_ in judgement.slices) else pool.key[0],
        )

    def _assign(self, node: str, key: PoolKey, seen: _Seen, moved: set[str]) -> None:
        table = self._seen.setdefault(node, {})
        old = table.get(key)
        if old == seen:
            return
        bit = 1 << self.index[node]
        if isinstance(old, PoolView):
            _set_nodes(old, old.nodes & ~bit)
        if isinstance(seen, PoolView):
            _set_nodes(seen, seen.nodes | bit)
        if seen is None:
            del table[key]
            self._watchers[key].discard(node)
        else:
            table[key] = seen
            self._watchers[key].add(node)
        moved.add(node)

    def _forget_node(self, name: str) -> None:
        for key in self._seen.pop(name, {}):
            self._watchers[key].discard(name)
        if (node_view := self._of_node.pop(name, None)) is not None:
            self._idle.append(node_view)

    def _join(self, moved: set[str]) -> int:
        """Give each of these nodes its node view; return the set of those that have another one than before."""
        changed = 0
        for name in moved:
            seen = self._seen.get(name, {}).values()
            views = sorted(
                (item for item in seen if isinstance(item, PoolView)),
                key=lambda view: (view.binding, view.key),
            )
            error = min((item for item in seen if isinstance(item, BrokenSelector)), default=None)
            key = (tuple(view.serial for view in views), error)
            node_view = self._node_views.get(key)
            if node_view is None:
                skips = any(view.skips_operations for view in views)
                starts = tuple(accumulate((view.size for view in views), initial=0))[:-1]
                row = tuple(zip(starts, views, strict=True))
                node_view = self._node_views[key] = NodeView(
                    key,
                    tuple(views),
                    starts,
                    row,
                    error,
                    skips,
                    error is None and not skips,
                )
            old = self._of_node.get(name)
            if old is node_view:
                continue
            bit = 1 << self.index[name]
            if old is not None:
                _set_nodes(old, old.nodes & ~bit)
                self._idle.append(old)
            _set_nodes(node_view, node_view.nodes | bit)
            self._of_node[name] = node_view
            changed |= bit
        return changed

    def _count_nodes(self) -> None:
        """Set all sets of nodes anew: the nodes have other positions."""
        for node_view in self._node_views.values():
            _set_nodes(node_view, 0)
        for views in self.of_pool.values():
            for view in views.values():
                _set_nodes(view, 0)
        for name, position in self.index.items():
            bit = 1 << position
            node_view = self._of_node[name]
            _set_nodes(node_view, node_view.nodes | bit)
            for view in node_view.pools:
                _set_nodes(view, view.nodes | bit)
        self.usable = bits.from_flags(self.inventory.nodes[name].unusable is None for name in self.order)

    def _mark_usable(self, nodes: set[str]) -> None:
        for name in nodes:
            bit = 1 << self.index[name]
            self.usable |= bit
            if self.inventory.nodes[name].unusable is not None:
                self.usable ^= bit

    def _drop_unused(self, pools: Iterable[PoolKey]) -> tuple[PoolView, ...]:
        removed, self._replaced = self._replaced, []
        for key in pools:
            known = self.of_pool.get(key, {})
            for seen, view in tuple(known.items()):
                if not view.nodes:
                    removed.append(view)
                    del known[seen]
            if not known:
                self.of_pool.pop(key, None)
            if not self._watchers.get(key) and key not in self.inventory.pools:
                self._watchers.pop(key, None)
        for node_view in self._idle:
            if not node_view.nodes:
                self._node_views.pop(node_view.key, None)
        self._idle.clear()
        return tuple(removed)

    def set_of(self, nodes: Iterable[str]) -> int:
        """Return those of some nodes that there are, as a set."""
        return bits.from_positions(self.index[name] for name in nodes if name in self.index)


def _set_nodes(view: PoolView | NodeView, nodes: int) -> None:
    object.__setattr__(view, "nodes", nodes)
