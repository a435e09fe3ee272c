"""Stock: what the devices on a board have to give in parts, counters and capacities, and what is gone after a pick.

A search that may pick in any order asks at each pick which devices are out of reach for whom from then on. All of it
is known beforehand: what a device draws on counters, what a share of it takes by key, what room committed shares
leave it.
Source: docs/engine sections 2 and 6; docs/dra-semantics 4.3 and 4.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dra_operator.allocator.matching.candidates import CandidateKey
from dra_operator.allocator.search.board import Board, InFlight, Left
from dra_operator.inventory import bits

CounterAt = tuple[int, int]
"""A counter: the number of its pool, and its position there."""
_NO_AMOUNTS: Mapping[str, int] = {}


@dataclass(slots=True)
class Stock:
    """What there is on a board.

    `draws` holds, by position of a device that draws on counters, how much of which. Keys go by numbers, in
    the order in which they were first asked about: ask about all before anything else.
    """

    board: Board
    draws: dict[int, dict[CounterAt, int]] = field(default_factory=dict)
    _keys: list[CandidateKey] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _amounts: dict[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    _room: dict[int, Mapping[str, int]] = field(default_factory=dict)
    _unfit: dict[tuple[CounterAt, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for position in bits.each(self.board.counted):
            number, draw = self.board.draw(position)
            amounts = self.draws[position] = dict[CounterAt, int]()
            for place, amount in draw:
                if amount:
                    amounts[number, place] = amounts.get((number, place), 0) + amount

    def number_of(self, key: CandidateKey) -> int:
        """Return the number of a key."""
        number = self._numbers.setdefault(key.serial, len(self._keys))
        if number == len(self._keys):
            self._keys.append(key)
        return number

    def title_of(self, place: CounterAt) -> str:
        """Return the name of a counter behind that of its set."""
        number, counter = place
        layout = self.board.view.pools[number].counters
        assert layout is not None
        return "/".join(layout.names[counter])

    @property
    def keys(self) -> range:
        """The numbers of all keys."""
        return range(len(self._keys))

    def amounts(self, key: int, position: int) -> Mapping[str, int]:
        """Return what a share of a device takes of each capacity, in nano-units; nothing if it is unfit for the key."""
        found = self._amounts.get((key, position))
        if found is None:
            consumed = self.board.consumed(self._keys[key], position)
            found = _NO_AMOUNTS
            if consumed is not None:
                found = {name: amount for name, amount, _ in consumed.amounts}
            self._amounts[key, position] = found
        return found

    def room(self, position: int, in_flight: InFlight) -> dict[str, int]:
        """Return what committed shares and those in flight leave of a device's capacities, in nano-units."""
        room = self._room.get(position)
        if room is None:
            room = self._room[position] = self._find_room(position)
        flying = in_flight.get(position, _NO_AMOUNTS)
        return {name: amount - flying.get(name, 0) for name, amount in room.items()}

    def share(self, key: int, position: int, in_flight: InFlight) -> tuple[InFlight, int]:
        """Return what is in flight with one more share of a device, and the keys, as bits, it has no more room for."""
        after = dict(in_flight.get(position, _NO_AMOUNTS))
        for name, amount in self.amounts(key, position).items():
            after[name] = after.get(name, 0) + amount
        in_flight = {**in_flight, position: after}
        room, full = self.room(position, in_flight), 0
        for number in self.keys:
            if any(amount > room[name] for name, amount in self.amounts(number, position).items()):
                full |= 1 << number
        return in_flight, full

    def unfit(self, position: int, left: Left) -> int:
        """Return the devices that want more than is left of a counter that this device draws on."""
        unfit = 0
        for place in self.draws[position]:
            number, counter = place
            have = left[number][counter]
            found = self._unfit.get((place, have))
            if found is None:
                found = self._unfit[place, have] = bits.from_positions(
                    other for other, draw in self.draws.items() if draw.get(place, 0) > have
                )
            unfit |= found
        return unfit

    def alike(self, position: int, devices: int, in_flight: InFlight) -> int:
        """Return those of some devices that draw on the same counters and have the same room as this one."""
        if self.board.counted >> position & 1:
            draw = self.draws[position]
            devices = bits.from_positions(other for other in bits.each(devices) if self.draws[other] == draw)
        if self.board.shareable >> position & 1:
            kind = self.kind(position, in_flight)
            devices = bits.from_positions(
                other for other in bits.each(devices) if self.kind(other, in_flight) == kind
            )
        return devices

    def kind(self, position: int, in_flight: InFlight) -> object:
        """Return what shareable devices have in common that have the same room, and give the same shares to all."""
        return (
            tuple(self.room(position, in_flight).items()),
            tuple([tuple(self.amounts(number, position).items()) for number in self.keys]),
        )

    def _find_room(self, position: int) -> Mapping[str, int]:
        # What a device has of a capacity does not depend on the key; the keys that it is unfit for do not say.
        for key in self._keys:
            if (consumed := self.board.consumed(key, position)) is not None:
                used = self.board.used(position)
                return {name: value - used.get(name, 0) for name, _, value in consumed.amounts}
        return _NO_AMOUNTS
