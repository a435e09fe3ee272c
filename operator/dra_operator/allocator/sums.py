"""Sums: what requests take at least cannot be more than there is, however the devices are chosen.

Of a counter a request takes at least the sum of its smallest draws; the same holds for all counters of one name
together, which devices of several sets draw on, and for all requests together, since devices that are not shared
differ.

Shares are measured by the part of the device that they fill. A device has room 1; a whole one fills it. That part may
be rounded by any function under which parts that fit together still sum up to 1 at most, and each gives a bound: the
identity; "more than half is all, half is half, less is nothing", for which three shares of 40 of 100 do not fit on
two devices although by volume they would; and the same for thirds, quarters and fifths.
Source: Fekete and Schepers, New classes of fast lower bounds for bin packing problems (2001).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.board import InFlight, Left
from dra_operator.allocator.stock import CounterAt, Stock
from dra_operator.allocator.wants import Want, least_of, union_of
from dra_operator.inventory import bits

ALL = 1 << 40
"""The room of a device, in the units of these bounds."""
_ROUNDINGS = 5
_MOST_NAMES = 3

_Measured = tuple[int, ...]
_Lots = tuple[tuple[int, int, int], ...]
"""What a want can be: so many of some devices, by a key."""
_Draws = Mapping[CounterAt | str, int]


@dataclass(slots=True)
class Sums:
    """The bounds by adding up, for one board, with what was computed for it."""

    stock: Stock
    _known_draws: dict[object, _Draws] = field(default_factory=dict)
    _kinds: dict[object, int] = field(default_factory=dict)
    _numbers: dict[tuple[_Measured, ...], int] = field(default_factory=dict)
    _rows: list[tuple[_Measured, ...]] = field(default_factory=list)
    _drawing: dict[CounterAt | str, tuple[int, tuple[tuple[int, int], ...]]] = field(init=False)
    _measures: tuple[tuple[str, int], ...] = field(init=False)

    def __post_init__(self) -> None:
        self._drawing = self._find_drawing()
        shareable = self.stock.board.shareable
        names = sorted({name for position in bits.each(shareable) for name in self.stock.room(position, {})})
        self._measures = tuple(
            (name, rounding) for name in names[:_MOST_NAMES] for rounding in range(_ROUNDINGS)
        )

    def counters_suffice(self, wants: Sequence[Want], left: Left) -> bool:
        """False if what the wants draw on counters at least is more than is left."""
        counted, shareable = self.stock.board.counted, self.stock.board.shareable
        if not counted:
            return True
        totals: dict[CounterAt | str, int] = {}
        union = count = 0
        for want in wants:
            devices = union_of(want)
            if not devices & shareable:
                union |= devices
                count += least_of(want)
            if devices & counted:
                for place, amount in self._least_draws(
                    [(item.devices, item.missing) for item in want]
                ).items():
                    totals[place] = totals.get(place, 0) + amount
        for place, amount in self._least_draws([(union, count)]).items():
            totals[place] = max(amount, totals.get(place, 0))
        for place, amount in totals.items():
            places = self.stock.names[place] if isinstance(place, str) else (place,)
            # One that others have overdrawn has nothing to give, and takes nothing from its namesakes.
            if amount > sum([max(left[number][counter], 0) for number, counter in places]):
                return False
        return True

    def shares_suffice(self, wants: Sequence[Want], in_flight: InFlight) -> bool:
        """False if what the wants fill at least, rounded in some way, is more than the devices there are."""
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
        for number in range(0, len(self._measures), _ROUNDINGS):
            filled = self._least_filled(lots, kinds, number)
            if filled > room:
                return False
            for rounding in range(1, _ROUNDINGS):
                # A part x is rounded to (k + 1) / k x at most: below that, rounding cannot say no.
                if (rounding + 1) * filled > rounding * room and (
                    self._least_filled(lots, kinds, number + rounding) > room
                ):
                    return False
        return True

    def _least_draws(self, lots: Sequence[tuple[int, int]]) -> _Draws:
        """Return what one of these, so many of some devices, draws at least, by counter and by name of counters."""
        key = tuple(lots)
        found = self._known_draws.get(key)
        if found is None:
            first, *others = [self._draws_of(devices, count) for devices, count in lots]
            found = self._known_draws[key] = {
                place: min(amount, *[other[place] for other in others]) if others else amount
                for place, amount in first.items()
                if all(place in other for other in others)
            }
        return found

    def _draws_of(self, devices: int, count: int) -> _Draws:
        found: dict[CounterAt | str, int] = {}
        for place, (members, order) in self._drawing.items():
            # Devices that do not draw on the counter are taken first, then those that draw least.
            drawing = count - (devices & ~members).bit_count()
            if drawing > 0:
                total = 0
                for amount, bit in order:
                    if devices & bit:
                        total += amount
                        drawing -= 1
                        if not drawing:
                            break
                found[place] = total
        return found

    def _find_drawing(self) -> dict[CounterAt | str, tuple[int, tuple[tuple[int, int], ...]]]:
        """Return, by counter and by name of counters, the devices that draw on it, and what each does, least first."""
        each: dict[CounterAt | str, dict[int, int]] = {}
        for position, draw in self.stock.draws.items():
            bit = 1 << position
            for place, amount in draw.items():
                for item in (place, self.stock.name_of(place)):
                    amounts = each.setdefault(item, {})
                    amounts[bit] = amounts.get(bit, 0) + amount
        return {
            place: (sum(amounts), tuple(sorted((amount, bit) for bit, amount in amounts.items())))
            for place, amounts in each.items()
        }

    def _least_filled(self, lots: Mapping[_Lots, int], kinds: Mapping[int, int], measure: int) -> int:
        """Return what wants, one of some lots each and so many of them, fill at least in a measure."""
        shareable = self.stock.board.shareable
        orders: dict[int, list[tuple[int, int]]] = {}
        total = 0
        for lot, times in lots.items():
            best = -1
            for devices, count, key in lot:
                order = orders.get(key)
                if order is None:
                    rows = self._rows
                    order = orders[key] = sorted(
                        [(rows[kind][key][measure], members) for kind, members in kinds.items()]
                    )
                filled, missing = 0, count
                for amount, members in order:
                    if there := (members & devices).bit_count():
                        if there >= missing:
                            filled += amount * missing
                            missing = 0
                            break
                        filled += amount * there
                        missing -= there
                # A whole device is filled, and no share fills more than that.
                filled += min(missing, (devices & ~shareable).bit_count()) * ALL
                if best < 0 or filled < best:
                    best = filled
            total += best * times
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
        """Return, by key, the part of a device's room that a share fills, in each measure."""
        stock = self.stock
        room = stock.room(position, in_flight)
        return tuple(
            tuple(
                part(amounts.get(name, 0), room.get(name, 0), rounding) for name, rounding in self._measures
            )
            for amounts in [stock.amounts(key, position) for key in stock.keys]
        )


def part(amount: int, room: int, rounding: int) -> int:
    """Return the part of a room that an amount fills, of `ALL`, rounded so that parts that fit sum up to 1 at most.

    With `rounding` k > 0 a part x becomes floor((k + 1) x) / k, unless (k + 1) x is whole: then it stays.
    """
    if amount <= 0:
        return 0
    if amount > room:
        return ALL
    steps, rest = divmod((rounding + 1) * amount, room)
    return steps * ALL // rounding if rounding and rest else amount * ALL // room
