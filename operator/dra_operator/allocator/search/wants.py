"""Wants: what requests still want, as ints, and how a device picked for one narrows the others.

A search that may pick in any order needs to see what a pick leaves for everybody else. So each alternative carries the
devices that it can still take: those that are left, that its constraints still admit, that have room for its amounts,
and whose counters fit. A pick narrows all of them at once, and an alternative with too few devices left is dropped.
Source: docs/engine sections 6 and 7.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from dra_operator.allocator.search.board import Board, InFlight, Left
from dra_operator.allocator.search.stock import Stock
from dra_operator.inventory import bits

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


Want = tuple[Option, ...]
"""What a request still wants: one of the options, or nothing more if there are none."""


class Situation(NamedTuple):
    """Wants by request, what is left of counters, and what shares picked so far consume.

    `open` is what each rule admits with the marks of its groups, or nothing where no group that has to match overlaps.
    """

    wants: tuple[Want, ...]
    left: Left
    in_flight: InFlight
    open: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Wants:
    """How the wants on a board narrow. `clusters` are the requests that rules bind together."""

    board: Board
    stock: Stock
    clusters: tuple[tuple[int, ...], ...]

    @classmethod
    def on(cls, board: Board, stock: Stock) -> "Wants":
        """Return the wants on a board."""
        return cls(board, stock, _clusters(board))

    def first(self) -> Situation | None:
        """Return the situation before any pick, or None if a request cannot be served at all."""
        board = self.board
        wants: list[Want] = [()] * len(board.demands)
        for cluster in self.clusters:
            # Rules are numbered within their cluster, so that clusters of equal claims look alike.
            local: dict[int, int] = {}
            for number in cluster:
                options: list[Option] = []
                for place, choice in enumerate(board.demands[number]):
                    devices = choice.mask & board.available
                    bound: list[tuple[int, int, bool]] = []
                    for rule in choice.constraints:
                        groups = board.rules[rule].groups
                        devices &= groups.members
                        bound.append(
                            (local.setdefault(rule, len(local)), id(groups), board.rules[rule].matching)
                        )
                    key = self.stock.number_of(board.requests[number].alternatives[place].key)
                    shape = (key if devices & board.shareable else -1, tuple(bound))
                    if devices.bit_count() >= choice.count:
                        source = Source(number, place, choice.constraints, key, shape)
                        options.append(Option(devices, choice.count, source))
                wants[number] = tuple(options)
        overlapping = any(rule.matching and rule.groups.overlapping for rule in board.rules)
        admitted = tuple([rule.groups.open for rule in board.rules]) if overlapping else ()
        return Situation(tuple(wants), board.left, {}, admitted) if all(wants) else None

    def pick(self, now: Situation, option: Option, bit: int) -> Situation | int:
        """Return the situation after a device is picked for an option, or a request that cannot be served any more."""
        source, position = option.source, bit.bit_length() - 1
        left, in_flight = now.left, now.in_flight
        gone = full = 0
        if self.board.shareable & bit:
            in_flight, full = self.stock.share(source.key, position, in_flight)
        else:
            gone = bit
        if self.board.counted & bit:
            charged = self.board.charge(position, left)
            # Earlier picks have left no device that does not fit.
            assert charged is not None
            left = charged
            gone |= self.stock.unfit(position, left)
        admitted = {rule: self._admitted(rule, position, now.open) for rule in source.rules}
        wants = list(now.wants)
        for number, want in enumerate(now.wants):
            if not want:
                continue
            if number == source.request:
                if option.missing == 1:
                    wants[number] = ()
                    continue
                want = (Option(option.devices & ~bit, option.missing - 1, source),)  # noqa: PLW2901
            wants[number] = _narrowed(want, bit, gone, full, admitted)
            if not wants[number]:
                return number
        still = now.open
        if still:
            rules = self.board.rules
            still = tuple(
                [
                    admitted.get(rule, before) if rules[rule].matching else before
                    for rule, before in enumerate(still)
                ]
            )
        return Situation(tuple(wants), left, in_flight, still)

    def equals(self, now: Situation, bit: int, among: int) -> int:
        """Return those of other devices that everybody left could have in the place of this one, and it in theirs.

        They are open to the same options, in the same groups, draw on the same counters and have the same room.
        """
        board = self.board
        same = among & (board.shareable if board.shareable & bit else ~board.shareable)
        same &= board.counted if board.counted & bit else ~board.counted
        position = bit.bit_length() - 1
        rules: set[int] = set()
        for want in now.wants:
            for option in want:
                same &= option.devices if option.devices & bit else ~option.devices
                rules.update(option.source.rules)
        for rule in rules:
            groups = board.rules[rule].groups
            beside = groups.beside[position]
            # A device without a value is in no group, and open to no option that the rule binds.
            same &= beside or ~groups.members
            if groups.overlapping:
                same = bits.from_positions(
                    other for other in bits.each(same) if groups.beside[other] == beside
                )
        return self.stock.alike(position, same, now.in_flight) if same else 0

    def key(self, now: Situation) -> object:
        """Return what it depends on whether the wants can be served: the same for claims that have changed places."""
        union = 0
        parts: list[tuple[tuple[tuple[int, int, _Shape], ...], ...]] = []
        for cluster in self.clusters:
            part = []
            for number in cluster:
                # Who has all it wants leaves nothing behind, whichever of those in its cluster it was.
                if want := now.wants[number]:
                    part.append(tuple([(item.devices, item.missing, item.source.shape) for item in want]))
                    for item in want:
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
        return (tuple(parts), now.left if union & self.board.counted else (), shares)

    def _admitted(self, rule: int, position: int, before: tuple[int, ...]) -> int:
        groups = self.board.rules[rule].groups
        beside = groups.beside[position]
        if not self.board.rules[rule].matching:
            return ~beside
        return groups.common(before[rule] & beside) if groups.overlapping else beside


def union_of(want: Want) -> int:
    """Return the devices of all options."""
    union = 0
    for option in want:
        union |= option.devices
    return union


def least_of(want: Want) -> int:
    """Return the number of devices that a want takes at least."""
    return min([option.missing for option in want]) if want else 0


def _clusters(board: Board) -> tuple[tuple[int, ...], ...]:
    """Return the requests in groups, of which none shares a rule with another."""
    cluster_of = list(range(len(board.demands)))
    seen: dict[int, int] = {}
    for number, demand in enumerate(board.demands):
        for rule in {rule for choice in demand for rule in choice.constraints}:
            other, mine = cluster_of[seen.setdefault(rule, number)], cluster_of[number]
            cluster_of = [other if item == mine else item for item in cluster_of]
    clusters: dict[int, list[int]] = {}
    for number, cluster in enumerate(cluster_of):
        clusters.setdefault(cluster, []).append(number)
    return tuple(map(tuple, clusters.values()))


def _narrowed(want: Want, bit: int, gone: int, full: int, admitted: Mapping[int, int]) -> Want:
    """Return the options that a want has left after a pick: not what is gone, nor for some keys the device itself."""
    narrowed: list[Option] = []
    for item in want:
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
