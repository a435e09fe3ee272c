"""The census: pools that look the same to a request, counted once.

An explanation says something about every device of the cluster, and hundreds of claims may wait for different ones.
What keeps a device away follows from few things: what selectors read of it, its taints, who uses it, which nodes reach
it. Pools that agree in these are one group, so a request is held against each group, not against each pool. When a
slice, a node or a use changes, only the pools concerned change their group.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.explanation.published import old_slices
from dra_operator.api.node_selector import describe
from dra_operator.api.text import listed
from dra_operator.inventory import (
    Features,
    Inventory,
    NodeView,
    PoolView,
    Slice,
    Verdict,
    Views,
    bits,
)
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
_MAX_OWNERS = 16

AttributeNames = frozenset[str] | None
"""The attributes by which pools are told apart, as `domain/id`; None for all of them."""
_Seen = tuple[PoolView, int]
"""A view that has a slice, and the position at which the slice begins there."""
Side = int
"""A view as nodes see it that can do without node operations, or as the others do: its serial number and a bit.

If nothing of it skips node operations, all nodes are among the former.
"""
_Reached = tuple[int, PoolView, int, bool]
"""A view of usable nodes that has a slice: the number of its side, where the slice begins there, and which side."""


@dataclass(frozen=True, slots=True)
class Place:
    """A slice and what is known of its devices.

    `slots` holds, for each side of a view of usable nodes that has the slice, its number and the devices that are
    usable there; `reachable` are those that are visible at all, and `unreachable` says why each other device is not.
    `operations` are the devices for which a node supports what the slice skips. `taken` are the devices in use as a
    whole, `sharing` those with shares in use, and `shared` what these consume, by index. `counters` are those that its
    devices draw on; `old` says that it is of an older generation, which nodes still see.
    """

    content: Slice
    slots: tuple[tuple[int, int], ...]
    reachable: int
    unreachable: Mapping[int, str]
    operations: int
    taken: int
    sharing: int
    shared: Mapping[int, Mapping[str, int]]
    counters: CounterLayout | None
    old: bool


@dataclass(slots=True, eq=False)
class PoolRecord:
    """A pool as the census found it. `kind` is equal for pools that differ in nothing but attributes.

    `slots` holds the sides of the views of usable nodes.
    """

    pool: Pool
    judgement: Judgement
    places: tuple[Place, ...]
    slots: tuple[Side, ...]
    kind: int
    _owners: dict[tuple[int, ...], frozenset[ClaimKey]] = field(default_factory=dict)
    _holders: tuple[Mapping[int, Collection[ClaimKey]], ...] | None = None

    def owners(self, availability: Availability, devices: tuple[int, ...]) -> frozenset[ClaimKey]:
        """Return the claims that hold some devices, a set of them for each place."""
        if (found := self._owners.get(devices)) is None:
            if self._holders is None:
                self._holders = self._find_holders(availability)
            found = frozenset(
                [
                    claim
                    for held, wanted in zip(self._holders, devices, strict=True)
                    for index, claims in held.items()
                    if wanted >> index & 1
                    for claim in claims
                ]
            )
            # More sets of devices than these are put together each time: whatever goes would be asked for next.
            if len(self._owners) < _MAX_OWNERS:
                self._owners[devices] = found
        return found

    def _find_holders(self, availability: Availability) -> tuple[Mapping[int, Collection[ClaimKey]], ...]:
        """Return the claims that hold each device in use, by index, for each place."""
        ledger = availability.ledger
        return tuple(
            [
                {
                    index: tuple(ledger.holders(self.pool.key, (place.content.names[index],)))
                    for index in bits.each(place.taken | place.sharing)
                }
                for place in self.places
            ]
        )


@dataclass(slots=True, eq=False)
class Group:
    """Pools that look the same."""

    members: dict[PoolKey, PoolRecord] = field(default_factory=dict)
    _owners: dict[tuple[int, ...], frozenset[ClaimKey]] = field(default_factory=dict)

    @property
    def example(self) -> PoolRecord:
        """One of the pools."""
        return next(iter(self.members.values()))

    def owners(self, availability: Availability, devices: tuple[int, ...]) -> frozenset[ClaimKey]:
        """Return the claims that hold some devices of any of the pools."""
        if (found := self._owners.get(devices)) is None:
            if len(self._owners) >= _MAX_OWNERS:
                self._owners.clear()
            every = (record.owners(availability, devices) for record in self.members.values())
            found = self._owners[devices] = frozenset().union(*every)
        return found

    def changed(self) -> None:
        """Forget what depends on who the members are."""
        self._owners.clear()


NodeShape = tuple[tuple[Group, int], ...]
"""What a node has: for each of its pools the group, and which of its views the node sees."""


@dataclass(slots=True, eq=False)
class PoolGrouping:
    """All pools, grouped by what they look like through a projection."""

    projection: AttributeNames
    groups: dict[object, Group] = field(default_factory=dict)
    _of_pool: dict[PoolKey, object] = field(default_factory=dict)
    _slots: dict[Side, tuple[Group, int]] = field(default_factory=dict)
    _shapes: dict[NodeShape, list[tuple[NodeView, bool]]] | None = None
    _first: dict[NodeShape, str] = field(default_factory=dict)

    def put(self, key: PoolKey, record: PoolRecord | None) -> None:
        """Move a pool to the group it now belongs to; None if it is gone."""
        self._shapes = None
        if (old := self._of_pool.pop(key, None)) is not None:
            group = self.groups[old]
            for side in group.members.pop(key).slots:
                del self._slots[side]
            group.changed()
            if not group.members:
                del self.groups[old]
        if record is None:
            return
        look = (record.kind, *(self._project(place.content) for place in record.places))
        self._of_pool[key] = look
        if (found := self.groups.get(look)) is None:
            found = self.groups[look] = Group()
        found.members[key] = record
        found.changed()
        for slot, side in enumerate(record.slots):
            self._slots[side] = (found, slot)

    def shapes(self, views: Views) -> Collection[NodeShape]:
        """Return what usable nodes have."""
        if self._shapes is None:
            slots, usable = self._slots, views.usable
            self._shapes = {}
            self._first.clear()
            for view in views.node_views():
                if not view.nodes & usable:
                    continue
                # Most skip nothing, and there are as many as nodes.
                for skips in _sides(view, views) if view.skips_operations else (True,):
                    sides = [pool.serial << 1 | (skips or not pool.skips_operations) for pool in view.pools]
                    shape = tuple([slots[side] for side in sides if side in slots])
                    self._shapes.setdefault(shape, []).append((view, skips))
        return self._shapes

    def first_node(self, shapes: Iterable[NodeShape], views: Views) -> str:
        """Return the first usable node by name that has one of some shapes, of which there is one at least."""
        names: list[str] = []
        for shape in shapes:
            if (name := self._first.get(shape)) is None:
                nodes = 0
                for view, skips in self._shapes[shape] if self._shapes else ():
                    nodes |= _sides(view, views).get(skips, 0)
                name = self._first[shape] = views.order[bits.lowest(nodes)]
            names.append(name)
        return min(names, key=str.encode)

    def _project(self, content: Slice) -> object:
        if self.projection is None:
            return (tuple(content.attributes), tuple([item.serial for item in content.attributes.values()]))
        return tuple(
            [
                column and column.serial
                for name in self.projection
                for column in content.attribute_columns(name)
            ]
        )


@dataclass(slots=True)
class Census:
    """Follows inventory and ledger, and groups pools by any projection that is asked for."""

    inventory: Inventory
    availability: Availability
    features: Features
    _looked: ChangeSet = field(init=False)
    _touched: ChangedDevices = field(init=False)
    _records: dict[PoolKey, PoolRecord] = field(default_factory=dict)
    _groupings: dict[AttributeNames, PoolGrouping] = field(default_factory=dict)
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

    def grouping(self, projection: AttributeNames) -> PoolGrouping:
        """Return the pools grouped, as they are now; availability must be up to date."""
        self._refresh()
        found = self._groupings.get(projection)
        if found is None:
            if len(self._groupings) >= _MAX_GROUPINGS:
                del self._groupings[next(iter(self._groupings))]
            found = self._groupings[projection] = PoolGrouping(projection)
            for key, record in self._records.items():
                found.put(key, record)
        return found

    def _refresh(self) -> None:
        changed = set(self._take_changes())
        if not changed:
            return
        if len(self._kinds) > 2 * len(self._records) + _SPARE_KINDS:
            # Numbers are never given out again, so what is forgotten only splits a group.
            self._kinds.clear()
        for key in sorted(changed):
            pool = self.inventory.pools.get(key)
            record = None if pool is None else self._record(pool)
            if record is None:
                self._records.pop(key, None)
            else:
                self._records[key] = record
            for grouping in self._groupings.values():
                grouping.put(key, record)

    def _take_changes(self) -> Iterator[PoolKey]:
        looked, self._looked.pools = self._looked.pools, {}
        yield from looked
        touched = self._touched.by_pool()
        self._touched.clear()
        yield from touched

    # --- one pool

    def _record(self, pool: Pool) -> PoolRecord:
        views = self.availability.views
        judgement = pool.judge_all(self.features)
        slots: list[Side] = []
        reached: dict[int, list[_Reached]] = {}
        hidden: dict[int, list[_Seen]] = {}
        for view in views.of_pool.get(pool.key, {}).values():
            sides = _sides(view, views)
            for offset, content in view.placed:
                for slot, skips in enumerate(sides, len(slots)):
                    reached.setdefault(content.serial, []).append((slot, view, offset, skips))
                if view.nodes & ~views.usable:
                    hidden.setdefault(content.serial, []).append((view, offset))
            slots += [view.serial << 1 | skips for skips in sides]
        published: dict[Slice, CounterLayout | None] = dict.fromkeys(pool.newest())
        published |= dict.fromkeys(judgement.slices, judgement.counters)
        apart = {} if judgement.verdict is Verdict.COMPLETE else _used_nevertheless(pool, views)
        apart |= (old := old_slices(pool, views))
        published |= apart
        places = tuple(
            [
                self._place(
                    pool,
                    item,
                    reached.get(item.serial, ()),
                    hidden.get(item.serial, ()),
                    counters,
                    old=item in old,
                )
                for item, counters in published.items()
            ]
        )
        kind = (
            *_verdict(pool, judgement),
            *(
                self._counters(layout, places)
                for layout in dict.fromkeys([judgement.counters, *apart.values()])
            ),
            *(part for place in places for part in _kind(place)),
        )
        if (number := self._kinds.get(kind)) is None:
            number = self._kinds[kind] = self._kinds_made
            self._kinds_made += 1
        return PoolRecord(pool, judgement, places, tuple(slots), number)

    def _place(
        self,
        pool: Pool,
        content: Slice,
        reached: Sequence[_Reached],
        hidden: Sequence[_Seen],
        counters: CounterLayout | None,
        *,
        old: bool,
    ) -> Place:
        size = content.every
        usable = size & ~self._switched_off(content)
        slots: list[tuple[int, int]] = []
        reachable = operations = 0
        for slot, view, offset, skips in reached:
            visible = view.visible >> offset & usable
            reachable |= visible
            if content.skip_node_operations and not skips:
                visible = 0
            operations |= visible
            slots.append((slot, visible))
        missing = bits.each(size & ~reachable)
        unreachable = {index: self._why_not_reachable(content, index, hidden) for index in missing}
        taken, shared = self.availability.ledger.in_use(pool.key, content.names)
        sharing = bits.from_positions(shared)
        # Of a device that is no longer shareable, a share is as good as the device.
        if self.features.consumable_capacity:
            taken |= sharing & ~content.shareable
        return Place(
            content, tuple(slots), reachable, unreachable, operations, taken, sharing, shared, counters, old
        )

    def _why_not_reachable(self, content: Slice, index: int, hidden: Sequence[_Seen]) -> str:
        if not is_known(content, self.features):
            return f"ResourceSlice {content.name} uses a feature that is switched off"
        if self._switched_off(content) >> index & 1:
            return "they use a feature that is switched off"
        fields = content.effective_nodes(index)
        if not fields.is_set:
            # The API server admits no such slice, but a file, or a newer API, may have one.
            return f"{'the device' if content.per_device_nodes else f'ResourceSlice {content.name}'} names no node"
        if (name := fields.node_name) is None:
            if unusable := self._unusable_nodes(index, hidden):
                causes: dict[str | None, list[str]] = {}
                for each in unusable:
                    causes.setdefault(self.inventory.nodes[each].unusable, []).append(each)
                texts = [f"{listed(nodes)} {cause}" for cause, nodes in causes.items()]
                return f"node{'s' if len(unusable) != 1 else ''} {', '.join(texts)}"
            written = fields.selector and describe(fields.selector)
            return "no usable node matches their node selector" + (f' "{written}"' if written else "")
        if (node := self.inventory.nodes.get(name)) is None:
            return f"node {name} does not exist"
        return f"node {name} {node.unusable or 'cannot be used'}"

    def _switched_off(self, content: Slice) -> int:
        """Return the devices of a slice that use what is switched off, and that are left out where the slice is not."""
        features = self.features
        off = 0 if features.device_binding_and_status else content.binding
        return off if features.partitionable_devices else off | content.counted

    def _unusable_nodes(self, index: int, hidden: Sequence[_Seen]) -> list[str]:
        """Return the nodes that see a device, which cannot be used; `hidden` is where such nodes see its slice."""
        views = self.availability.views
        nodes = 0
        for view, offset in hidden:
            if view.visible >> offset + index & 1:
                nodes |= view.nodes
        return [views.order[position] for position in bits.each(nodes & ~views.usable)]

    def _counters(self, layout: CounterLayout | None, places: Sequence[Place]) -> object:
        state = self.availability.find_counters(layout)
        if layout is None or state is None:
            return None
        draws = tuple(
            layout.draw(place.content, index)
            for place in places
            if place.counters is layout
            for index in bits.each(place.content.counted)
        )
        return (layout.names, layout.totals, draws, tuple(state.left), state.overdrawn, *state.placed())


def _sides(view: PoolView | NodeView, views: Views) -> dict[bool, int]:
    """Return the usable nodes of a view: those that can do without node operations, as far as it skips any, and others.

    A side without nodes is left out.
    """
    nodes = view.nodes & views.usable
    able = nodes
    if view.skips_operations:
        records, switched_on = views.inventory.nodes, views.features.optional_node_operations
        able = bits.from_positions(
            position
            for position in bits.each(nodes)
            if switched_on and records[views.order[position]].skips_operations
        )
    sides = {True: able, False: nodes & ~able}
    return {skips: side for skips, side in sides.items() if side}


def _used_nevertheless(pool: Pool, views: Views) -> dict[Slice, CounterLayout | None]:
    """Return the newest slices that some nodes use although the pool as a whole is not complete, with their counters.

    A node that sees as many as are announced looks no further.
    """
    newest = set(pool.newest())
    return {
        content: view.counters
        for view in views.of_pool.get(pool.key, {}).values()
        for content in view.slices
        if content in newest
    }


def _verdict(pool: Pool, judgement: Judgement) -> tuple[object, ...]:
    if judgement.verdict is Verdict.COMPLETE:
        return (judgement.verdict,)
    return (judgement.verdict, judgement.reason, pool.key)


def _kind(place: Place) -> tuple[object, ...]:
    """Return everything about a place that what is told of its devices depends on, but for attributes."""
    content = place.content
    return (
        content.driver,
        len(content.names),
        content.shareable,
        content.unreadable and content.serial,
        tuple(content.capacity),
        tuple([column.serial for column in content.capacity.values()]),
        content.tainted_groups,
        content.counted,
        content.has_groups,
        place.slots,
        tuple(place.unreachable.items()) if place.unreachable else (),
        place.operations,
        place.old,
        place.taken,
        tuple((index, *sorted(amounts.items())) for index, amounts in place.shared.items())
        if place.shared
        else (),
    )
