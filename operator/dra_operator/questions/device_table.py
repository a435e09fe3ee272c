"""Device table: each published device with its node, its state, and the claims that hold it.

Of each pool the newest generation counts. `usage` counts its rows and finds who holds them; `list_devices` lists them.
Source: docs/audit.md.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.decision import AbortedError, Decider
from dra_operator.api.node_selector import NodeSelectorError, matches, pinned_to
from dra_operator.api.quantity import family, format_amount
from dra_operator.inventory import Features, Inventory, PoolKey, Slice, Verdict, bits
from dra_operator.inventory.ownership import Ownership, is_owned_taint, ownership_of_slice
from dra_operator.inventory.pool import Judgement
from dra_operator.inventory.taints import names_device, taint_text, touches
from dra_operator.ledger import ClaimKey, Ledger
from dra_operator.ledger.availability import CounterState
from dra_operator.questions.answers import OF_CLASS, UNFINISHED, USAGE, LargestDevice
from dra_operator.questions.state import ClusterState

if TYPE_CHECKING:
    from dra_operator.api.core import NodeSelector

_EFFECTIVE: Final = ("NoSchedule", "NoExecute")
_FEATURES: Final = Features.all_on()

# --- what is published


@dataclass(frozen=True, slots=True)
class NewestGeneration:
    """The newest generation of a pool, judged as a whole; `slices` are there even if it is not complete."""

    key: PoolKey
    judgement: Judgement
    slices: tuple[Slice, ...]

    @property
    def path(self) -> str:
        """The pool as texts have it."""
        return "/".join(self.key)


@dataclass(slots=True)
class PublishedDevices:
    """The pools of an inventory as it is now, by driver and name in order."""

    inventory: Inventory
    pools: dict[PoolKey, NewestGeneration] = field(init=False)
    _places: dict[PoolKey, dict[str, tuple[Slice, int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pools = {
            key: NewestGeneration(key, pool.judge_all(_FEATURES), pool.newest())
            for key, pool in sorted(self.inventory.pools.items())
        }

    def find(self, driver: str, pool: str, device: str) -> tuple[Slice, int] | None:
        """Return the slice that publishes a device, and its index there; None if none does."""
        key = (driver, pool)
        places = self._places.get(key)
        if places is None:
            newest = self.pools.get(key)
            places = self._places[key] = {}
            for slice_ in reversed(newest.slices if newest is not None else ()):
                places.update((name, (slice_, index)) for name, index in slice_.indexes.items())
        return places.get(device)

    def slices(self) -> Iterator[Slice]:
        """Yield each slice of a newest generation."""
        for pool in self.pools.values():
            yield from pool.slices

    def paths(self, choose: Callable[[Slice], int]) -> frozenset[str]:
        """Return the devices that are chosen of each slice, as sets of bits, as texts have them."""
        return frozenset(
            slice_.path(index) for slice_ in self.slices() for index in bits.each(choose(slice_))
        )


def node_of_device(slice_: Slice, index: int) -> str:
    """Return the one node that a device is published for; nothing if it is for several, or for all."""
    nodes = slice_.effective_nodes(index)
    return nodes.node_name or (pinned_to(nodes.selector) if not nodes.all_nodes else None) or ""


def devices_by_node(slice_: Slice) -> Mapping[str, int]:
    """Return the devices of a slice, as sets of bits, by the one node that they are for; nothing stands for several."""
    if not slice_.every:
        return {}
    if not slice_.per_device_nodes:
        return {node_of_device(slice_, 0): slice_.every}
    found: dict[str, int] = {}
    for index in bits.each(slice_.every):
        name = node_of_device(slice_, index)
        found[name] = found.get(name, 0) | 1 << index
    return found


@dataclass(slots=True)
class ClassDevices:
    """Which devices classes select. A class has the time that an allocator gives to a claim.

    Of those that are `unfinished` not all devices could be asked in that time.
    """

    state: ClusterState
    unfinished: set[str] = field(default_factory=set)
    _budgets: dict[str, Budget] = field(default_factory=dict)

    def find(self, name: str, slice_: Slice) -> int:
        """Return the devices of a slice that the selectors of a class select; none if there is no such class.

        A device on which a selector fails is not selected, nor is any of a class that is unfinished.
        """
        from dra_operator.allocator.matching.candidates import AskContent  # noqa: PLC0415 - not every count needs it

        allocator = self.state.allocators[Decider.OPERATOR]
        found = allocator.inventory.classes.get(name)
        if found is None or name in self.unfinished:
            return 0
        if (budget := self._budgets.get(name)) is None:
            budget = self._budgets[name] = Budget(Limits(None, allocator.limits.seconds), allocator.clock)
        selectors = tuple(item.cel.expression for item in found.spec.selectors if item.cel is not None)
        key = allocator.candidates.key(AskContent(selectors, (), ()), ())
        try:
            return allocator.candidates.select(key, slice_, budget)
        except AbortedError:
            self.unfinished.add(name)
            return 0

    @property
    def partial(self) -> tuple[str, ...]:
        """A line for each class of which not all devices could be asked."""
        return tuple([f"DeviceClass {name}: {UNFINISHED}" for name in sorted(self.unfinished)])


# --- the table


class DeviceState(StrEnum):
    """What state a device is in."""

    USED = "used"
    """Held by claims, without room for more."""
    SHARED = "shared"
    """Held by shares, with room for more."""
    BLOCKED = "blocked"
    """Held by nobody, and cannot be given to anybody: counters used up, pool not complete, no node that can use it."""
    TAINTED = "tainted"
    """Held by nobody, with a taint that keeps claims away."""
    FREE = "free"


def find_most_left(
    devices: Iterable[tuple[Slice, int, Mapping[str, int]]], name: str
) -> tuple[int, LargestDevice] | None:
    """Return how much there is left of a capacity on one device, and which: the first of those that have most.

    Devices come with what is consumed of them.
    """
    best: tuple[int, Slice, int] | None = None
    for slice_, index, consumed in devices:
        if (capacity := slice_.capacity_of(index).get(name)) is not None:
            left = capacity.value.nano - consumed.get(name, 0)
            if best is None or left > best[0]:
                best = left, slice_, index
    if best is None:
        return None
    left, slice_, index = best
    published = slice_.capacity_of(index)[name].value
    amount = str(published) if left == published.nano else format_amount(left, family(published))
    return left, LargestDevice(*slice_.key, slice_.names[index], name, amount)


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


@dataclass(frozen=True, slots=True)
class HolderQuery:
    """What is asked about: what is set restricts, all of it together. Empty, it is everything.

    `value` is that of an attribute, as a text; `pod` and `reservation` are `namespace/name`, and restrict the holders
    alone; `owner` is `KIND/NAME` of a policy or a maintenance, for what its rules are about. With `admin_access`,
    results of admin access are listed as well, which hold nothing.
    """

    driver: str = ""
    pool: str = ""
    device: str = ""
    node: str = ""
    device_class: str = ""
    namespace: str = ""
    admin_access: bool = False
    value: str = ""
    pod: str = ""
    reservation: str = ""
    owner: str = ""

    def is_about(self, driver: str, pool: str, device: str, node: str) -> bool:
        """Return whether it is about a device, as far as that depends on where it is."""
        pairs = (self.driver, driver), (self.pool, pool), (self.device, device), (self.node, node)
        return all(wanted in ("", value) for wanted, value in pairs)


class DeviceTable:
    """The devices of a state: a row for each, pools in order, devices in the order of their slices."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.published = PublishedDevices(state.inventory)

    @cached_property
    def classes(self) -> ClassDevices:
        """Which devices classes select."""
        return ClassDevices(self.state)

    @cached_property
    def rows(self) -> list[DeviceRow]:
        """A row for each published device."""
        return [row for pool in self.published.pools.values() for row in self.rows_of(pool)]

    def rows_of(self, pool: NewestGeneration) -> Iterator[DeviceRow]:
        """Yield a row for each device of a pool."""
        counters = _count_down(pool, self.state.ledger)
        for slice_ in pool.slices:
            yield from self._build_rows(pool, slice_, counters)

    def select(self, query: HolderQuery) -> Iterator[DeviceRow]:
        """Yield the devices that a query is about."""
        for row in self.rows:
            if (
                query.is_about(*row.pool.key, row.name, row.node)
                and self.is_of_owner(query.owner, (*row.pool.key, row.name))
                and self.is_selected(query, row.slice_, row.index)
            ):
                yield row

    def is_of_owner(self, owner: str, device: tuple[str, str, str]) -> bool:
        """Return whether a rule of an owner, as `KIND/NAME`, is about a device; that of nobody is about all."""
        driver, pool, name = device
        return not owner or any(
            touches(rule, driver, pool) and names_device(rule, name)
            for rule in self.state.inventory.rules.values()
            if any(f"{each.kind}/{each.name}" == owner for each in rule.metadata.owner_references)
        )

    def is_selected(self, query: HolderQuery, slice_: Slice, index: int) -> bool:
        """Return whether a query is about a device, as far as that depends on what is published of it."""
        if query.value and query.value not in values_of(slice_, index).values():
            return False
        return not query.device_class or self.is_in_class(query.device_class, slice_, index)

    def is_in_class(self, name: str, slice_: Slice, index: int) -> bool:
        """Return whether a class selects a device."""
        return bool(self.classes.find(name, slice_) >> index & 1)

    def find_node_condition(self, name: str) -> str:
        """Return why a node cannot be used, or nothing; where no node is given, none is gone."""
        node = self.state.inventory.nodes.get(name)
        if node is None:
            return "gone" if self.state.has_all("Node") else ""
        return node.unusable or ""

    def _build_rows(
        self, pool: NewestGeneration, slice_: Slice, counters: CounterState | None
    ) -> Iterator[DeviceRow]:
        by_node = devices_by_node(slice_)
        nodes = {index: name for name, devices in by_node.items() for index in bits.each(devices)}
        used, shared = _in_use(slice_, self.state.ledger)
        if pool.judgement.verdict is not Verdict.COMPLETE:
            blocked = slice_.every
        else:
            # The operator allocates none of those that are half owned, and others keep off them.
            blocked = without_counters(slice_, counters) | slice_.half_owned
            for name, devices in by_node.items():
                blocked |= self._out_of_reach(slice_, devices, name)
        owned = self._find_owned(slice_)
        # The first that a device is in counts.
        states = {
            DeviceState.USED: used,
            DeviceState.SHARED: shared,
            DeviceState.BLOCKED: blocked,
            DeviceState.TAINTED: _tainted(slice_, owned),
        }
        for index, name in enumerate(slice_.names):
            state = next((each for each, devices in states.items() if devices >> index & 1), DeviceState.FREE)
            is_held = state in (DeviceState.USED, DeviceState.SHARED)
            holders = self.state.ledger.holders(pool.key, [name]) if is_held else frozenset[ClaimKey]()
            yield DeviceRow(
                pool, slice_, index, nodes.get(index, ""), state, bool(owned >> index & 1), holders
            )

    def _find_owned(self, slice_: Slice) -> int:
        """Return the devices that something owns; a rule that owns nothing may have the taint all the same."""
        settlement, rules = self.state.inventory.settlement, self.state.inventory.rules
        if settlement is None or not slice_.taints:
            return 0
        found = ownership_of_slice(slice_, rules.values(), settlement)
        return bits.from_flags([each is not Ownership.UNOWNED for each in found])

    def _out_of_reach(self, slice_: Slice, devices: int, node: str) -> int:
        """Return those of some devices, on one node or on several, that no node can use."""
        if node:
            return devices if self.find_node_condition(node) else 0
        if not self.state.has_all("Node") and not self.state.are_nodes_assumed:
            return 0
        nodes = [each for each in self.state.inventory.nodes.items() if each[1].unusable is None]
        known: dict[object, bool] = {}
        found = 0
        for index in bits.each(devices):
            fields = slice_.effective_nodes(index)
            if fields not in known:
                known[fields] = (
                    bool(nodes)
                    if fields.all_nodes
                    else any(_is_selected(fields.selector, name, each.labels) for name, each in nodes)
                )
            found |= 0 if known[fields] else 1 << index
        return found


