"""Pools as explanations see them: which slices count, and what is known of each device but for its attributes.

The slices of the newest generation count, and older ones that a usable node still sees. Pools that look the same to a
request are one group, so a request is held against each group. When a slice, a node or a use changes, only the pools
concerned are recorded anew.
Source: docs/dra-semantics 2.3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.api.node_selector import describe
from dra_operator.api.text import listed
from dra_operator.inventory import Inventory, NodeView, PoolView, Slice, Verdict, Views, bits
from dra_operator.inventory.change_set import ChangeSet
from dra_operator.inventory.counters import CounterLayout
from dra_operator.inventory.pool import Judgement, Pool
from dra_operator.inventory.slices import PoolKey
from dra_operator.inventory.views import is_known
from dra_operator.ledger import Availability
from dra_operator.ledger.allocated_state import ChangedDevices, ClaimKey

_MAX_GROUPINGS = 64
_SPARE_KINDS = 1024
_SPARE_CHANGES = 1024
_MAX_HOLDERS = 16

AttributeNames = frozenset[str] | None
"""The attributes by which pools are told apart, as `domain/id`; None for all of them."""
Side = int
"""A view as nodes see it that can do without node operations, or as the others do: its serial number and a bit.

If nothing of it skips node operations, all nodes are among the former.
"""
NodeKind = tuple[tuple[Side, ...], str]
"""The sides of the pools that some usable nodes see, and the first of these nodes by name."""


@dataclass(frozen=True, slots=True)
class PublishedSlices:
    """The slices that count, of all pools; views must be up to date."""

    inventory: Inventory
    views: Views

    def __iter__(self) -> Iterator[Slice]:
        """Yield the slices of each pool, those of its newest generation first."""
        for pool in self.inventory.pools.values():
            yield from pool.newest()
            yield from _old_slices(pool, self.views)


def _old_slices(pool: Pool, views: Views) -> dict[Slice, CounterLayout | None]:
    """Return the slices of older generations that usable nodes still see, by name, with the counters they draw on."""
    generations = pool.generations()
    if len(generations) == 1:
        return {}
    newest = max(generations)
    found = {
        slice_: view.counters
        for view in views.of_pool.get(pool.key, {}).values()
        if view.nodes & views.usable
        for slice_ in view.slices
        if slice_.generation != newest
    }
    return {slice_: found[slice_] for slice_ in sorted(found, key=lambda slice_: slice_.name)}


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A slice and what is known of its devices.

    `slots` holds, for each side of a view of usable nodes that has the slice, its number and the devices that are
    usable there; `reachable` are those that are visible at all, and `unreachable` says why each other device is not.
    `operations` are the devices for which a node supports what the slice skips. `taken` are the devices in use as a
    whole, `sharing` those with shares in use, and `shared` what these consume, by index. `counters` are those that its
    devices draw on; `old` says that it is of an older generation, which nodes still see.
    """

    slice_: Slice
    slots: tuple[tuple[int, int], ...]
    reachable: int
    unreachable: Mapping[int, str]
    operations: int
    taken: int
    sharing: int
    shared: Mapping[int, Mapping[str, int]]
    counters: CounterLayout | None
    old: bool

    def kind(self) -> tuple[object, ...]:
        """Return everything that what is told of its devices depends on, but for attributes."""
        slice_ = self.slice_
        return (
            slice_.driver,
            len(slice_.names),
            slice_.shareable,
            slice_.unreadable and slice_.serial,
            tuple(slice_.capacity),
            tuple([column.serial for column in slice_.capacity.values()]),
            slice_.tainted_groups,
            slice_.counted,
            slice_.has_groups,
            self.slots,
            tuple(self.unreachable.items()),
            self.operations,
            self.old,
            self.taken,
            tuple([(index, *sorted(amounts.items())) for index, amounts in self.shared.items()]),
        )


