"""Pools: which slices of a driver count, and what that says about its devices.

A driver replaces a pool by publishing slices of a higher generation, one at a time. A pool is judged for each node, by
the slices that concern it: a node that sees a new slice gets nothing until the last one is there, one that sees only a
whole old generation still gets that, as upstream has it. `judge_all` judges the pool as a whole.
Source: docs/dra-semantics 2.2 and 2.3, which describe upstream's pool gathering.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from dra_operator.api.text import listed
from dra_operator.api.versions import Features
from dra_operator.inventory import bits
from dra_operator.inventory.nodes import NodeRecord, SelectorIndex
from dra_operator.inventory.slices import CounterUse, PoolKey, Slice


class CounterError(Exception):
    """A pool whose counters contradict each other; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Draw:
    """What a device takes: (position, nano-units) of counters, and (set, groups it can live with) a set."""

    amounts: tuple[tuple[int, int], ...]
    groups: tuple[tuple[int, frozenset[str]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class CounterLayout:
    """The counters of a complete pool.

    `totals` holds the amounts by position; `names` the set and counter of each position; `draws` what the devices of
    that name take, in the order of their slices (a name can occur twice where slices concern different nodes);
    `sets` is the number of counter sets; `has_groups` says whether any device names compatibility groups; `joining`
    holds, if so, the slice (by serial number), the name and the draw of each device, in the same order; `is_plain`
    says that none does and that no device takes a negative amount, so that taking a device never helps another.
    """

    totals: tuple[int, ...]
    names: tuple[tuple[str, str], ...]
    draws: Mapping[str, tuple[Draw, ...]]
    joining: tuple[tuple[int, str, Draw], ...]
    sets: int
    has_groups: bool
    is_plain: bool
    _of_device: Mapping[tuple[str, int], Draw]

    @classmethod
    def build(cls, slices: Sequence[Slice]) -> "CounterLayout":
        """Return the layout of a pool with these slices.

        Raises CounterError if a counter set is published twice or a device refers to one that is not there.
        """
        slices = sorted(slices, key=lambda item: item.name)
        names: list[tuple[str, str]] = []
        totals: list[int] = []
        sets: dict[str, int] = {}
        for counter_set in (item for slice_ in slices for item in slice_.counter_sets):
            if counter_set.name in sets:
                raise CounterError(f"duplicate counter set name {counter_set.name}")
            sets[counter_set.name] = len(sets)
            for name in sorted(counter_set.counters):
                names.append((counter_set.name, name))
                totals.append(counter_set.counters[name].value.nano)
        positions = {name: position for position, name in enumerate(names)}
        draws: dict[str, tuple[Draw, ...]] = {}
        joining: list[tuple[int, str, Draw]] = []
        of_device: dict[tuple[str, int], Draw] = {}
        for slice_ in slices:
            for index in bits.each(slice_.counted):
                device = slice_.names[index]
                draw = _draw(device, slice_.device_fields[index].consumes, sets, positions)
                of_device[slice_.name, index] = draw
                draws[device] = (*draws.get(device, ()), draw)
                joining.append((slice_.serial, device, draw))
        has_groups = any(slice_.has_groups for slice_ in slices)
        gives = any(amount < 0 for draw in of_device.values() for _, amount in draw.amounts)
        return cls(
            totals=tuple(totals),
            names=tuple(names),
            draws=draws,
            joining=tuple(joining) if has_groups else (),
            sets=len(sets),
            has_groups=has_groups,
            is_plain=not has_groups and not gives,
            _of_device=of_device,
        )

    def draw(self, slice_: Slice, index: int) -> Draw:
        """Return what a device of one of the pool's slices takes; it must be one that consumes counters."""
        return self._of_device[slice_.name, index]


def _draw(
    device: str,
    consumes: tuple[CounterUse, ...],
    sets: Mapping[str, int],
    positions: Mapping[tuple[str, str], int],
) -> Draw:
    # A set named twice, which no API server admits, counts twice.
    amounts: dict[int, int] = {}
    for use in consumes:
        if use.counter_set not in sets:
            raise CounterError(
                f"device {device} uses counter set {use.counter_set}, which the pool does not have"
            )
        for name, nano in use.counters:
            position = positions.get((use.counter_set, name))
            if position is None:
                raise CounterError(
                    f"device {device} uses counter {name}, which counter set {use.counter_set} does not have"
                )
            amounts[position] = amounts.get(position, 0) + nano
    return Draw(tuple(amounts.items()), tuple((sets[use.counter_set], use.groups) for use in consumes))


_SURPLUS: Final = "too many slices"
_Counters = CounterLayout | CounterError | None


class Verdict(Enum):
    """What a pool is worth to a node. An obsolete pool is one whose newer generation lies elsewhere."""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    INVALID = "invalid"
    OBSOLETE = "obsolete"


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on a pool, why, the slices that count, sorted by name, and the counters of a complete pool."""

    verdict: Verdict
    reason: str = ""
    slices: tuple[Slice, ...] = ()
    counters: CounterLayout | None = None

    @property
    def has_surplus(self) -> bool:
        """True if there are more slices than are announced: no update ends that."""
        return self.reason.startswith(_SURPLUS)


@dataclass(slots=True)
class Pool:
    """All slices of one driver and pool name, of every generation, by name.

    `local` holds those with a node name, by that name; `shared` the others. `epoch` is another object after each
    change.
    """

    key: PoolKey
    slices: dict[str, Slice] = field(default_factory=dict)
    local: dict[str, dict[str, Slice]] = field(default_factory=dict)
    shared: dict[str, Slice] = field(default_factory=dict)
    epoch: object = field(default_factory=object)
    _layouts: dict[frozenset[str], CounterLayout | CounterError] = field(default_factory=dict)
    _of_generation: dict[tuple[int, Features], _Counters] = field(default_factory=dict)
    _sorted: dict[int, tuple[Slice, ...]] | None = None
    _shared_row: tuple[tuple[Slice, ...], SelectorIndex] | None = None

    def put(self, slice_: Slice) -> None:
        """Add a slice, or replace the one of that name."""
        if slice_.name in self.slices:
            self.remove(slice_.name)
        self.slices[slice_.name] = slice_
        if slice_.nodes.node_name is None:
            self.shared[slice_.name] = slice_
        else:
            self.local.setdefault(slice_.nodes.node_name, {})[slice_.name] = slice_
        self._forget()

    def remove(self, name: str) -> None:
        """Remove a slice."""
        old = self.slices.pop(name)
        if old.nodes.node_name is None:
            del self.shared[name]
        else:
            group = self.local[old.nodes.node_name]
            del group[name]
            if not group:
                del self.local[old.nodes.node_name]
        self._forget()

    def near(self, node: NodeRecord) -> Iterable[Slice]:
        """Return the shared slices that can concern a node, sorted by name."""
        if not self.shared:
            return ()
        if self._shared_row is None:
            slices = tuple(self.shared[name] for name in sorted(self.shared))
            self._shared_row = slices, SelectorIndex.union(slice_.selector_index for slice_ in slices)
        row, index = self._shared_row
        return [row[position] for position in index.near(node)]

    def generations(self) -> dict[int, tuple[Slice, ...]]:
        """Return the slices by generation, sorted by name."""
        if self._sorted is None:
            grouped: dict[int, list[Slice]] = {}
            for name in sorted(self.slices):
                slice_ = self.slices[name]
                grouped.setdefault(slice_.generation, []).append(slice_)
            self._sorted = {generation: tuple(group) for generation, group in grouped.items()}
        return self._sorted

    def judge(self, relevant: Sequence[Slice], features: Features) -> Judgement:
        """Return the verdict of a node that `relevant` slices concern; those must not be empty.

        The order of `relevant` matters in one case: slices of one generation that disagree on their number. The first
        one is believed.
        """
        newest = max(item.generation for item in relevant)
        kept = [item for item in relevant if item.generation == newest]
        expected = kept[0].slice_count
        if len(kept) == expected:
            return _inspect(kept, self._counters(kept, features))
        generations = self.generations()
        if max(generations) > newest:
            return Judgement(Verdict.OBSOLETE, "a newer generation is published elsewhere")
        everything = _known(generations[newest], features)
        if len(everything) != expected:
            return Judgement(Verdict.INCOMPLETE, _missing(len(everything), expected, newest))
        # Thousands of nodes may each have a slice of the pool, and all of them ask about the same generation.
        whole = (newest, features)
        if whole not in self._of_generation:
            self._of_generation[whole] = self._counters(everything, features)
        return _inspect(kept, self._of_generation[whole])

    def judge_all(self, features: Features) -> Judgement:
        """Return the verdict on the newest generation as a whole, as an onlooker sees it who is on no node.

        Like a node it leaves out slices with compatibility groups where these are switched off, unless there are no
        others.
        """
        newest = self.newest()
        return self.judge(_known(newest, features) or newest, features)

    def newest(self) -> tuple[Slice, ...]:
        """Return the slices of the newest generation, sorted by name."""
        generations = self.generations()
        return generations[max(generations)]

    def newest_nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that slices of the newest generation name, sorted."""
        names = {item.nodes.node_name for item in self.newest()}
        return tuple(sorted(name for name in names if name is not None))

    def _counters(self, everything: Sequence[Slice], features: Features) -> _Counters:
        concerned = [item for item in everything if item.counted or item.counter_sets]
        if not concerned or not features.partitionable_devices:
            return None
        key = frozenset(item.name for item in concerned)
        if (found := self._layouts.get(key)) is None:
            try:
                found = CounterLayout.build(concerned)
            except CounterError as error:
                found = error
            self._layouts[key] = found
        return found

    def _forget(self) -> None:
        self.epoch = object()
        self._sorted = None
        self._shared_row = None
        self._layouts.clear()
        self._of_generation.clear()


def surplus_advice(pool: Pool) -> str:
    """Return what to do about a pool that has more slices than it announces."""
    nodes = pool.newest_nodes()
    # A pool may be meant for several nodes, as many as it announces slices.
    if len(nodes) > pool.newest()[0].slice_count:
        return f"nodes {listed(nodes)} use one pool name: the driver must give each its own"
    return "two publishers use one pool name, or slices were left behind: delete those that nobody updates"


def _known(slices: Sequence[Slice], features: Features) -> Sequence[Slice]:
    return slices if features.compatibility_groups else [item for item in slices if not item.has_groups]


def _inspect(kept: Iterable[Slice], counters: _Counters) -> Judgement:
    slices = tuple(sorted(kept, key=lambda item: item.name))
    if duplicate := _duplicate(name for item in slices for name in item.names):
        return Judgement(Verdict.INVALID, f"duplicate device name {duplicate}")
    if isinstance(counters, CounterError):
        return Judgement(Verdict.INVALID, str(counters))
    return Judgement(Verdict.COMPLETE, slices=slices, counters=counters)


def _duplicate(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _missing(found: int, expected: int, generation: int) -> str:
    if found > expected:
        announced = f"{expected} {'is' if expected == 1 else 'are'} announced"
        return f"{_SURPLUS} of generation {generation} ({found} where {announced})"
    return f"{expected - found} of {expected} slices of generation {generation} missing"
