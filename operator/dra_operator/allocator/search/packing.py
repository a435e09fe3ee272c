"""Packing: how many devices that draw on counters fit together at most, out of any that are still wanted.

Adding up the smallest draws looks at one counter at a time, and ten devices that each leave enough of every single
counter may still not fit by twos. Here whole sets of draws are tried, all at once and each only as what it leaves: two
choices of as many devices that leave the same are one. Devices that have a counter in common, however indirectly, make
up a part, and what one part leaves does not matter to another.

By how many devices a part has at most a state is dropped that cannot beat the best so far: draws are weighed by how
scarce each counter is and summed, and the lightest that are left are taken as long as the sum lasts.
Source: docs/engine section 7; Martello and Toth, Knapsack problems (1990), chapter 6.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import le, mul, sub

from dra_operator.allocator.search.board import Left
from dra_operator.allocator.search.stock import CounterAt, Stock
from dra_operator.allocator.search.wants import Want, least_of, union_of
from dra_operator.inventory import bits

_MOST_STATES = 2000
_MOST_STATES_IN_ALL = 20_000
_SCALE = 1000
_Draw = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Rivals:
    """Devices that draw on counters in common: `draws` holds what each, as a bit, takes of `places`."""

    members: int
    places: tuple[CounterAt, ...]
    draws: Mapping[int, _Draw]


@dataclass(slots=True)
class _Row:
    """Devices of a part and what is left, ready to be packed: draws by weight, and how much the lightest weigh.

    `most` is how many fit as far as weights tell, `known` how many really do, by how many there have to be.
    """

    left: _Draw
    scale: tuple[int, ...]
    draws: tuple[_Draw, ...]
    weights: tuple[int, ...]
    most: int
    known: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class Packing:
    """The packings on one board. `states` counts what was looked at, for those who pay for it."""

    stock: Stock
    states: int = 0
    _parts: tuple[_Rivals, ...] = field(init=False)
    _rows: dict[object, _Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = tuple(_parts(self.stock))

    def suffices(self, wants: Sequence[Want], left: Left, guests: Mapping[int, int]) -> bool:
        """False if there are wants for more devices than fit; `guests` says how many a shareable one serves."""
        if not self._parts:
            return True
        lots: dict[int, tuple[int, int]] = {}
        total = 0
        for want in wants:
            if want:
                union = union_of(want)
                number, count = lots.get(union, (0, 0))
                lots[union] = number + 1, count + least_of(want)
                total |= union
        for among in {*lots, total}:
            within = [lot for union, lot in lots.items() if not union & ~among]
            number = sum([number for number, _ in within])
            if not self._have(sum([count for _, count in within]), number, among, left, guests):
                return False
        return True

    def _have(self, needed: int, number: int, among: int, left: Left, guests: Mapping[int, int]) -> bool:
        """True if so many wants can have all they need out of some devices."""
        most = among.bit_count()
        for bit, served in guests.items():
            if among & bit:
                most += min(served, number) - 1
        rows: list[_Row] = []
        for part in self._parts:
            if devices := among & part.members:
                row = self._row(part, devices, left)
                rows.append(row)
                most += row.most - devices.bit_count()
        for row in rows:
            most += self._fit(row, needed - most + row.most) - row.most
        return most >= needed

    def _row(self, part: _Rivals, devices: int, left: Left) -> _Row:
        have = tuple([max(left[number][counter], 0) for number, counter in part.places])
        key = (devices, have)
        row = self._rows.get(key)
        if row is None:
            # Of a counter that is used up no device left draws anything.
            scale = tuple([_SCALE * max(have) // item if item > 0 else 0 for item in have])
            draws = [part.draws[1 << position] for position in bits.each(devices)]
            weighed = sorted([(_weigh(draw, scale), draw) for draw in draws if all(map(le, draw, have))])
            weights = tuple(accumulate([weight for weight, _ in weighed], initial=0))
            most = bisect_right(weights, _weigh(have, scale)) - 1
            row = _Row(have, scale, tuple([draw for _, draw in weighed]), weights, most)
            self._rows[key] = row
        return row

    def _fit(self, row: _Row, needed: int) -> int:
        """Return how many devices of a row fit together, or some smaller number than needed if fewer do."""
        needed = max(needed, 1)
        if row.most < needed or self.states > _MOST_STATES_IN_ALL:
            return row.most
        found = row.known.get(needed)
        if found is None:
            found = row.known[needed] = self._find(row, needed)
        return found

    def _find(self, row: _Row, needed: int) -> int:
        weights, scale = row.weights, row.scale
        best = needed - 1
        states = {row.left: 0}
        looked = 0
        for place, draw in enumerate(row.draws):
            after: dict[_Draw, int] = {}
            for left, count in states.items():
                more = bisect_right(weights, weights[place] + _weigh(left, scale)) - 1 - place
                if count + more <= best:
                    continue
                if after.get(left, -1) < count:
                    after[left] = count
                taken = tuple(map(sub, left, draw))
                if min(taken) >= 0 and after.get(taken, -1) <= count:
                    after[taken] = count + 1
                    best = max(best, count + 1)
            states = after
            looked += len(states)
            if best == row.most or looked > _MOST_STATES:
                break
        self.states += looked
        return row.most if looked > _MOST_STATES else best


def _weigh(draw: _Draw, scale: Sequence[int]) -> int:
    return sum(map(mul, draw, scale))


def _parts(stock: Stock) -> list[_Rivals]:
    joined: list[tuple[int, set[CounterAt]]] = []
    for position, draw in stock.draws.items():
        if not draw:
            continue
        members, places = 1 << position, set(draw)
        for other in [other for other in joined if other[1] & places]:
            joined.remove(other)
            members |= other[0]
            places |= other[1]
        joined.append((members, places))
    parts: list[_Rivals] = []
    for members, places in joined:
        order = tuple(sorted(places))
        draws = {
            1 << position: tuple([stock.draws[position].get(place, 0) for place in order])
            for position in bits.each(members)
        }
        parts.append(_Rivals(members, order, draws))
    return parts
