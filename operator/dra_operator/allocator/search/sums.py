"""Sums: what shares fill at least cannot be more than the devices that there are, however these are chosen.

Shares are measured by the part of the device that they fill. A device has room 1; a whole one fills it.
Source: docs/engine section 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.search.board import InFlight
from dra_operator.allocator.search.stock import Stock
from dra_operator.allocator.search.wants import Want, union_of
from dra_operator.inventory import bits

ALL = 1 << 40
"""The room of a device, in the units of these bounds."""
_MOST_NAMES = 3

_Measured = tuple[int, ...]
_Lots = tuple[tuple[int, int, int], ...]
"""What a want can be: so many of some devices, by a key."""


@dataclass(slots=True)
class Sums:
    """The bounds by adding up, for one board, with what was computed for it."""

    stock: Stock
    _kinds: dict[object, int] = field(default_factory=dict)
    _numbers: dict[tuple[_Measured, ...], int] = field(default_factory=dict)
    _rows: list[tuple[_Measured, ...]] = field(default_factory=list)
    _names: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        shareable = self.stock.board.shareable
        names = {name for position in bits.each(shareable) for name in self.stock.room(position, {})}
        self._names = sorted(names)[:_MOST_NAMES]

    def shares_suffice(self, wants: Sequence[Want], in_flight: InFlight) -> bool:
        """False if what the wants fill at least is more than the devices there are."""
        shareable = self.stock.board.shareable
        union = 0
        lots: dict[_Lots, int] = {}
        for want in wants:
            if want:
                union |= union_of(want)
                lot = tuple([(item.devices, item.missing, item.source.key) for item in want])
                lots[lot] = lots.get(lot, 0) + 1
        if not union & shareable:
            return True
        kinds: dict[int, int] = {}
        for position in bits.each(union & shareable):
            kind = self._kind_of(position, in_flight)
            kinds[kind] = kinds.get(kind, 0) | 1 << position
        room = union.bit_count() * ALL
        return all(self._least_filled(lots, kinds, number) <= room for number in range(len(self._names)))

    def _least_filled(self, lots: Mapping[_Lots, int], kinds: Mapping[int, int], name: int) -> int:
        """Return what wants, one of some lots each and so many of them, fill at least of a capacity."""
        rows, shareable = self._rows, self.stock.board.shareable
        orders: dict[int, list[tuple[int, int]]] = {}
        total = 0
        for lot, times in lots.items():
            fills = []
            for devices, count, key in lot:
                if key not in orders:
                    orders[key] = sorted(
                        [(rows[kind][key][name], members) for kind, members in kinds.items()]
                    )
                fills.append(_fill(orders[key], devices, count, (devices & ~shareable).bit_count()))
            total += min(fills) * times
        return total

    def _kind_of(self, position: int, in_flight: InFlight) -> int:
        """Return the number of the kind of a device: those of a kind have the same row for each key."""
        near = (position, *in_flight.get(position, {}).values())
        kind = self._kinds.get(near)
        if kind is None:
            rows = self._rows_of(position, in_flight)
            kind = self._numbers.setdefault(rows, len(self._rows))
            if kind == len(self._rows):
                self._rows.append(rows)
            self._kinds[near] = kind
        return kind

    def _rows_of(self, position: int, in_flight: InFlight) -> tuple[_Measured, ...]:
        """Return, by key, the part of a device's room that a share fills, of each capacity."""
        stock = self.stock
        room = stock.room(position, in_flight)
        return tuple(
            tuple(part(amounts.get(name, 0), room.get(name, 0)) for name in self._names)
            for amounts in [stock.amounts(key, position) for key in stock.keys]
        )


def part(amount: int, room: int) -> int:
    """Return the part of a room that an amount fills, of `ALL`, so that parts that fit sum up to 1 at most."""
    if amount <= 0:
        return 0
    return ALL if amount > room else amount * ALL // room


def _fill(order: Sequence[tuple[int, int]], devices: int, count: int, whole: int) -> int:
    """Return what so many of some devices fill at least: shares in the order of what each fills, then whole ones."""
    filled, missing = 0, count
    for amount, members in order:
        there = (members & devices).bit_count()
        if there >= missing:
            return filled + amount * missing
        filled += amount * there
        missing -= there
    # A whole device is filled, and no share fills more than that.
    return filled + min(missing, whole) * ALL
