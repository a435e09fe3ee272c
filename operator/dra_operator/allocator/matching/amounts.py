"""Amounts: what a request consumes of each device of a slice, found once for all slices with equal capacity.

Claims may have amounts of their own, which are asked for once and never again. But nodes of one kind publish the same
capacities, even if each of their devices has a UUID. So what is found for one of them holds for all.
Source: docs/engine section 5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

from dra_operator.allocator.matching.capacity import CapacityError, Consumed, consume
from dra_operator.allocator.matching.room import Room, drop_older_half
from dra_operator.allocator.matching.rules import CapacityRule, consume_by, rules_of
from dra_operator.api.quantity import Quantity, is_ordinary
from dra_operator.api.sealed import sealed
from dra_operator.api.types import DeviceCapacity
from dra_operator.inventory import Slice, bits

AskedAmount: TypeAlias = tuple[str, int, str]
"""An amount of a capacity: its name, nano-units, and how it was written."""

_MAX_SIZE = 524_288
"""Of all amounts together: enough for 131,072 small slices whose devices are equal and have one capacity."""
_MAX_ASKED = 4096
_MAX_KINDS = 16_384
_PAIRS_A_DEVICE = 8
"""Where devices differ so much, to look at each takes no longer than to look at the sets in which they are equal."""


@sealed
class SliceAmounts:
    """What a request consumes of each device of a slice, the devices that have it, and those where it is an error.

    `kinds` are the devices that have it in sets of such as have equal capacity. `size` is the room that all of this
    takes: about that of so many amounts of one capacity.
    """

    each: Sequence[Consumed | CapacityError | None]
    fit: int
    impossible: int
    kinds: Sequence[tuple[int, Consumed]]
    size: int


@dataclass(slots=True, eq=False)
class KnownAmounts:
    """Amounts that requests ask for, whether all are ordinary, and what is known about them by the make of a slice."""

    requests: Mapping[str, Quantity]
    are_ordinary: bool
    by_shape: dict[object, SliceAmounts] = field(default_factory=dict)


@sealed
class _Alike:
    """The devices of a slice that have a capacity, and the rules of it, or none if it is out of the ordinary."""

    devices: int
    capacity: Mapping[str, DeviceCapacity]
    rules: tuple[CapacityRule, ...] | None


@dataclass(slots=True)
class AmountsCache:
    """What is known about amounts, by what is asked for. `fractional` is the feature FractionalCapacityRange."""

    fractional: bool
    _known: dict[tuple[AskedAmount, ...], KnownAmounts] = field(default_factory=dict)
    _room: Room = field(default_factory=lambda: Room(_MAX_SIZE, size_of=attrgetter("size")))
    _kinds: dict[object, Sequence[_Alike]] = field(default_factory=dict)
    _number_of_kinds: int = 0

    def known(self, asked: tuple[AskedAmount, ...], requests: Mapping[str, Quantity]) -> KnownAmounts:
        """Return what is known of what is asked for: the same for all keys that ask for it, whatever they select.

        `requests` are the same amounts as quantities.
        """
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= _MAX_ASKED:
                for old in drop_older_half(self._known):
                    self._room.leave(old.by_shape)
            ordinary = all(map(is_ordinary, requests.values()))
            found = self._known[asked] = KnownAmounts(requests, ordinary)
        return found

    def find(self, known: KnownAmounts, slice_: Slice) -> SliceAmounts:
        """Find the amounts of the devices of a slice, where they are not known; most of a slice have equal capacity."""
        kinds = self._kinds.get(slice_.capacity_shape) or self._find_kinds(slice_)
        each: list[Consumed | CapacityError | None] = []
        fit = impossible = 0
        fitting: list[tuple[int, Consumed]] = []
        for kind in kinds:
            found, those = self._consume(known, kind), kind.devices
            if not each:
                each = [found] * len(slice_.names)
            else:
                for index in bits.each(those):
                    each[index] = found
            if isinstance(found, Consumed):
                fit |= those
                fitting.append((those, found))
            elif found is not None:
                impossible |= those
        size = 2 + len(each) // 16 + len(fitting) * (1 + len(slice_.capacity))
        self._room.take(known.by_shape, size)
        amounts = known.by_shape[slice_.capacity_shape] = SliceAmounts(each, fit, impossible, fitting, size)
        return amounts

    def has_rules(self, slice_: Slice) -> bool:
        """True if all capacities of a slice are ordinary: then no device is fit for more that is unfit for less."""
        kinds = self._kinds.get(slice_.capacity_shape) or self._find_kinds(slice_)
        return all(kind.rules is not None for kind in kinds)

    def _find_kinds(self, slice_: Slice) -> Sequence[_Alike]:
        kinds: list[_Alike] = []
        for devices in _alike(slice_):
            capacity = slice_.capacity_of(bits.lowest(devices))
            kinds.append(_Alike(devices, capacity, rules_of(capacity, fractional=self.fractional)))
        if self._number_of_kinds > _MAX_KINDS:
            self._kinds.clear()
            self._number_of_kinds = 0
        self._kinds[slice_.capacity_shape] = kinds
        self._number_of_kinds += len(kinds)
        return kinds

    def _consume(self, known: KnownAmounts, kind: _Alike) -> Consumed | CapacityError | None:
        if kind.rules is not None and known.are_ordinary:
            return consume_by(kind.rules, known.requests)
        try:
            return consume(known.requests, kind.capacity, fractional=self.fractional)
        except CapacityError as error:
            # Another one, as it is kept: without the frames it came through.
            return CapacityError(str(error))


def _alike(slice_: Slice) -> Sequence[int]:
    """Return the devices of a slice as sets, each of those with equal capacity."""
    columns = [column for column in slice_.capacity.values() if len(column.sets) > 1]
    kinds = [slice_.every]
    for column in columns:
        if len(kinds) * len(column.sets) > _PAIRS_A_DEVICE * len(slice_.names):
            found: dict[object, int] = {}
            for index, key in enumerate(zip(*[column.keys for column in columns], strict=True)):
                found[key] = found.get(key, 0) | 1 << index
            return list(found.values())
        kinds = [both for those in kinds for equal in column.sets if (both := those & equal)]
    return kinds
