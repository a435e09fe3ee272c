"""Layouts: what devices pools published over time, and which of them nobody could have had, as `top` says it.

A pool is asked only where a slice, a taint rule, or whether its node can be used has changed, and alike pools once.
Source: docs/history.md.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, NamedTuple

import orjson

from dra_operator.api.convert import Body
from dra_operator.api.core import NodeSelector
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.history.holdings import intervals
from dra_operator.history.reader import Moment, Span, StateRow, build_state
from dra_operator.history.timeline import History, pool_of, read_object
from dra_operator.inventory import PoolKey, Slice
from dra_operator.inventory.nodes import read_node
from dra_operator.inventory.pool import CounterLayout
from dra_operator.ledger.availability import CounterState
from dra_operator.questions.contents import gather_stored
from dra_operator.questions.device_table import DeviceRow, DeviceState, DeviceTable, without_counters

_KINDS: Final = ("ResourceSlice", "Node", "DeviceTaintRule")
_ANY: Final = "any"
"""Stands for pool and node where pools are alike."""
_ORDER: Final = (DeviceState.FREE, DeviceState.TAINTED, DeviceState.BLOCKED)
"""What the rest of a counter set is: the first of these that a device is in which draws on it."""


@dataclass(frozen=True, slots=True, eq=False)
class LaidDevice:
    """A published device, and what it is if nobody holds any; `parts` is what it is of the counter sets it draws on."""

    name: str
    node: str
    state: DeviceState
    capacity: Mapping[str, int]
    is_shareable: bool
    parts: Mapping[str, Fraction]
    slice_: Slice
    index: int


@dataclass(frozen=True, slots=True)
class SetState:
    """A counter set of which devices are held: what of it each of them has, and what the rest of it is."""

    taken: Mapping[str, Fraction]
    left: Fraction
    rest: DeviceState
    is_overdrawn: bool


@dataclass(slots=True, eq=False)
class Layout:
    """What a pool publishes: all devices, how many are in each state, which are cards, and counter sets with theirs."""

    devices: dict[str, LaidDevice]
    states: Mapping[DeviceState, int]
    cards: frozenset[str]
    sets: dict[str, list[LaidDevice]]
    _counters: CounterLayout | None
    _known: dict[tuple[str, frozenset[str]], SetState] = field(default_factory=dict)

    def find_sets(self, names: Iterable[str], held: frozenset[str]) -> Mapping[str, SetState]:
        """Return the states of some counter sets while some devices that draw on them are held."""
        states, is_joint = dict[str, SetState](), any(len(self.devices[each].parts) > 1 for each in held)
        for name in names:
            own = held if is_joint else frozenset([each for each in held if name in self.devices[each].parts])
            if name in self.sets:
                if (name, own) not in self._known:
                    self._known[name, own] = self._find_set(name, own)
                states[name] = self._known[name, own]
        if any(each.is_overdrawn for each in states.values()):
            # Nothing that draws on any of them is allocated.
            return {name: replace(each, rest=DeviceState.BLOCKED) for name, each in states.items()}
        return states

    def _find_set(self, name: str, held: frozenset[str]) -> SetState:
        taken, left = dict[str, Fraction](), Fraction(1)
        for device in self.sets[name]:
            if device.name in held:
                taken[device.name] = min(device.parts[name], left)
                left -= taken[device.name]
        counters = None if self._counters is None else CounterState(self._counters)
        if counters is not None:
            for each in held:
                counters.mark(each, used=True)
        others = [each for each in self.sets[name] if each.name not in taken] if left else []
        bits = defaultdict[Slice, int](int)
        for device in others:
            bits[device.slice_] |= 1 << device.index
        blocked = {slice_: without_counters(slice_, counters, among) for slice_, among in bits.items()}
        found = {each.state for each in others if not blocked[each.slice_] >> each.index & 1}
        rest = next((each for each in _ORDER if each in found), DeviceState.BLOCKED)
        return SetState(taken, left, rest, counters is not None and counters.overdrawn > 0)


@dataclass(slots=True, eq=False)
class _Slice:
    """What a slice was in a span; `form` is the same for alike ones.

    `places` are where it is for if it names no node: names of nodes, selectors, and None for all.
    """

    since: int
    until: int
    name: str
    node: str
    generation: int
    form: object
    places: tuple[NodeSelector | str | None, ...]
    row: StateRow


class LaidSpan(NamedTuple):
    """A layout of a pool from a time to another; `node` is that of all its devices, if it has one."""

    since: int
    until: int
    layout: Layout
    node: str


class Layouts:
    """What was published in a span; counters are compared by `by_amount`."""

    def __init__(self, reader: History, span: Span, by_amount: str) -> None:
        self._reader = reader
        self._span = span
        self._by_amount = by_amount
        self._nodes: dict[str, list[StateRow]] = defaultdict(list)
        """Those that can be used."""
        self._layouts: dict[object, Layout | None] = {}
        self._usable: dict[bytes, bool] = {}
        self._matches: dict[tuple[NodeSelector, StateRow], bool] = {}
        self._cards: dict[object, LaidDevice] = {}
        self._same: dict[tuple[LaidDevice, ...], Layout] = {}
        """Those without counters, by their cards."""
        self._devices: dict[bytes, list[Body]] = {}
        """Those of slices, which take much room, and are those of others."""

    def read(self) -> dict[PoolKey, list[LaidSpan]]:
        """Return what each pool published, in order; where nothing was there is no span. Raises StoreError."""
        pools, rules = defaultdict[PoolKey, list[_Slice]](list), list[StateRow]()
        for row in self._reader.read_states(self._span, *_KINDS):
            match row.kind:
                case "ResourceSlice":
                    pools[pool_of(row.content)].append(self._read_slice(row))
                case "Node":
                    self._add_node(row)
                case _:
                    rules.append(row)
        return {key: [*self._read_pool(key, slices, rules)] for key, slices in pools.items()}

    def _read_slice(self, row: StateRow) -> _Slice:
        spec, pool = row.content["spec"], row.content["spec"]["pool"]
        node, generation = spec.get("nodeName") or "", int(pool.get("generation", 0))
        text = orjson.dumps(spec.get("devices"))
        devices = self._devices.setdefault(text, spec.get("devices"))
        # Equal lists are one object.
        left = {**spec, "pool": {**pool, "name": _ANY, "generation": 0}, "nodeName": _ANY, "devices": None}
        form = row.content["apiVersion"], id(devices), orjson.dumps(left)
        places = () if node else _read_places(row.body)
        if devices is not None:
            spec["devices"] = devices
        return _Slice(row.since, row.until, row.name, node, generation, form, places, row)

    def _add_node(self, row: StateRow) -> None:
        """Add a node, if it can be used, which is asked once for alike nodes."""
        stored = row.stored
        metadata, status = stored["metadata"], stored.get("status") or {}
        told = metadata.get("deletionTimestamp"), row.content.get("spec"), status.get("conditions")
        if (key := orjson.dumps(told)) not in self._usable:
            self._usable[key] = read_node(read_object(row.body)).unusable is None
        if not self._usable[key]:
            return
        nodes = self._nodes[row.name]
        if nodes and nodes[-1].until == row.since and _labels_of(nodes[-1]) == _labels_of(row):
            nodes[-1].until = row.until
        else:
            row.content, row.own = {"metadata": metadata}, None
            nodes.append(row)

    def _read_pool(
        self, key: PoolKey, slices: Sequence[_Slice], rules: Sequence[StateRow]
    ) -> Iterator[LaidSpan]:
        names = {each.node for each in slices}
        nodes = [node for name in (self._nodes if "" in names else names) for node in self._nodes[name]]
        last: LaidSpan | None = None
        items: list[_Slice | StateRow] = [*slices, *rules, *nodes]
        for since, until, here in intervals(items, *self._span):
            found = self._find(key, here)
            if last is not None and last[2:] == found:
                last = last._replace(until=until)
                continue
            if last is not None:
                yield last
            last = None if found is None else LaidSpan(since, until, *found)
        if last is not None:
            yield last

    def _find(self, key: PoolKey, here: Iterable[_Slice | StateRow]) -> tuple[Layout, str] | None:
        """Return what a pool publishes while slices, nodes and rules are there, and the node of it."""
        slices, rules, usable = list[_Slice](), list[StateRow](), dict[str, StateRow]()
        for each in here:
            if isinstance(each, _Slice):
                slices.append(each)
            elif each.kind == "Node":
                usable[each.name] = each
            else:
                rules.append(each)
        newest = max([each.generation for each in slices], default=0)
        slices = sorted([each for each in slices if each.generation == newest], key=lambda each: each.name)
        names = {each.node for each in slices}
        node = names.pop() if len(names) == 1 else ""
        is_alike = bool(node) and not rules
        chosen = sorted(({node} if node else {*self._reach(slices, usable), *names}) & usable.keys())
        place: object = key[0], tuple([each.form for each in slices]), bool(chosen)
        if not is_alike:
            place = key, tuple([(each.form, each.node) for each in slices]), tuple(chosen), tuple(rules)
        if place not in self._layouts:
            bodies = [_form(each, index) if is_alike else each.row.body for index, each in enumerate(slices)]
            labelled = [(_ANY if is_alike else name, _labels_of(usable[name])) for name in chosen]
            self._layouts[place] = self._build([*bodies, *[each.body for each in rules]], labelled)
        layout = self._layouts[place]
        return None if layout is None else (layout, node)

    def _reach(self, slices: Iterable[_Slice], usable: Mapping[str, StateRow]) -> Iterator[str]:
        """Yield a node that can be used for each place that slices are for, if there is one."""
        for place in {place for each in slices for place in each.places}:
            if place is None or isinstance(place, str):
                yield place or next(iter(usable), "")
            else:
                yield next((node.name for node in usable.values() if self._is_selected(place, node)), "")

    def _is_selected(self, selector: NodeSelector, node: StateRow) -> bool:
        if (selector, node) not in self._matches:
            try:
                self._matches[selector, node] = matches(selector, node.name, _labels_of(node))
            except NodeSelectorError:
                self._matches[selector, node] = False
        return self._matches[selector, node]

    def _build(self, bodies: Iterable[Body], nodes: Iterable[tuple[str, Mapping[str, str]]]) -> Layout | None:
        """Return the layout of a pool, as `top` has it while nothing is held; None if it publishes nothing."""
        told = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            for name, labels in nodes
        ]
        state = build_state(Moment(self._span.until, (*bodies, *told), {}, ""))
        rows = DeviceTable(state).rows
        if not rows:
            return None
        pool = rows[0].pool
        totals = _totals(pool.slices)
        devices = [self._lay(row, totals) for row in rows]
        sets: dict[str, list[LaidDevice]] = defaultdict(list)
        for device in devices:
            for name in device.parts:
                sets[name].append(device)
        cards = frozenset([device.name for device in devices if not device.parts])
        states = Counter([device.state for device in devices])
        by_name = {device.name: device for device in devices}
        made = Layout(by_name, states, cards, sets, pool.judgement.counters)
        return made if sets else self._same.setdefault(tuple(devices), made)

    def _lay(self, row: DeviceRow, totals: Mapping[tuple[str, str], int]) -> LaidDevice:
        slice_, index = row.slice_, row.index
        parts: dict[str, dict[str, Fraction]] = defaultdict(dict)
        for use in slice_.device_fields[index].consumes:
            for counter, amount in use.counters:
                if (total := totals.get((use.counter_set, counter), 0)) > 0:
                    parts[use.counter_set][counter] = min(Fraction(max(amount, 0), total), Fraction(1))
        capacity = {name: each.value.nano for name, each in slice_.capacity_of(index).items()}
        is_shareable = bool(slice_.shareable >> index & 1)
        taken = {name: each[choose(each, self._by_amount)] for name, each in parts.items()}
        made = LaidDevice(row.name, row.node, row.state, capacity, is_shareable, taken, slice_, index)
        # A card is one as long as it is the same, whatever layout it is in.
        told = made.name, made.node, made.state, tuple(capacity.items()), is_shareable
        return made if taken else self._cards.setdefault(told, made)


def choose(names: Iterable[str], by_amount: str) -> str:
    """Return the capacity, or counter, of a name, with or without its domain; the first if there is none."""
    known = sorted(names)
    return next((each for each in known if each.rpartition("/")[2] == by_amount), known[0])


def _totals(slices: Iterable[Slice]) -> dict[tuple[str, str], int]:
    """Return how much counters have; of a set that is not there yet, as much as the largest device takes."""
    found: dict[tuple[str, str], int] = {}
    for slice_ in slices:
        for fields in slice_.device_fields:
            for use in fields.consumes:
                for name, amount in use.counters:
                    found[use.counter_set, name] = max(amount, found.get((use.counter_set, name), 0))
    for each in [each for slice_ in slices for each in slice_.counter_sets]:
        found |= {(each.name, name): counter.value.nano for name, counter in each.counters.items()}
    return found


def _labels_of(node: StateRow) -> Mapping[str, str]:
    return node.body["metadata"].get("labels") or {}


def _read_places(body: Body) -> tuple[NodeSelector | str | None, ...]:
    specs = [record.obj.spec for record in gather_stored([body]).records.values()]
    items = [item for spec in specs for item in (spec.devices if spec.per_device_node_selection else (spec,))]
    return tuple([item.node_name or item.node_selector for item in items])


def _form(item: _Slice, index: int) -> Body:
    """Return a slice of one node without what alike pools differ in."""
    spec, body = item.row.body["spec"], item.row.body
    pool = {**spec["pool"], "name": _ANY, "generation": 0}
    names = {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": {"name": str(index)}}
    return {**names, "spec": {**spec, "pool": pool, "nodeName": _ANY}}
