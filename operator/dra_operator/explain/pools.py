"""Pools as explanations see them: which slices count, and what is known of each device but for its attributes.

The slices of the newest generation count, and older ones that a usable node still sees. A record is kept for as long as
views and uses of its pool stay.
Source: docs/dra-semantics 2.3.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from dra_operator.api.node_selector import describe
from dra_operator.api.text import listed
from dra_operator.inventory import Inventory, NodeView, PoolKey, PoolView, Slice, Verdict, Views, bits
from dra_operator.inventory.counters import CounterLayout
from dra_operator.inventory.pool import Judgement, Pool
from dra_operator.inventory.views import is_known
from dra_operator.ledger import Availability

Side: TypeAlias = int
"""A view as nodes see it that can do without node operations, or as the others do: its serial number and a bit.

If nothing of it skips node operations, all nodes are among the former.
"""


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

    `slots` holds, for each side of a view of usable nodes that has the slice, the side and the devices that are usable
    there; `reachable` are those that are visible at all, and `unreachable` says why each other device is not.
    `operations` are the devices for which a node supports what the slice skips. `taken` are the devices in use as a
    whole, `sharing` those with shares in use, and `shared` what these consume, by index. `counters` are those that its
    devices draw on; `old` says that it is of an older generation, which nodes still see.
    """

    slice_: Slice
    slots: tuple[tuple[Side, int], ...]
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
    """A pool as it was when it last changed. `counts` is for whoever counts its devices, by what is asked for.

    `state` is all that it depends on, but for why devices are not reachable: that holds for a version of the inventory.
    """

    pool: Pool
    judgement: Judgement
    slices: tuple[SliceRecord, ...]
    state: object
    version: int
    counts: dict[object, Any] = field(default_factory=dict)


@dataclass(slots=True)
class PoolRecords:
    """The records of all pools; availability must be up to date whenever they are asked for."""

    availability: Availability
    _records: dict[PoolKey, PoolRecord] = field(default_factory=dict)
    _nodes: list[tuple[tuple[Side, ...], str]] = field(default_factory=list)
    _version: object = None
    _inventory_version: int = -1

    def pools(self) -> Sequence[PoolRecord]:
        """Return the records of the pools as they are now, by driver and name."""
        self._refresh()
        return list(self._records.values())

    def pool(self, key: PoolKey) -> PoolRecord:
        """Return the record of a pool as it is now."""
        self._refresh()
        return self._records[key]

    def nodes(self) -> Sequence[tuple[tuple[Side, ...], str]]:
        """Return the sides of the pools that some usable nodes see, and the first of these nodes by name."""
        self._refresh()
        return self._nodes

    def _refresh(self) -> None:
        views, ledger = self.availability.views, self.availability.ledger
        inventory = views.inventory
        version = inventory.version, ledger.version
        if version == self._version:
            return
        self._version = version
        before, self._records = self._records, {}
        for key in sorted(inventory.pools):
            pool, known = inventory.pools[key], before.get(key)
            state = self._state(pool)
            if known is None or known.state != state or self._is_outdated(known):
                known = self._record(pool, state)
            self._records[key] = known
        if inventory.version != self._inventory_version:
            self._inventory_version = inventory.version
            self._nodes = [
                (
                    tuple([pool.serial << 1 | (skips or not pool.skips_operations) for pool in view.pools]),
                    views.order[bits.lowest(nodes)],
                )
                for view in views.node_views()
                for skips, nodes in _sides(view, views).items()
            ]

    def _is_outdated(self, record: PoolRecord) -> bool:
        """True if it may be for another reason now that devices are not reachable."""
        return record.version != self.availability.views.inventory.version and any(
            each.unreachable for each in record.slices
        )

    def _state(self, pool: Pool) -> object:
        views, ledger = self.availability.views, self.availability.ledger
        slices, seen = pool.slices.values(), views.of_pool.get(pool.key, {}).values()
        used = [ledger.in_use(slice_.key, slice_.names) for slice_ in slices]
        return (
            [slice_.serial for slice_ in slices],
            [(view.serial, *(_sides(view, views).items())) for view in seen],
            [(taken, {index: dict(amounts) for index, amounts in shared.items()}) for taken, shared in used],
        )

    def _record(self, pool: Pool, state: object) -> PoolRecord:
        views = self.availability.views
        judgement = pool.judge_all(views.features)
        seen = list(views.of_pool.get(pool.key, {}).values())
        old = _old_slices(pool, views)
        newest = dict.fromkeys(pool.newest())
        published: dict[Slice, CounterLayout | None] = newest | dict.fromkeys(
            judgement.slices, judgement.counters
        )
        if judgement.verdict is not Verdict.COMPLETE:
            # A node that sees as many slices as are announced looks no further.
            published |= {each: view.counters for view in seen for each in view.slices if each in newest}
        slices = [
            self._record_slice(slice_, seen, counters, old=slice_ in old)
            for slice_, counters in (published | old).items()
        ]
        return PoolRecord(pool, judgement, tuple(slices), state, views.inventory.version)

    def _record_slice(
        self, slice_: Slice, seen: Sequence[PoolView], counters: CounterLayout | None, *, old: bool
    ) -> SliceRecord:
        views = self.availability.views
        visible = {
            view: view.visible >> offset & slice_.every
            for view in seen
            for offset, placed in view.placed
            if placed.serial == slice_.serial
        }
        usable = slice_.every & ~self._switched_off(slice_)
        slots: list[tuple[Side, int]] = []
        reachable = operations = 0
        for view, devices in visible.items():
            for skips in _sides(view, views):
                here = devices & usable
                able = 0 if slice_.skip_node_operations and not skips else here
                reachable |= here
                operations |= able
                slots.append((view.serial << 1 | skips, able))
        hidden = [(devices, view.nodes & ~views.usable) for view, devices in visible.items()]
        unreachable = {
            index: self._why_unreachable(slice_, index, hidden)
            for index in bits.each(slice_.every & ~reachable)
        }
        taken, used = self.availability.ledger.in_use(slice_.key, slice_.names)
        # The ledger changes its amounts in place, and makes others anew for a device that was free in between.
        shared = {index: dict(amounts) for index, amounts in used.items()}
        sharing = bits.from_positions(shared)
        # Of a device that is no longer shareable, a share is as good as the device.
        if views.features.consumable_capacity:
            taken |= sharing & ~slice_.shareable
        return SliceRecord(
            slice_, tuple(slots), reachable, unreachable, operations, taken, sharing, shared, counters, old
        )

    def _why_unreachable(self, slice_: Slice, index: int, hidden: Sequence[tuple[int, int]]) -> str:
        """Return why no usable node sees a device; `hidden` are devices that other nodes see, and these nodes."""
        views = self.availability.views
        if not is_known(slice_, views.features):
            return f"ResourceSlice {slice_.name} uses a feature that is switched off"
        if self._switched_off(slice_) >> index & 1:
            return "they use a feature that is switched off"
        fields, records = slice_.effective_nodes(index), views.inventory.nodes
        if not fields.is_set:
            # The API server admits no such slice, but a file, or a newer API, may have one.
            what = "the device" if slice_.per_device_nodes else f"ResourceSlice {slice_.name}"
            return f"{what} names no node"
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
    return {skips: side for skips, side in ((True, able), (False, nodes & ~able)) if side}