def _is_selected(selector: "NodeSelector | None", name: str, labels: Mapping[str, str]) -> bool:
    try:
        return selector is not None and matches(selector, name, labels)
    except NodeSelectorError:
        return False


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


def _tainted(slice_: Slice, owned: int) -> int:
    """Return the devices with a taint that keeps claims away, beside that of ownership."""
    return bits.from_positions(
        index
        for index, taints in enumerate(slice_.taints)
        if any(
            taint.effect in _EFFECTIVE and not (owned >> index & 1 and is_owned_taint(taint))
            for taint in taints
        )
    )


def _count_down(pool: NewestGeneration, ledger: Ledger) -> CounterState | None:
    """Return what the devices in use leave of the counters of a pool."""
    if (layout := pool.judgement.counters) is None:
        return None
    found = CounterState(layout)
    for device in layout.draws.keys() & {*ledger.held(pool.key), *ledger.shared(pool.key)}:
        found.mark(device, used=True)
    return found


def without_counters(slice_: Slice, counters: CounterState | None, among: int = -1) -> int:
    """Return which devices of a slice draw on counters of which too little is left, or cannot join a group.

    Only those of some devices, which are a set of bits, are looked at.
    """
    if counters is None or not slice_.counted:
        return 0
    if counters.overdrawn:
        # Nothing that draws on counters of such a pool is allocated.
        return slice_.counted & among
    found, placed = 0, counters.placed()
    for index in bits.each(slice_.counted & among):
        draw = counters.layout.draw(slice_, index)
        if any(counters.left[position] < amount for position, amount in draw.amounts) or any(
            (occupancy := placed[number]) is not None and not occupancy.admits(groups)
            for number, groups in draw.groups
        ):
            found |= 1 << index
    return found