@dataclass(slots=True, eq=False)
class PoolRecord:
    """A pool as it was when it last changed.

    `kind` is equal for pools that differ in nothing but attributes; `sides` are those of the views of usable nodes.
    """

    pool: Pool
    judgement: Judgement
    slices: tuple[SliceRecord, ...]
    sides: tuple[Side, ...]
    kind: int
    _holders: dict[tuple[int, ...], frozenset[ClaimKey]] = field(default_factory=dict)

    def holders(self, availability: Availability, devices: tuple[int, ...]) -> frozenset[ClaimKey]:
        """Return the claims that hold some devices, a set of them for each slice."""
        if (found := self._holders.get(devices)) is None:
            names = [
                record.slice_.names[index]
                for record, wanted in zip(self.slices, devices, strict=True)
                for index in bits.each(wanted & (record.taken | record.sharing))
            ]
            found = frozenset(availability.ledger.holders(self.pool.key, names))
            # More sets of devices than these are put together each time: whatever goes would be asked for next.
            if len(self._holders) < _MAX_HOLDERS:
                self._holders[devices] = found
        return found


@dataclass(slots=True, eq=False)
class Group:
    """Pools that look the same."""

    members: dict[PoolKey, PoolRecord] = field(default_factory=dict)
    _holders: dict[tuple[int, ...], frozenset[ClaimKey]] = field(default_factory=dict)

    def put(self, key: PoolKey, record: PoolRecord | None) -> None:
        """Take a pool in, or leave it out."""
        self._holders.clear()
        if record is None:
            del self.members[key]
        else:
            self.members[key] = record

    def holders(self, availability: Availability, devices: tuple[int, ...]) -> frozenset[ClaimKey]:
        """Return the claims that hold some devices of any of the pools."""
        if (found := self._holders.get(devices)) is None:
            if len(self._holders) >= _MAX_HOLDERS:
                self._holders.clear()
            each = [record.holders(availability, devices) for record in self.members.values()]
            found = self._holders[devices] = frozenset().union(*each)
        return found


@dataclass(slots=True)
class PoolGrouping:
    """All pools, in groups that look the same by some attributes."""

    attributes: AttributeNames
    groups: dict[object, Group] = field(default_factory=dict)
    _look_of: dict[PoolKey, object] = field(default_factory=dict)
    _slots: dict[Side, tuple[Group, int]] = field(default_factory=dict)
    _shapes: dict[tuple[tuple[Group, int], ...], str] | None = None
    """What usable nodes see, as groups with the number of a side; each time with the first such node by name."""

    def put(self, key: PoolKey, record: PoolRecord | None) -> None:
        """Move a pool to the group it now belongs to; None if it is gone."""
        self._shapes = None
        if (old := self._look_of.pop(key, None)) is not None:
            group = self.groups[old]
            for side in group.members[key].sides:
                del self._slots[side]
            group.put(key, None)
            if not group.members:
                del self.groups[old]
        if record is not None:
            look = (record.kind, *[self._columns(each.slice_) for each in record.slices])
            self._look_of[key] = look
            group = self.groups.setdefault(look, Group())
            group.put(key, record)
            for slot, side in enumerate(record.sides):
                self._slots[side] = (group, slot)

    def most_on_a_node(
        self, numbers: Mapping[Group, tuple[int, ...]], nodes: Sequence[NodeKind]
    ) -> tuple[int, str]:
        """Return the largest sum that a node sees of the numbers of each side of a pool, and the first such node."""
        if self._shapes is None:
            slots = self._slots
            self._shapes = {}
            for sides, name in nodes:
                shape = tuple([slots[side] for side in sides if side in slots])
                self._shapes[shape] = min(name, self._shapes.get(shape, name))
        sums = {shape: sum([numbers[group][slot] for group, slot in shape]) for shape in self._shapes}
        most = max(sums.values(), default=0)
        names = [self._shapes[shape] for shape, number in sums.items() if number == most]
        return most, min(names, default="")

    def _columns(self, slice_: Slice) -> object:
        if self.attributes is None:
            return (tuple(slice_.attributes), tuple([item.serial for item in slice_.attributes.values()]))
        return tuple(
            [
                column and column.serial
                for name in self.attributes
                for column in slice_.attribute_columns(name)
            ]
        )


