"""Layouts: what devices pools published over time, and which of them nobody could have had, as `top` says it.

A pool is asked only where a slice, a taint rule, or whether its node can be used has changed, and alike pools once.
Source: docs/history.md.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import blake2b
from itertools import groupby
from typing import Final, NamedTuple

import orjson

from dra_operator.api.convert import Body
from dra_operator.api.core import NodeSelector
from dra_operator.api.node_selector import NodeSelectorError, matches
from dra_operator.history.reader import Moment, Span, StateRow, build_state
from dra_operator.history.timeline import History, read_events
from dra_operator.inventory import PoolKey, Slice
from dra_operator.inventory.nodes import read_node
from dra_operator.inventory.pool import CounterLayout
from dra_operator.ledger.availability import CounterState
from dra_operator.questions.contents import gather_stored
from dra_operator.questions.device_table import DeviceRow, DeviceState, DeviceTable, without_counters

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
    """What a pool publishes: all devices, those that are cards, and counter sets with those that draw on them."""

    devices: dict[str, LaidDevice]
    cards: list[LaidDevice]
    sets: dict[str, list[LaidDevice]]
    _counters: CounterLayout | None
    _known: dict[tuple[str, frozenset[str]], SetState] = field(default_factory=dict)

    def find_set(self, name: str, held: frozenset[str]) -> SetState:
        """Return the state of a counter set while some devices of the pool are held."""
        if all(len(self.devices[each].parts) == 1 for each in held):
            held = frozenset([each for each in held if name in self.devices[each].parts])
        if (found := self._known.get((name, held))) is None:
            found = self._known[name, held] = self._find_set(name, held)
        return found

    def join(self, states: Mapping[str, SetState]) -> Mapping[str, SetState]:
        """Return the states of all sets: if one is overdrawn, nothing that draws on any is allocated."""
        if not any(each.is_overdrawn for each in states.values()):
            return states
        return {name: replace(each, rest=DeviceState.BLOCKED) for name, each in states.items()}

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


class LaidSpan(NamedTuple):
    """A layout of a pool from a time to another; `node` is that of all its devices, if it has one."""

    since: int
    until: int
    layout: Layout
    node: str


@dataclass(frozen=True, slots=True)
class _Slice:
    """A slice as it is stored: `node` is the one that it is for.

    If it is for others, `places` are names of nodes, selectors, and None for all.
    """

    name: str
    pool: PoolKey
    generation: int
    node: str
    body: Body
    places: tuple[NodeSelector | str | None, ...]


class Layouts:
    """Goes through what was published in a span; counters are compared by `by_amount`. Raises StoreError."""

    def __init__(self, reader: History, span: Span, by_amount: str) -> None:
        self._reader = reader
        self._span = span
        self._by_amount = by_amount
        self._slices: dict[PoolKey, dict[str, _Slice]] = defaultdict(dict)
        self._of_node: dict[str, set[PoolKey]] = defaultdict(set)
        """Pools with a slice for a node; that of no name: for others than one."""
        self._nodes: dict[str, Mapping[str, str]] = {}
        """The labels of those that can be used."""
        self._rules: dict[str, Body] = {}
        self._layouts: dict[object, Layout | None] = {}
        self._causes: dict[bytes, str | None] = {}
        self._matches: dict[tuple[object, str], bool] = {}

    def read(self) -> dict[PoolKey, list[LaidSpan]]:
        """Return what each pool published, in order; where nothing was there is no span."""
        found: dict[PoolKey, list[LaidSpan]] = defaultdict(list)
        current: dict[PoolKey, tuple[int, Layout, str]] = {}
        events = read_events(self._reader, self._span, "ResourceSlice", "Node", "DeviceTaintRule")
        for at, happened in groupby(events, key=lambda event: event[0]):
            for key in self._apply([(begins, row) for _, row, begins in happened]):
                after = self._find(key)
                before = current.get(key)
                if before is not None and after == before[1:]:
                    continue
                if before is not None and before[0] < at:
                    found[key].append(LaidSpan(before[0], at, *before[1:]))
                current.pop(key, None)
                if after is not None:
                    current[key] = at, *after
        for key, (since, layout, node) in current.items():
            found[key].append(LaidSpan(since, self._span.until, layout, node))
        return found

    def _apply(self, rows: list[tuple[bool, StateRow]]) -> set[PoolKey]:
        """Take in what begins and ends at a time; return the pools for which that may matter."""
        dirty = set[PoolKey]()
        nodes = {row.name: self._nodes.get(row.name) for _, row in rows if row.kind == "Node"}
        for begins, row in rows:
            match row.kind:
                case "ResourceSlice":
                    item = _read_slice(row)
                    dirty.add(item.pool)
                    if begins:
                        self._slices[item.pool][row.name] = item
                        self._of_node[item.node].add(item.pool)
                    else:
                        self._slices[item.pool].pop(row.name, None)
                case "Node":
                    self._nodes.pop(row.name, None)
                    if begins and self._find_cause(row.body) is None:
                        self._nodes[row.name] = row.body["metadata"].get("labels") or {}
                case _:
                    dirty |= self._slices.keys()
                    self._rules.pop(row.name, None)
                    if begins:
                        self._rules[row.name] = row.body
        changed = {name for name, labels in nodes.items() if self._nodes.get(name) != labels}
        if changed:
            self._matches = {key: each for key, each in self._matches.items() if key[1] not in changed}
            dirty |= {key for name in (*changed, "") for key in self._of_node[name]}
        return dirty

    def _find_cause(self, body: Body) -> str | None:
        """Return why a node cannot be used, which is asked once for alike nodes."""
        metadata, status = body["metadata"], body.get("status") or {}
        told = metadata.get("deletionTimestamp"), body.get("spec"), status.get("conditions")
        if (key := orjson.dumps(told)) not in self._causes:
            (record,) = gather_stored([body]).records.values()
            self._causes[key] = read_node(record.obj).unusable
        return self._causes[key]

    def _find(self, key: PoolKey) -> tuple[Layout, str] | None:
        """Return what a pool publishes now, and the node of it."""
        slices = [*self._slices[key].values()]
        newest = max((each.generation for each in slices), default=0)
        slices = sorted((each for each in slices if each.generation == newest), key=lambda each: each.name)
        names = {each.node for each in slices}
        node = names.pop() if len(names) == 1 and not any(each.places for each in slices) else ""
        is_alike = bool(node) and not self._rules
        bodies = [_form(each, index) if is_alike else each.body for index, each in enumerate(slices)]
        nodes = [name for name in {*self._reach(slices), *names} if name in self._nodes]
        nodes = [node] if node and node in self._nodes else sorted(nodes)
        text = orjson.dumps([key[0], "" if is_alike else key[1], bodies, *self._rules.values()])
        place = blake2b(text, digest_size=16).digest(), tuple([_ANY] * bool(nodes) if is_alike else nodes)
        if place not in self._layouts:
            labelled = [(_ANY if is_alike else name, self._nodes[name]) for name in nodes]
            self._layouts[place] = self._build(bodies, labelled)
        layout = self._layouts[place]
        return None if layout is None else (layout, node)

    def _reach(self, slices: Iterable[_Slice]) -> Iterator[str]:
        """Yield a node that can be used for each place that slices are for, if there is one."""
        for place in {place for each in slices for place in each.places}:
            if place is None or isinstance(place, str):
                yield place or next(iter(self._nodes), "")
            else:
                yield next((name for name in self._nodes if self._is_selected(place, name)), "")

    def _is_selected(self, selector: NodeSelector, name: str) -> bool:
        if (selector, name) not in self._matches:
            try:
                found = matches(selector, name, self._nodes[name])
            except NodeSelectorError:
                found = False
            self._matches[selector, name] = found
        return self._matches[selector, name]

    def _build(self, bodies: Iterable[Body], nodes: Iterable[tuple[str, Mapping[str, str]]]) -> Layout | None:
        """Return the layout of a pool, as `top` has it while nothing is held; None if it publishes nothing."""
        told = [
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
            for name, labels in nodes
        ]
        state = build_state(Moment(self._span.until, (*bodies, *told, *self._rules.values()), {}, ""))
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
        cards = [device for device in devices if not device.parts]
        return Layout({each.name: each for each in devices}, cards, sets, pool.judgement.counters)

    def _lay(self, row: DeviceRow, totals: Mapping[tuple[str, str], int]) -> LaidDevice:
        slice_, index = row.slice_, row.index
        parts: dict[str, dict[str, Fraction]] = defaultdict(dict)
        for use in slice_.device_fields[index].consumes:
            for counter, amount in use.counters:
                if (total := totals.get((use.counter_set, counter), 0)) > 0:
                    parts[use.counter_set][counter] = min(Fraction(max(amount, 0), total), Fraction(1))
        return LaidDevice(
            row.name,
            row.node,
            row.state,
            {name: each.value.nano for name, each in slice_.capacity_of(index).items()},
            bool(slice_.shareable >> index & 1),
            {name: each[choose(each, self._by_amount)] for name, each in parts.items()},
            slice_,
            index,
        )


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


def _read_slice(row: StateRow) -> _Slice:
    spec, places = row.body["spec"], tuple[NodeSelector | str | None, ...]()
    pool, node = spec["pool"], spec.get("nodeName") or ""
    if not node and (record := next(iter(gather_stored([row.body]).records.values()), None)) is not None:
        each = record.obj.spec
        items = each.devices if each.per_device_node_selection else (each,)
        places = tuple([item.node_name or item.node_selector for item in items])
    return _Slice(row.name, (spec["driver"], pool["name"]), pool.get("generation", 0), node, row.body, places)


def _form(item: _Slice, index: int) -> Body:
    """Return a slice of one node without what alike pools differ in."""
    spec = item.body["spec"]
    pool = {**spec["pool"], "name": _ANY, "generation": 0}
    names = {
        "apiVersion": item.body["apiVersion"],
        "kind": item.body["kind"],
        "metadata": {"name": str(index)},
    }
    return {**names, "spec": {**spec, "pool": pool, "nodeName": _ANY}}
