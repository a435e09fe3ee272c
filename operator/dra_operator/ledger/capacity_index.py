"""Capacity indexes: what shares leave of capacities, of the devices of a slice and of nodes.

The devices of a slice are ranked by what is left: one bisection for an amount. Nodes that were looked at stand on
logarithmic levels, an eighth of a doubling each, until something is taken or comes back there: a question about an
amount gets all known nodes that have so much left, and a few that do not quite.
Source: docs/engine section 5.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dra_operator.api.types import DeviceCapacity
from dra_operator.inventory import Slice, bits
from dra_operator.ledger.allocated_state import Shares

FEW_DEVICES = 8
"""To look at so many shared devices takes no longer than to look up what is left of all."""


class _Ranking(NamedTuple):
    """Amounts in order; `devices[i]` are those that have `amounts[i]` or more."""

    amounts: list[int]
    devices: list[int]

    @classmethod
    def build(cls, left: Iterable[tuple[int, int]]) -> "_Ranking":
        """Return devices ranked by what is left of each."""
        devices_by_amount: dict[int, int] = {}
        for index, amount in left:
            devices_by_amount[amount] = devices_by_amount.get(amount, 0) | 1 << index
        amounts = sorted(devices_by_amount)
        devices: list[int] = []
        above = 0
        for amount in reversed(amounts):
            above |= devices_by_amount[amount]
            devices.append(above)
        return cls(amounts, devices[::-1])

    def enough(self, amount: int) -> int:
        """Return the devices that have an amount or more."""
        place = bisect_left(self.amounts, amount)
        return self.devices[place] if place < len(self.devices) else 0

    def most(self, devices: int) -> int | None:
        """Return the most that any of some devices has; None if none of them has the capacity."""
        for place in range(len(self.amounts) - 1, -1, -1):
            if self.devices[place] & devices:
                return self.amounts[place]
        return None

    def move(self, device: int, old: int, new: int) -> None:
        """Let a device, as a bit, have another amount than before."""
        amounts, devices = self
        less, more = (new, old) if new < old else (old, new)
        for place in range(bisect_right(amounts, less), bisect_right(amounts, more)):
            # It had all of these, or none.
            devices[place] ^= device
        place = bisect_left(amounts, new)
        if place == len(amounts) or amounts[place] != new:
            others = devices[place] if place < len(devices) else 0
            amounts.insert(place, new)
            devices.insert(place, others | device)
        place = bisect_left(amounts, old)
        if devices[place] == (devices[place + 1] if place + 1 < len(devices) else 0):
            del amounts[place], devices[place]


class CapacityIndex:
    """What is left of the capacities of the devices of a slice, in nano-units."""

    __slots__ = ("_left", "_ranked")

    def __init__(self, slice_: Slice, shared: Mapping[str, Shares]) -> None:
        self._left = {
            name: {
                index: _left(value, shared.get(device), name)
                for index, (device, value) in enumerate(zip(slice_.names, column.values, strict=True))
                if value is not None
            }
            for name, column in slice_.capacity.items()
        }
        self._ranked = {name: _Ranking.build(left.items()) for name, left in self._left.items()}

    def update(self, slice_: Slice, shared: Mapping[str, Shares], devices: int) -> None:
        """Take in what is used of some devices."""
        for index in bits.each(devices):
            shares = shared.get(slice_.names[index])
            for name, left in self._left.items():
                value = slice_.capacity[name].values[index]
                if value is not None and (now := _left(value, shares, name)) != left[index]:
                    self._ranked[name].move(1 << index, left[index], now)
                    left[index] = now

    def enough(self, devices: int, amounts: Iterable[tuple[str, int, int]]) -> int:
        """Return those of some devices that have enough of each of some capacities.

        The amounts are those that a share would consume; what the devices have of each in all does not matter.
        """
        for name, amount, _ in amounts:
            devices &= self._ranked[name].enough(amount)
        return devices

    def most(self, devices: int) -> Iterator[tuple[str, int]]:
        """Yield the most that any of some devices has left, for each capacity that one of them has."""
        for name, ranked in self._ranked.items():
            amount = ranked.most(devices)
            if amount is not None:
                yield name, amount


def _left(capacity: DeviceCapacity, shares: Shares | None, name: str) -> int:
    return capacity.value.nano - (shares.amounts.get(name, 0) if shares else 0)


EVERY: Final = "every free device"
"""What a view calls its free devices together; those that are selected it calls by the expressions of selectors."""
_MOST_SELECTIONS = 16
"""All of them are told of each device that is taken."""
_STEPS = 3
"""Levels have so many bits below the leading one."""
_Levels = dict[int, int]
"""Sets of nodes by level."""


@dataclass(slots=True)
class DriverLevels:
    """What is left on the `nodes` that see a pool of one driver, by capacity name."""

    nodes: int = 0
    left: dict[str, _Levels] = field(default_factory=dict)

    def with_room(self, amounts: Iterable[tuple[str, int, object]]) -> int:
        """Return the nodes that may have a device with so much left of each of some capacities, in nano-units.

        How the amounts were written does not matter.
        """
        nodes = self.nodes
        for name, amount, _ in amounts:
            levels = self.left.get(name)
            if levels is None:
                return 0
            least = level_of(amount)
            found = 0
            for level, those in levels.items():
                if level >= least:
                    found |= those
            nodes &= found
            if not nodes:
                break
        return nodes


@dataclass(slots=True)
class NodeCapacityIndex:
    """What the same devices have left on the `known` nodes, by driver."""

    known: int = 0
    by_driver: dict[str, DriverLevels] = field(default_factory=dict)
    _places: dict[int, list[tuple[_Levels, int]]] = field(default_factory=dict)

    def enter(self, node: int, left: Iterable[tuple[str, Mapping[str, int]]]) -> None:
        """Enter a node, as a bit, that sees no pool together with others, with what each pool has left, by driver."""
        places: list[tuple[_Levels, int]] = []
        for driver, most in left:
            found = self.by_driver.get(driver)
            if found is None:
                found = self.by_driver[driver] = DriverLevels()
            found.nodes |= node
            for name, amount in most.items():
                levels = found.left.get(name)
                if levels is None:
                    levels = found.left[name] = {}
                level = level_of(amount)
                levels[level] = levels.get(level, 0) | node
                places.append((levels, level))
        self._places[node] = places
        self.known |= node

    def forget(self, nodes: int) -> None:
        """Let go of what is known of some nodes."""
        nodes &= self.known
        if not nodes:
            return
        self.known ^= nodes
        for driver, left in tuple(self.by_driver.items()):
            left.nodes &= ~nodes
            if not left.nodes:
                del self.by_driver[driver]
        for position in bits.each(nodes):
            node = 1 << position
            for levels, level in self._places.pop(node):
                rest = levels.get(level, 0) & ~node
                if rest:
                    levels[level] = rest
                else:
                    levels.pop(level, None)


@dataclass(slots=True)
class NodeCapacityIndexes:
    """What is left of `every` free device, and of those that some selectors select, by their expressions."""

    every: NodeCapacityIndex = field(default_factory=NodeCapacityIndex)
    selected: dict[object, NodeCapacityIndex] = field(default_factory=dict)

    def get_selected(self, selectors: object) -> NodeCapacityIndex:
        """Return the index of what some selectors select, to add to it. If they are too many, others go."""
        found = self.selected.get(selectors)
        if found is None:
            if len(self.selected) >= _MOST_SELECTIONS:
                del self.selected[next(iter(self.selected))]
            found = self.selected[selectors] = NodeCapacityIndex()
        return found

    def forget(self, nodes: int) -> None:
        """Let go of what is known of some nodes."""
        self.every.forget(nodes)
        for index in self.selected.values():
            index.forget(nodes)

    def clear(self) -> None:
        """Forget all nodes: they have other positions."""
        self.every = NodeCapacityIndex()
        self.selected.clear()


def level_of(amount: int) -> int:
    """Return the level of an amount: never lower than that of a smaller one."""
    if amount <= 0:
        return 0 if amount == 0 else -1
    length = amount.bit_length()
    return (length << _STEPS) + ((amount << _STEPS >> length - 1) & (1 << _STEPS) - 1)
