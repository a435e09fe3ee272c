"""Amounts: what a request consumes of each device of a slice, found once for all slices with equal capacity.

Claims may bring amounts of their own, so that nobody has asked for them before and nobody will again. Nodes of one kind
publish the same capacities all the same, also where each of their devices has a UUID: what is said about one of them
holds for all.
Source: docs/engine section 5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from dra_operator.allocator.asked import AskedAmount
from dra_operator.allocator.capacity import CapacityError, Consumed, consume
from dra_operator.allocator.room import Room
from dra_operator.api.quantity import Quantity
from dra_operator.api.sealed import sealed
from dra_operator.inventory import Slice, bits

_MAX_AMOUNTS = 16_384
_MAX_ASKED = 4096
_PAIRS_A_DEVICE = 8
"""Where devices differ so much, to look at each takes no longer than to look at the sets in which they are equal."""


@sealed
class SliceAmounts:
    """What a request consumes of each device of a slice, the devices that have it, and those where it is an error.

    `least` is what it consumes at least, in nano-units, of the capacities that all devices have which have it; `kinds`
    are these devices in sets of such as have equal capacity.
    """

    each: tuple[Consumed | CapacityError | None, ...]
    fit: int
    impossible: int
    least: tuple[tuple[str, int], ...]
    kinds: tuple[tuple[int, Consumed], ...]


KnownAmounts: TypeAlias = dict[object, SliceAmounts]
"""Amounts by the make of a slice."""


@dataclass(slots=True)
class AmountsCache:
    """All that is known of amounts, by what is asked for. `fractional` is the feature FractionalCapacityRange."""

    fractional: bool
    _known: dict[tuple[AskedAmount, ...], KnownAmounts] = field(default_factory=dict)
    _room: Room = field(default_factory=lambda: Room(_MAX_AMOUNTS))

    def known(self, asked: tuple[AskedAmount, ...]) -> KnownAmounts:
        """Return what is known of what is asked for: the same for all keys that ask for it, whatever they select."""
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= _MAX_ASKED:
                for old in list(self._known)[: _MAX_ASKED // 2]:
                    self._room.leave(self._known.pop(old))
            found = self._known[asked] = {}
        return found

    def find(self, known: KnownAmounts, requests: Mapping[str, Quantity], content: Slice) -> SliceAmounts:
        """Find the amounts of the devices of a slice, where they are not known; most of a slice have equal capacity."""
        number = len(content.names)
        each: list[Consumed | CapacityError | None] = [None] * number
        fit = impossible = 0
        least: dict[str, int] | None = None
        fitting: list[tuple[int, Consumed]] = []
        kinds = _alike(content)
        for those in kinds:
            found = self._consume(requests, content, bits.lowest(those))
            if len(kinds) == 1:
                each = [found] * number
            elif found is not None:
                for index in bits.each(those):
                    each[index] = found
            if isinstance(found, Consumed):
                fit |= those
                least = _least(least, found)
                fitting.append((those, found))
            elif found is not None:
                impossible |= those
        self._room.take(known)
        amounts = known[content.make] = SliceAmounts(
            tuple(each), fit, impossible, tuple((least or {}).items()), tuple(fitting)
        )
        return amounts

    def _consume(
        self, requests: Mapping[str, Quantity], content: Slice, index: int
    ) -> Consumed | CapacityError | None:
        capacity = {
            name: value
            for name, column in content.capacity.items()
            if (value := column.values[index]) is not None
        }
        try:
            return consume(requests, capacity, fractional=self.fractional)
        except CapacityError as error:
            return error


def _least(before: Mapping[str, int] | None, more: Consumed) -> dict[str, int]:
    if before is None:
        return {name: amount.nano for name, amount, _ in more.amounts}
    return {name: min(amount.nano, before[name]) for name, amount, _ in more.amounts if name in before}


def _alike(content: Slice) -> Sequence[int]:
    """Return the devices of a slice as sets, each of those with equal capacity."""
    columns = [column for column in content.capacity.values() if len(column.sets) > 1]
    kinds = [content.every]
    for column in columns:
        if len(kinds) * len(column.sets) > _PAIRS_A_DEVICE * len(content.names):
            found: dict[object, int] = {}
            for index, key in enumerate(zip(*[column.keys for column in columns], strict=True)):
                found[key] = found.get(key, 0) | 1 << index
            return list(found.values())
        kinds = [both for those in kinds for equal in column.sets if (both := those & equal)]
    return kinds
