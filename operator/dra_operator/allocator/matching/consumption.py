"""Consumption: what a request consumes of each device of a slice, found once for all slices with equal capacity.

Source: docs/dra-semantics 4.4; docs/engine section 5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from dra_operator.allocator.matching.capacity import CapacityError, Consumption, consume
from dra_operator.allocator.matching.equivalence import CacheLimit, drop_older_half
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.api.quantity import Quantity, is_ordinary
from dra_operator.api.types import DeviceCapacity
from dra_operator.inventory import Slice, bits

AskedAmount: TypeAlias = tuple[str, int, str]
"""An amount of a capacity: its name, nano-units, and how it was written."""

_MAX_SIZE = 524_288
"""Of all amounts together: enough for 131,072 small slices whose devices are equal and have one capacity."""
_MAX_ASKED = 4096


@fast_dataclass
class SliceConsumption:
    """What a request consumes of each device of a slice, the devices that have it, and those where it is an error.

    `size` is the room that all of this takes: about that of so many amounts of one capacity.
    """

    each: Sequence[Consumption | CapacityError | None]
    fit: int
    impossible: int
    size: int


@dataclass(slots=True, eq=False)
class Amounts:
    """Amounts that requests ask for, whether all are ordinary, and what is known about them by the make of a slice."""

    asked: tuple[AskedAmount, ...]
    requests: Mapping[str, Quantity]
    are_ordinary: bool
    by_shape: dict[object, SliceConsumption] = field(default_factory=dict)


@dataclass(slots=True)
class AmountsCache:
    """What is known about amounts, by what is asked for. `fractional` is the feature FractionalCapacityRange."""

    fractional: bool
    _known: dict[tuple[AskedAmount, ...], Amounts] = field(default_factory=dict)
    _room: CacheLimit = field(default_factory=lambda: CacheLimit(_MAX_SIZE, size_of=attrgetter("size")))

    def known(self, asked: tuple[AskedAmount, ...]) -> Amounts:
        """Return what is known of what is asked for: the same for all that ask for it, whatever they select."""
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= _MAX_ASKED:
                for old in drop_older_half(self._known):
                    self._room.release(old.by_shape)
            requests = {name: Quantity(nano, text) for name, nano, text in asked}
            ordinary = all(map(is_ordinary, requests.values()))
            found = self._known[asked] = Amounts(asked, requests, ordinary)
        return found

    def find(self, known: Amounts, slice_: Slice) -> SliceConsumption:
        """Find the amounts of the devices of a slice, where they are not known; most of a slice have equal capacity."""
        each: list[Consumption | CapacityError | None] = []
        fit = impossible = 0
        kinds_that_fit = 0
        for those in _alike(slice_):
            found = self._consume(known, slice_.capacity_of(bits.lowest(those)))
            if not each:
                each = [found] * len(slice_.names)
            else:
                for index in bits.each(those):
                    each[index] = found
            if isinstance(found, Consumption):
                fit |= those
                kinds_that_fit += 1
            elif found is not None:
                impossible |= those
        size = 2 + len(each) // 16 + kinds_that_fit * (1 + len(slice_.capacity))
        self._room.reserve(known.by_shape, size)
        amounts = known.by_shape[slice_.capacity_shape] = SliceConsumption(each, fit, impossible, size)
        return amounts

    def _consume(
        self, known: Amounts, capacity: Mapping[str, DeviceCapacity]
    ) -> Consumption | CapacityError | None:
        try:
            return consume(known.requests, capacity, fractional=self.fractional)
        except CapacityError as error:
            # Another one, as it is kept: without the frames it came through.
            return CapacityError(str(error))


def _alike(slice_: Slice) -> Sequence[int]:
    """Return the devices of a slice as sets, each of those with equal capacity."""
    keys = [column.keys for column in slice_.capacity.values() if len(column.sets) > 1]
    if not keys:
        return [slice_.every]
    found: dict[object, int] = {}
    for index, key in enumerate(zip(*keys, strict=True)):
        found[key] = found.get(key, 0) | 1 << index
    return list(found.values())