# --- the list


@dataclass(frozen=True, slots=True)
class DeviceAmount:
    """A capacity: what is published, and what claims leave of it."""

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
    """Devices by driver and pool, in the order of their slices. `is_at_most`, `partial` are as in `UsageReport`."""

    items: tuple[DeviceItem, ...]
    is_at_most: bool = False
    unread: tuple[str, ...] = ()
    partial: tuple[str, ...] = ()


def list_devices(
    state: ClusterState,
    query: HolderQuery = HolderQuery(),
    nodes: Collection[str] | None = None,
) -> DeviceList:
    """Return the devices that a query is about; if nodes are given, of these alone.

    Raises QuestionError if slices, or classes, were not read.
    """
    missing = USAGE.find_missing(state.unread)
    if query.device_class:
        OF_CLASS.check(state.unread)
    table = DeviceTable(state)
    rows = table.select(query)
    items = [_build_item(state.ledger, row) for row in rows if nodes is None or row.node in nodes]
    return DeviceList(tuple(items), bool(missing), state.unread_lines, table.classes.partial)


def _build_item(ledger: Ledger, row: DeviceRow) -> DeviceItem:
    slice_ = row.slice_
    return DeviceItem(
        slice_.driver,
        slice_.pool,
        row.name,
        row.state,
        row.node,
        tuple(["/".join(key) for key in sorted(row.holders)]),
        taints_of(slice_, row.index),
        tuple(_amounts(ledger, row)),
        tuple([DeviceAttribute(*each) for each in sorted(values_of(slice_, row.index).items())]),
    )


def values_of(slice_: Slice, index: int) -> dict[str, str]:
    """Return the attributes of a device as texts, by name."""
    values = ((name, column.values[index]) for name, column in slice_.attributes.items())
    return {name: _text(value.value) for name, value in values if value is not None}


def taints_of(slice_: Slice, index: int) -> tuple[str, ...]:
    """Return the taints of a device that are in force, as `key=value:effect`."""
    taints = slice_.taints[index] if slice_.taints else ()
    return tuple(map(taint_text, taints))


def _amounts(ledger: Ledger, row: DeviceRow) -> Iterator[DeviceAmount]:
    """Yield the capacities of a device; one that is held whole has nothing left."""
    is_held_whole = row.name in ledger.held(row.pool.key)
    consumed = ledger.consumed(row.pool.key, row.name)
    for name, capacity in sorted(row.slice_.capacity_of(row.index).items()):
        published, used = str(capacity.value), consumed.get(name, 0)
        left = format_amount(capacity.value.nano - used, family(capacity.value)) if used else published
        yield DeviceAmount(name, published, "0" if is_held_whole else left)


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
