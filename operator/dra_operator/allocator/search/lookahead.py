"""Lookahead: relaxations that tell whether what is still wanted can be had at all.

They see the room for shares and the counters that are left, and so more than `bounds`: shares by how many of them a
device has room for (once for each request) and by what they fill at least, counters as a packing (dynamic programming
with a knapsack bound), places by augmenting paths, and groups and values of constraints.
Source: docs/engine section 7; Martello and Toth, Knapsack problems (1990), chapter 6.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import le, mul, sub

from dra_operator.allocator.search.bounds import (
    GroupRule,
    first_without_place,
    has_enough_devices,
    have_values,
    have_whole,
)
from dra_operator.allocator.search.model import InFlight, Left, SearchModel
from dra_operator.allocator.search.remaining import (
    CounterAt,
    DemandLeft,
    Option,
    RemainingSupply,
    SearchState,
    least_of,
    union_of,
)
from dra_operator.inventory import bits

_Keys = tuple[int, ...]
_Lot = tuple[_Keys, int]
"""Wants that are alike: the keys by which each could have the device, and how many there are."""
_Class = tuple[int, tuple[_Lot, ...]]
"""Devices that are open to the same demands."""
_NO_AMOUNTS: Mapping[str, int] = {}


@dataclass(slots=True)
class ShareLimits:
    """How many of some demands the devices have room for on one model, with what was computed for it."""

    supply: RemainingSupply
    _kinds: dict[int, int] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)
    _known: dict[object, int] = field(default_factory=dict)

    def most(self, demands_left: Sequence[DemandLeft], in_flight: InFlight) -> dict[int, int]:
        """Return, by shareable device as a bit, how many of the demands it can have at most."""
        found: dict[int, int] = {}
        for devices, lots in self._classes(demands_left):
            for position in bits.each(devices):
                flying = in_flight.get(position, _NO_AMOUNTS)
                key = (self._kind(position), lots, tuple(flying.items()))
                most = self._known.get(key)
                if most is None:
                    most = self._known[key] = self._find(position, lots, in_flight)
                found[1 << position] = most
        return found

    def _classes(self, demands_left: Sequence[DemandLeft]) -> list[_Class]:
        shareable = self.supply.model.shareable
        alike: dict[tuple[tuple[int, int], ...], int] = {}
        union = 0
        for demand in demands_left:
            if reached := union_of(demand) & shareable:
                union |= reached
                item = tuple([(option.devices & shareable, option.source.key) for option in demand])
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
            same = self.supply.kind(position, {})
            kind = self._kinds[position] = self._numbers.setdefault(same, len(self._numbers))
        return kind

    def _find(self, position: int, lots: Sequence[_Lot], in_flight: InFlight) -> int:
        most = sum([times for _, times in lots])
        for name, left in self.supply.room(position, in_flight).items():
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
        return min([self.supply.amounts(key, position).get(name, 0) for key in keys])


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
    """The packings on one model. `states` counts what was looked at, for those who pay for it."""

    supply: RemainingSupply
    states: int = 0
    _parts: tuple[_Rivals, ...] = field(init=False)
    _rows: dict[object, _Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._parts = tuple(_parts(self.supply))

    def suffices(
        self, demands_left: Sequence[DemandLeft], left: Left, share_limits: Mapping[int, int]
    ) -> bool:
        """False if there are demands for more devices than fit; `share_limits` says how many a shareable one serves."""
        if not self._parts:
            return True
        lots: dict[int, tuple[int, int]] = {}
        total = 0
        for demand in demands_left:
            if demand:
                union = union_of(demand)
                number, count = lots.get(union, (0, 0))
                lots[union] = number + 1, count + least_of(demand)
                total |= union
        for among in {*lots, total}:
            within = [lot for union, lot in lots.items() if not union & ~among]
            number = sum([number for number, _ in within])
            if not self._have(sum([count for _, count in within]), number, among, left, share_limits):
                return False
        return True

    def _have(
        self, needed: int, number: int, among: int, left: Left, share_limits: Mapping[int, int]
    ) -> bool:
        """True if so many demands can have all they need out of some devices."""
        most = among.bit_count()
        for bit, served in share_limits.items():
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


def _parts(supply: RemainingSupply) -> list[_Rivals]:
    joined: list[tuple[int, set[CounterAt]]] = []
    for position, draw in supply.draws.items():
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
            1 << position: tuple([supply.draws[position].get(place, 0) for place in order])
            for position in bits.each(members)
        }
        parts.append(_Rivals(members, order, draws))
    return parts


ALL = 1 << 40
"""The room of a device, in the units of these bounds."""
_MOST_NAMES = 3

_Measured = tuple[int, ...]
_Lots = tuple[tuple[int, int, int], ...]
"""What a want can be: so many of some devices, by a key."""


@dataclass(slots=True)
class ShareSums:
    """The bounds by adding up, for one model, with what was computed for it."""

    supply: RemainingSupply
    _kinds: dict[object, int] = field(default_factory=dict)
    _numbers: dict[tuple[_Measured, ...], int] = field(default_factory=dict)
    _rows: list[tuple[_Measured, ...]] = field(default_factory=list)
    _names: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        shareable = self.supply.model.shareable
        names = {name for position in bits.each(shareable) for name in self.supply.room(position, {})}
        self._names = sorted(names)[:_MOST_NAMES]

    def shares_suffice(self, demands_left: Sequence[DemandLeft], in_flight: InFlight) -> bool:
        """False if what the demands fill at least is more than the devices there are."""
        shareable = self.supply.model.shareable
        union = 0
        lots: dict[_Lots, int] = {}
        for demand in demands_left:
            if demand:
                union |= union_of(demand)
                lot = tuple([(item.devices, item.missing, item.source.key) for item in demand])
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
        """Return what demands, one of some lots each and so many of them, fill at least of a capacity."""
        rows, shareable = self._rows, self.supply.model.shareable
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
        supply = self.supply
        room = supply.room(position, in_flight)
        return tuple(
            tuple(filled_part(amounts.get(name, 0), room.get(name, 0)) for name in self._names)
            for amounts in [supply.amounts(key, position) for key in supply.keys]
        )


def filled_part(amount: int, room: int) -> int:
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


_STATES_A_LOOK = 12


@dataclass(slots=True)
class Lookahead:
    """The bounds for one model. `blame` counts, by request, how often it could not be served."""

    model: SearchModel
    supply: RemainingSupply
    blame: list[int] = field(init=False)
    _looked: int = 0
    _sums: ShareSums = field(init=False)
    _share_limits: ShareLimits = field(init=False)
    _packing: Packing = field(init=False)
    _bound: list[list[int]] = field(init=False)
    _answers: dict[object, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blame = [0] * len(self.model.demands)
        self._sums = ShareSums(self.supply)
        self._share_limits = ShareLimits(self.supply)
        self._packing = Packing(self.supply)
        self._bound = [
            [
                number
                for number, demand in enumerate(self.model.demands)
                if any(rule in choice.constraints for choice in demand)
            ]
            for rule in range(len(self.model.rules))
        ]

    @property
    def looked(self) -> int:
        """What the bounds have cost: the number of demands looked at; a state of a packing costs a fraction of one."""
        return self._looked + self._packing.states // _STATES_A_LOOK

    def narrowed(self, now: SearchState) -> SearchState | None:
        """Return the state without groups that cannot serve all demands bound to a rule; None if it is hopeless."""
        demands_left = list(now.demands_left)
        for number, rule in enumerate(self.model.rules):
            if not rule.matching:
                continue
            live = [
                request
                for request in self._bound[number]
                if any(number in option.source.rules for option in demands_left[request])
            ]
            if not live:
                continue
            bound = [demands_left[request] for request in live]
            groups = self._groups_with_room(number, rule, bound, now.open)
            kept = self._with_places(number, groups, bound, now.in_flight)
            for request in live:
                narrowed = tuple(_within(demands_left[request], number, kept))
                if not narrowed:
                    self.blame[request] += 1
                    return None
                demands_left[request] = narrowed
        return now._replace(demands_left=tuple(demands_left))

    def is_hopeless(self, now: SearchState) -> bool:
        """True if a bound says that the demands cannot all be served."""
        demands_left = now.demands_left
        share_limits = self._share_limits.most(demands_left, now.in_flight)
        self._looked += sum(map(len, demands_left))
        if (without := _without_place(demands_left, share_limits)) is not None:
            self.blame[without] += 1
            return True
        return not (
            self._packing.suffices(demands_left, now.left, share_limits)
            and self._sums.shares_suffice(demands_left, now.in_flight)
            and (
                not self.model.rules or (self._fit_in_groups(demands_left) and self._can_differ(demands_left))
            )
        )

    def _groups_with_room(
        self, number: int, rule: GroupRule, demands_left: Sequence[DemandLeft], admitted: Sequence[int]
    ) -> Sequence[int]:
        # An option that the rule does not bind has devices enough, whatever the group.
        needs = [
            [(item.devices, item.missing) for item in demand]
            for demand in demands_left
            if _binds(demand, number, 0)
        ]
        # Overlapping groups have marks that say which are open. Of other groups, the picks leave only devices of one.
        marks = admitted[number] >> rule.groups.size if rule.groups.overlapping else -1
        return [
            group
            for place, group in enumerate(rule.groups.groups)
            if marks >> place & 1 and has_enough_devices(group, needs)
        ]

    def _with_places(
        self, number: int, kept: Sequence[int], demands_left: Sequence[DemandLeft], in_flight: InFlight
    ) -> int:
        """Return the devices of those kept groups in which the demands bound to a rule have places."""
        reached = 0
        for demand in demands_left:
            for option in demand:
                if number in option.source.rules:
                    reached |= option.devices
        found = 0
        for group in kept:
            if group & reached:
                within = [tuple(_within(demand, number, group)) for demand in demands_left]
                if self._have_places_within(group, within, in_flight):
                    found |= group
        return found

    def _have_places_within(
        self, group: int, demands_left: Sequence[DemandLeft], in_flight: InFlight
    ) -> bool:
        key = (
            group,
            tuple(
                [
                    tuple([(item.devices, item.missing, item.source.key) for item in demand])
                    for demand in demands_left
                ]
            ),
            tuple([(position, tuple(amounts.items())) for position, amounts in in_flight.items()]),
        )
        answer = self._answers.get(key)
        if answer is None:
            self._looked += sum(map(len, demands_left))
            without = _without_place(demands_left, self._share_limits.most(demands_left, in_flight))
            answer = self._answers[key] = without is None
        return answer

    def _fit_in_groups(self, demands_left: Sequence[DemandLeft]) -> bool:
        """False if matching rules on one attribute need more whole groups than there are."""
        families: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        counted: set[int] = set()
        for number, rule in enumerate(self.model.rules):
            if rule.matching:
                total = union = 0
                for request in self._bound[number]:
                    devices = union_of(demands_left[request])
                    if request not in counted and _binds(
                        demands_left[request], number, devices & self.model.shareable
                    ):
                        counted.add(request)
                        total += least_of(demands_left[request])
                        union |= devices
                if total:
                    families.setdefault(rule.groups.groups, []).append((total, union))
        return all(len(family) < 2 or have_whole(groups, family) for groups, family in families.items())

    def _can_differ(self, demands_left: Sequence[DemandLeft]) -> bool:
        """False if, for a distinct rule, the devices still wanted cannot all be given different values."""
        for number, rule in enumerate(self.model.rules):
            if rule.matching:
                continue
            bound = [
                demands_left[request]
                for request in self._bound[number]
                if _binds(demands_left[request], number, 0)
            ]
            lots = [(union_of(demand), least_of(demand)) for demand in bound]
            if sum([count for _, count in lots]) < 2:
                continue
            if not have_values(rule.groups.groups, lots):
                self.blame[self._bound[number][0]] += 1
                return False
        return True


def _without_place(demands_left: Sequence[DemandLeft], share_limits: Mapping[int, int]) -> int | None:
    """Return the index of a want that cannot be given devices beside the others, or None if all can."""
    return first_without_place(
        [(union_of(demand), least_of(demand)) for demand in demands_left], share_limits
    )


def _within(demand: DemandLeft, rule: int, kept: int) -> list[Option]:
    """Return the options with only those devices that the rule keeps, if they are enough."""
    options: list[Option] = []
    for option in demand:
        if rule not in option.source.rules or not option.devices & ~kept:
            options.append(option)
        elif (option.devices & kept).bit_count() >= option.missing:
            options.append(option._replace(devices=option.devices & kept))
    return options


def _binds(demand: DemandLeft, rule: int, shared: int) -> bool:
    """True if something is wanted, the rule binds each option of it, and none of it is `shared`."""
    return bool(demand) and not shared and all(rule in option.source.rules for option in demand)
