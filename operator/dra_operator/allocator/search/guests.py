"""Guests: how many of some wants a device that is shared has room for, each of them once.

A request never takes two shares of the same device. So a device serves those that take least of it first, one each,
until the next would not fit: no choice serves more, whatever the order. Counting like this sees what adding up does
not: beside a want for half of the device there is one more place for such a want, and no room for all the small ones.
Source: docs/engine section 7.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.search.board import InFlight
from dra_operator.allocator.search.stock import Stock
from dra_operator.allocator.search.wants import Want, union_of
from dra_operator.inventory import bits

_Keys = tuple[int, ...]
_Lot = tuple[_Keys, int]
"""Wants that are alike: the keys by which each could have the device, and how many there are."""
_Class = tuple[int, tuple[_Lot, ...]]
"""Devices that are open to the same wants."""
_NO_AMOUNTS: Mapping[str, int] = {}


@dataclass(slots=True)
class Guests:
    """The guests of the devices on one board, with what was computed for it."""

    stock: Stock
    _kinds: dict[int, int] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)
    _known: dict[object, int] = field(default_factory=dict)

    def most(self, wants: Sequence[Want], in_flight: InFlight) -> dict[int, int]:
        """Return, by shareable device as a bit, how many of the wants it can have at most."""
        found: dict[int, int] = {}
        for devices, lots in self._classes(wants):
            for position in bits.each(devices):
                flying = in_flight.get(position, _NO_AMOUNTS)
                key = (self._kind(position), lots, tuple(flying.items()))
                most = self._known.get(key)
                if most is None:
                    most = self._known[key] = self._find(position, lots, in_flight)
                found[1 << position] = most
        return found

    def _classes(self, wants: Sequence[Want]) -> list[_Class]:
        shareable = self.stock.board.shareable
        alike: dict[tuple[tuple[int, int], ...], int] = {}
        union = 0
        for want in wants:
            if reached := union_of(want) & shareable:
                union |= reached
                item = tuple([(option.devices & shareable, option.source.key) for option in want])
                alike[item] = alike.get(item, 0) + 1
        classes: list[_Class] = [(union, ())] if union else []
        for item, times in alike.items():
            classes = [
                (both, (*lots, (keys, times)) if keys else lots)
                for devices, lots in classes
                for among, keys in _split(item, devices)
                if (both := among & devices)
            ]
        return classes

    def _kind(self, position: int) -> int:
        kind = self._kinds.get(position)
        if kind is None:
            same = self.stock.kind(position, {})
            kind = self._kinds[position] = self._numbers.setdefault(same, len(self._numbers))
        return kind

    def _find(self, position: int, lots: Sequence[_Lot], in_flight: InFlight) -> int:
        most = sum([times for _, times in lots])
        for name, left in self.stock.room(position, in_flight).items():
            number, room = 0, left
            for amount, times in sorted([(self._least(keys, position, name), times) for keys, times in lots]):
                fit = times if amount <= 0 else min(times, room // amount)
                number += fit
                room -= fit * amount
                if fit < times:
                    break
            most = min(most, number)
        return most

    def _least(self, keys: _Keys, position: int, name: str) -> int:
        return min([self.stock.amounts(key, position).get(name, 0) for key in keys])


def _split(options: Sequence[tuple[int, int]], devices: int) -> Iterator[tuple[int, _Keys]]:
    """Yield some devices by the keys of those options that are open to them."""
    parts: list[tuple[int, _Keys]] = [(devices, ())]
    for mask, key in options:
        parts = [
            part
            for among, keys in parts
            for part in ((among & mask, (*keys, key)), (among & ~mask, keys))
            if part[0]
        ]
    yield from parts
