"""What remains: of demands and of supply, for a search that may pick in any order.

Each alternative carries the devices that it can still take: those that are left, that its constraints still admit, that
have room for its amounts, and whose counters fit. A pick narrows all of them at once (forward checking).
Source: docs/engine sections 2, 6 and 7; docs/dra-semantics 4.3 and 4.4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dra_operator.allocator.matching.candidates import CandidateKey
from dra_operator.allocator.search.model import InFlight, Left, SearchModel
from dra_operator.inventory import bits

CounterAt = tuple[int, int]
"""A counter: the number of its pool, and its position there."""
_NO_AMOUNTS: Mapping[str, int] = {}


@dataclass(slots=True)
class RemainingSupply:
    """What there is on a model.

    `draws` holds, by position of a device that draws on counters, how much of which. Keys go by numbers, in
    the order in which they were first asked about: ask about all before anything else.
    """

    model: SearchModel
    draws: dict[int, dict[CounterAt, int]] = field(default_factory=dict)
    _keys: list[CandidateKey] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _amounts: dict[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    _room: dict[int, Mapping[str, int]] = field(default_factory=dict)
    _unfit: dict[tuple[CounterAt, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for position in bits.each(self.model.counted):
            number, draw = self.model.draw(position)
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
        layout = self.model.view.pools[number].counters
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
            consumed = self.model.consumed(self._keys[key], position)
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
        if self.model.counted >> position & 1:
            draw = self.draws[position]
            devices = bits.from_positions(other for other in bits.each(devices) if self.draws[other] == draw)
        if self.model.shareable >> position & 1:
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
            if (consumed := self.model.consumed(key, position)) is not None:
                used = self.model.used(position)
                return {name: value - used.get(name, 0) for name, _, value in consumed.amounts}
        return _NO_AMOUNTS


_Shape = tuple[int, tuple[tuple[int, int, bool], ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Where an option comes from: request, place among its alternatives, rules that bind it, number of its key.

    `shape` is equal for options that are bound alike, whichever claims they are of.
    """

    request: int
    place: int
    rules: tuple[int, ...]
    key: int
    shape: _Shape


class Option(NamedTuple):
    """An alternative as far as it is open: `missing` ones out of `devices`."""

    devices: int
    missing: int
    source: Source


DemandLeft = tuple[Option, ...]
"""What a request still demands: one of the options, or nothing more if there are none."""