@dataclass(slots=True)
class PoolRecords:
    """The records of all pools, kept up to date with inventory and ledger."""

    availability: Availability
    _looked: ChangeSet = field(init=False)
    _touched: ChangedDevices = field(init=False)
    _records: dict[PoolKey, PoolRecord] = field(default_factory=dict)
    _groupings: dict[AttributeNames, PoolGrouping] = field(default_factory=dict)
    _nodes: list[NodeKind] | None = None
    _kinds: dict[object, int] = field(default_factory=dict)
    _kinds_made: int = 0

    def __post_init__(self) -> None:
        self._looked = self.availability.views.subscribe()
        self._touched = self.availability.ledger.subscribe()

    @property
    def is_far_behind(self) -> bool:
        """True if there is more to catch up with than it takes to begin anew."""
        behind = len(self._looked.pools) + len(self._touched.by_pool())
        return behind > 2 * len(self._records) + _SPARE_CHANGES

    def pools(self) -> Sequence[PoolRecord]:
        """Return the records of the pools as they are now, by driver and name; availability must be up to date."""
        self._refresh()
        return [self._records[key] for key in sorted(self._records)]

    def grouping(self, attributes: AttributeNames) -> PoolGrouping:
        """Return the pools as they are now in groups; availability must be up to date."""
        self._refresh()
        found = self._groupings.get(attributes)
        if found is None:
            if len(self._groupings) >= _MAX_GROUPINGS:
                del self._groupings[next(iter(self._groupings))]
            found = self._groupings[attributes] = PoolGrouping(attributes)
            for key, record in self._records.items():
                found.put(key, record)
        return found

    def nodes(self) -> Sequence[NodeKind]:
        """Return what usable nodes see."""
        if self._nodes is None:
            views = self.availability.views
            self._nodes = [
                (
                    tuple([pool.serial << 1 | (skips or not pool.skips_operations) for pool in view.pools]),
                    views.order[bits.lowest(nodes)],
                )
                for view in views.node_views()
                for skips, nodes in _sides(view, views).items()
            ]
        return self._nodes

    def _refresh(self) -> None:
        looked, self._looked.pools = self._looked.pools, {}
        if looked:
            self._nodes = None
        changed = {*looked, *self._touched.by_pool()}
        self._touched.clear()
        if len(self._kinds) > 2 * len(self._records) + _SPARE_KINDS:
            # Numbers are never given out again, so what is forgotten only splits a group.
            self._kinds.clear()
        for key in sorted(changed):
            pool = self.availability.views.inventory.pools.get(key)
            record = None if pool is None else self._record(pool)
            if record is None:
                self._records.pop(key, None)
            else:
                self._records[key] = record
            for grouping in self._groupings.values():
                grouping.put(key, record)

    def _record(self, pool: Pool) -> PoolRecord:
        views = self.availability.views
        judgement = pool.judge_all(views.features)
        pool_views = list(views.of_pool.get(pool.key, {}).values())
        sides = [(view, skips) for view in pool_views for skips in _sides(view, views)]
        visible: dict[int, dict[int, int]] = {}
        for view in pool_views:
            for offset, slice_ in view.placed:
                visible.setdefault(slice_.serial, {})[view.serial] = view.visible >> offset & slice_.every
        old = _old_slices(pool, views)
        apart = {} if judgement.verdict is Verdict.COMPLETE else _used_nevertheless(pool, pool_views)
        apart |= old
        published = {
            **dict.fromkeys(pool.newest()),
            **dict.fromkeys(judgement.slices, judgement.counters),
            **apart,
        }
        slices = tuple(
            [
                self._record_slice(
                    slice_, visible.get(slice_.serial, {}), pool_views, sides, counters, old=slice_ in old
                )
                for slice_, counters in published.items()
            ]
        )
        kind = (
            judgement.verdict,
            *((judgement.reason, pool.key) if judgement.verdict is not Verdict.COMPLETE else ()),
            *[
                self._counters_kind(layout, slices)
                for layout in dict.fromkeys([judgement.counters, *apart.values()])
            ],
            *[part for record in slices for part in record.kind()],
        )
        if (number := self._kinds.get(kind)) is None:
            number = self._kinds[kind] = self._kinds_made
            self._kinds_made += 1
        return PoolRecord(
            pool, judgement, slices, tuple([view.serial << 1 | skips for view, skips in sides]), number
        )

    def _record_slice(
        self,
        slice_: Slice,
        visible: Mapping[int, int],
        pool_views: Sequence[PoolView],
        sides: Sequence[tuple[PoolView, bool]],
        counters: CounterLayout | None,
        *,
        old: bool,
    ) -> SliceRecord:
        """Record a slice. `visible` are its devices that nodes can see, by the serial number of their view."""
        views = self.availability.views
        usable = slice_.every & ~self._switched_off(slice_)
        slots: list[tuple[int, int]] = []
        reachable = operations = 0
        for slot, (view, skips) in enumerate(sides):
            if view.serial in visible:
                here = visible[view.serial] & usable
                reachable |= here
                able = 0 if slice_.skip_node_operations and not skips else here
                operations |= able
                slots.append((slot, able))
        unreachable: dict[int, str] = {}
        if missing := slice_.every & ~reachable:
            hidden = [
                (visible[view.serial], view.nodes & ~views.usable)
                for view in pool_views
                if view.serial in visible
            ]
            unreachable = {
                index: self._why_not_reachable(slice_, index, hidden) for index in bits.each(missing)
            }
        taken, shared = self.availability.ledger.in_use(slice_.key, slice_.names)
        sharing = bits.from_positions(shared)
        # Of a device that is no longer shareable, a share is as good as the device.
        if views.features.consumable_capacity:
            taken |= sharing & ~slice_.shareable
        return SliceRecord(
            slice_, tuple(slots), reachable, unreachable, operations, taken, sharing, shared, counters, old
        )

    def _why_not_reachable(self, slice_: Slice, index: int, hidden: Sequence[tuple[int, int]]) -> str:
        """Return why no usable node sees a device; `hidden` are devices that other nodes see, and these nodes."""
        views = self.availability.views
        if not is_known(slice_, views.features):
            return f"ResourceSlice {slice_.name} uses a feature that is switched off"
        if self._switched_off(slice_) >> index & 1:
            return "they use a feature that is switched off"
        fields = slice_.effective_nodes(index)
        if not fields.is_set:
            # The API server admits no such slice, but a file, or a newer API, may have one.
            return (
                f"{'the device' if slice_.per_device_nodes else f'ResourceSlice {slice_.name}'} names no node"
            )
        records = views.inventory.nodes
        if (name := fields.node_name) is not None:
            if name not in records:
                return f"node {name} does not exist"
            return f"node {name} {records[name].unusable or 'cannot be used'}"
        nodes = 0
        for visible, seeing in hidden:
            nodes |= seeing if visible >> index & 1 else 0
        causes: dict[str | None, list[str]] = {}
        for each in bits.each(nodes):
            causes.setdefault(records[views.order[each]].unusable, []).append(views.order[each])
        if causes:
            texts = [f"{listed(names)} {cause}" for cause, names in causes.items()]
            return f"node{'s' if nodes.bit_count() != 1 else ''} {', '.join(texts)}"
        written = fields.selector and describe(fields.selector)
        return "no usable node matches their node selector" + (f' "{written}"' if written else "")

    def _switched_off(self, slice_: Slice) -> int:
        """Return the devices of a slice that use what is switched off, and that are left out where the slice is not."""
        features = self.availability.views.features
        off = 0 if features.device_binding_and_status else slice_.binding
        return off if features.partitionable_devices else off | slice_.counted

    def _counters_kind(self, layout: CounterLayout | None, slices: Sequence[SliceRecord]) -> object:
        state = self.availability.find_counters(layout)
        if layout is None or state is None:
            return None
        draws = tuple(
            [
                layout.draw(record.slice_, index)
                for record in slices
                if record.counters is layout
                for index in bits.each(record.slice_.counted)
            ]
        )
        return (layout.names, layout.totals, draws, tuple(state.left), state.overdrawn, *state.placed())


def _sides(view: PoolView | NodeView, views: Views) -> dict[bool, int]:
    """Return the usable nodes of a view: those that can do without node operations, as far as it skips any, and others.

    A side without nodes is left out.
    """
    nodes = able = view.nodes & views.usable
    if view.skips_operations:
        records, switched_on = views.inventory.nodes, views.features.optional_node_operations
        able = bits.from_positions(
            position
            for position in bits.each(nodes)
            if switched_on and records[views.order[position]].skips_operations
        )
    sides = {True: able, False: nodes & ~able}
    return {skips: side for skips, side in sides.items() if side}


def _used_nevertheless(pool: Pool, pool_views: Sequence[PoolView]) -> dict[Slice, CounterLayout | None]:
    """Return the newest slices that some nodes use although the pool as a whole is not complete, with their counters.

    A node that sees as many as are announced looks no further.
    """
    newest = set(pool.newest())
    return {slice_: view.counters for view in pool_views for slice_ in view.slices if slice_ in newest}