class SearchState(NamedTuple):
    """Wants by request, what is left of counters, and what shares picked so far consume.

    `open` is what each rule admits with the marks of its groups, or nothing where no group that has to match overlaps.
    """

    demands_left: tuple[DemandLeft, ...]
    left: Left
    in_flight: InFlight
    open: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemainingDemands:
    """How the demands of a model narrow. `clusters` are the requests that rules bind together."""

    model: SearchModel
    supply: RemainingSupply
    clusters: tuple[tuple[int, ...], ...]

    @classmethod
    def build(cls, model: SearchModel, supply: RemainingSupply) -> "RemainingDemands":
        """Return the demands of a model."""
        return cls(model, supply, _clusters(model))

    def first(self) -> SearchState | None:
        """Return the state before any pick, or None if a request cannot be served at all."""
        model = self.model
        demands_left: list[DemandLeft] = [()] * len(model.demands)
        for cluster in self.clusters:
            # Rules are numbered within their cluster, so that clusters of equal claims look alike.
            local: dict[int, int] = {}
            for number in cluster:
                options: list[Option] = []
                for place, choice in enumerate(model.demands[number]):
                    devices = choice.mask & model.available
                    bound: list[tuple[int, int, bool]] = []
                    for rule in choice.constraints:
                        groups = model.rules[rule].groups
                        devices &= groups.members
                        bound.append(
                            (local.setdefault(rule, len(local)), id(groups), model.rules[rule].matching)
                        )
                    key = self.supply.number_of(model.requests[number].alternatives[place].key)
                    shape = (key if devices & model.shareable else -1, tuple(bound))
                    if devices.bit_count() >= choice.count:
                        source = Source(number, place, choice.constraints, key, shape)
                        options.append(Option(devices, choice.count, source))
                demands_left[number] = tuple(options)
        overlapping = any(rule.matching and rule.groups.overlapping for rule in model.rules)
        admitted = tuple([rule.groups.open for rule in model.rules]) if overlapping else ()
        return SearchState(tuple(demands_left), model.left, {}, admitted) if all(demands_left) else None

    def pick(self, now: SearchState, option: Option, bit: int) -> SearchState | int:
        """Return the state after a device is picked for an option, or a request that cannot be served any more."""
        source, position = option.source, bit.bit_length() - 1
        left, in_flight = now.left, now.in_flight
        gone = full = 0
        if self.model.shareable & bit:
            in_flight, full = self.supply.share(source.key, position, in_flight)
        else:
            gone = bit
        if self.model.counted & bit:
            charged = self.model.charge(position, left)
            # Earlier picks have left no device that does not fit.
            assert charged is not None
            left = charged
            gone |= self.supply.unfit(position, left)
        admitted = {rule: self._admitted(rule, position, now.open) for rule in source.rules}
        demands_left = list(now.demands_left)
        for number, demand in enumerate(now.demands_left):
            if not demand:
                continue
            if number == source.request:
                if option.missing == 1:
                    demands_left[number] = ()
                    continue
                demand = (Option(option.devices & ~bit, option.missing - 1, source),)  # noqa: PLW2901
            demands_left[number] = _narrowed(demand, bit, gone, full, admitted)
            if not demands_left[number]:
                return number
        still = now.open
        if still:
            rules = self.model.rules
            still = tuple(
                [
                    admitted.get(rule, before) if rules[rule].matching else before
                    for rule, before in enumerate(still)
                ]
            )
        return SearchState(tuple(demands_left), left, in_flight, still)

    def equals(self, now: SearchState, bit: int, among: int) -> int:
        """Return those of other devices that everybody left could have in the place of this one, and it in theirs.

        They are open to the same options, in the same groups, draw on the same counters and have the same room.
        """
        model = self.model
        same = among & (model.shareable if model.shareable & bit else ~model.shareable)
        same &= model.counted if model.counted & bit else ~model.counted
        position = bit.bit_length() - 1
        rules: set[int] = set()
        for demand in now.demands_left:
            for option in demand:
                same &= option.devices if option.devices & bit else ~option.devices
                rules.update(option.source.rules)
        for rule in rules:
            groups = model.rules[rule].groups
            beside = groups.beside[position]
            # A device without a value is in no group, and open to no option that the rule binds.
            same &= beside or ~groups.members
            if groups.overlapping:
                same = bits.from_positions(
                    other for other in bits.each(same) if groups.beside[other] == beside
                )
        return self.supply.alike(position, same, now.in_flight) if same else 0

    def key(self, now: SearchState) -> object:
        """Return what it depends on whether the demands can be served: the same for claims that have changed places."""
        union = 0
        parts: list[tuple[tuple[tuple[int, int, _Shape], ...], ...]] = []
        for cluster in self.clusters:
            part = []
            for number in cluster:
                # Who has all it wants leaves nothing behind, whichever of those in its cluster it was.
                if demand := now.demands_left[number]:
                    part.append(tuple([(item.devices, item.missing, item.source.shape) for item in demand]))
                    for item in demand:
                        union |= item.devices
                        if now.open:
                            # What they can still take does not tell which groups are still open.
                            part.append(
                                tuple([(now.open[rule], 0, item.source.shape) for rule in item.source.rules])
                            )
            if part:
                parts.append(tuple(part))
        parts.sort()
        shares = tuple(
            (position, tuple(sorted(amounts.items())))
            for position, amounts in sorted(now.in_flight.items())
            if union >> position & 1
        )
        return (tuple(parts), now.left if union & self.model.counted else (), shares)

    def _admitted(self, rule: int, position: int, before: tuple[int, ...]) -> int:
        groups = self.model.rules[rule].groups
        beside = groups.beside[position]
        if not self.model.rules[rule].matching:
            return ~beside
        return groups.common(before[rule] & beside) if groups.overlapping else beside


def union_of(demand: DemandLeft) -> int:
    """Return the devices of all options."""
    union = 0
    for option in demand:
        union |= option.devices
    return union


def least_of(demand: DemandLeft) -> int:
    """Return the number of devices that a want takes at least."""
    return min([option.missing for option in demand]) if demand else 0


def _clusters(model: SearchModel) -> tuple[tuple[int, ...], ...]:
    """Return the requests in groups, of which none shares a rule with another."""
    cluster_of = list(range(len(model.demands)))
    seen: dict[int, int] = {}
    for number, demand in enumerate(model.demands):
        for rule in {rule for choice in demand for rule in choice.constraints}:
            other, mine = cluster_of[seen.setdefault(rule, number)], cluster_of[number]
            cluster_of = [other if item == mine else item for item in cluster_of]
    clusters: dict[int, list[int]] = {}
    for number, cluster in enumerate(cluster_of):
        clusters.setdefault(cluster, []).append(number)
    return tuple(map(tuple, clusters.values()))


def _narrowed(demand: DemandLeft, bit: int, gone: int, full: int, admitted: Mapping[int, int]) -> DemandLeft:
    """Return the options that a want has left after a pick: not what is gone, nor for some keys the device itself."""
    narrowed: list[Option] = []
    for item in demand:
        devices, bound = item.devices & ~gone, item.source
        if full >> bound.key & 1:
            devices &= ~bit
        if admitted:
            for rule in bound.rules:
                if rule in admitted:
                    devices &= admitted[rule]
        if devices == item.devices:
            narrowed.append(item)
        elif devices.bit_count() >= item.missing:
            narrowed.append(Option(devices, item.missing, bound))
    return tuple(narrowed)
