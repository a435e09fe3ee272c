"""Outlook: bounds that tell, by counting, whether what is still wanted can be had at all.

The bounds of `bounds` look at the devices that are left and at what constraints admit. Wants (`wants`) also take into
account the room for shares and the counters that are left. So these bounds see more, and cost more.

- Narrowing: a matching rule keeps only groups that have room and places for all wants bound to it.
- Places: each want gets devices of its own; a shared device serves as many as it has room for (`guests`). Found by
  augmenting paths.
- Sums: there is enough capacity (`sums`), and of devices that draw on counters enough fit together (`packing`).
- Groups: matching rules on the same attribute need whole groups of their own.
- Values: distinct rules need different values.

Source: docs/engine section 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.search.board import Board, InFlight
from dra_operator.allocator.search.bounds import GroupRule, first_without_place, have_values, have_whole
from dra_operator.allocator.search.guests import Guests
from dra_operator.allocator.search.packing import Packing
from dra_operator.allocator.search.stock import Stock
from dra_operator.allocator.search.sums import Sums
from dra_operator.allocator.search.wants import Option, Situation, Want, least_of, union_of

_STATES_A_LOOK = 12


_Bound = tuple[int, int, bool]
"""An option as a rule sees it: so many out of some devices, and whether the rule binds it."""


@dataclass(slots=True)
class Outlook:
    """The bounds for one board. `blame` counts, by request, how often it could not be served."""

    board: Board
    stock: Stock
    blame: list[int] = field(init=False)
    _looked: int = 0
    _sums: Sums = field(init=False)
    _guests: Guests = field(init=False)
    _packing: Packing = field(init=False)
    _bound: list[list[int]] = field(init=False)
    _answers: dict[object, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blame = [0] * len(self.board.demands)
        self._sums = Sums(self.stock)
        self._guests = Guests(self.stock)
        self._packing = Packing(self.stock)
        self._bound = [
            [
                number
                for number, demand in enumerate(self.board.demands)
                if any(rule in choice.constraints for choice in demand)
            ]
            for rule in range(len(self.board.rules))
        ]

    @property
    def looked(self) -> int:
        """What the bounds have cost: the number of wants looked at; a state of a packing costs a fraction of one."""
        return self._looked + self._packing.states // _STATES_A_LOOK

    def narrowed(self, now: Situation) -> Situation | None:
        """Return the situation without groups that cannot serve all wants bound to a rule; None if it is hopeless."""
        wants = list(now.wants)
        for number, rule in enumerate(self.board.rules):
            if not rule.matching:
                continue
            live = [
                request
                for request in self._bound[number]
                if any(number in option.source.rules for option in wants[request])
            ]
            if not live:
                continue
            bound = [wants[request] for request in live]
            groups = self._groups_with_room(number, rule, bound, now.open)
            kept = self._with_places(number, groups, bound, now.in_flight)
            for request in live:
                narrowed = tuple(_within(wants[request], number, kept))
                if not narrowed:
                    self.blame[request] += 1
                    return None
                wants[request] = narrowed
        return now._replace(wants=tuple(wants))

    def is_hopeless(self, now: Situation) -> bool:
        """True if a bound says that the wants cannot all be served."""
        wants = now.wants
        guests = self._guests.most(wants, now.in_flight)
        self._looked += sum(map(len, wants))
        if (without := _without_place(wants, guests)) is not None:
            self.blame[without] += 1
            return True
        return not (
            self._packing.suffices(wants, now.left, guests)
            and self._sums.shares_suffice(wants, now.in_flight)
            and (not self.board.rules or (self._fit_in_groups(wants) and self._can_differ(wants)))
        )

    def _groups_with_room(
        self, number: int, rule: GroupRule, wants: Sequence[Want], admitted: Sequence[int]
    ) -> Sequence[int]:
        bound = [
            [(item.devices, item.missing, number in item.source.rules) for item in want] for want in wants
        ]
        # Overlapping groups have marks that say which are open. Of other groups, the picks leave only devices of one.
        marks = admitted[number] >> rule.groups.size if rule.groups.overlapping else -1
        return [
            group
            for place, group in enumerate(rule.groups.groups)
            if marks >> place & 1 and _has_room(group, bound)
        ]

    def _with_places(
        self, number: int, kept: Sequence[int], wants: Sequence[Want], in_flight: InFlight
    ) -> int:
        """Return the devices of those kept groups in which the wants bound to a rule have places."""
        reached = 0
        for want in wants:
            for option in want:
                if number in option.source.rules:
                    reached |= option.devices
        found = 0
        for group in kept:
            if group & reached:
                within = [tuple(_within(want, number, group)) for want in wants]
                if self._have_places_within(group, within, in_flight):
                    found |= group
        return found

    def _have_places_within(self, group: int, wants: Sequence[Want], in_flight: InFlight) -> bool:
        key = (
            group,
            tuple(
                [tuple([(item.devices, item.missing, item.source.key) for item in want]) for want in wants]
            ),
            tuple([(position, tuple(amounts.items())) for position, amounts in in_flight.items()]),
        )
        answer = self._answers.get(key)
        if answer is None:
            self._looked += sum(map(len, wants))
            without = _without_place(wants, self._guests.most(wants, in_flight))
            answer = self._answers[key] = without is None
        return answer

    def _fit_in_groups(self, wants: Sequence[Want]) -> bool:
        """False if matching rules on one attribute need more whole groups than there are."""
        families: dict[tuple[int, ...], list[tuple[int, int]]] = {}
        counted: set[int] = set()
        for number, rule in enumerate(self.board.rules):
            if rule.matching:
                total = union = 0
                for request in self._bound[number]:
                    devices = union_of(wants[request])
                    if request not in counted and _binds(
                        wants[request], number, devices & self.board.shareable
                    ):
                        counted.add(request)
                        total += least_of(wants[request])
                        union |= devices
                if total:
                    families.setdefault(rule.groups.groups, []).append((total, union))
        return all(len(family) < 2 or have_whole(groups, family) for groups, family in families.items())

    def _can_differ(self, wants: Sequence[Want]) -> bool:
        """False if, for a distinct rule, the devices still wanted cannot all be given different values."""
        for number, rule in enumerate(self.board.rules):
            if rule.matching:
                continue
            bound = [wants[request] for request in self._bound[number] if _binds(wants[request], number, 0)]
            lots = [(union_of(want), least_of(want)) for want in bound]
            if sum([count for _, count in lots]) < 2:
                continue
            if not have_values(rule.groups.groups, lots):
                self.blame[self._bound[number][0]] += 1
                return False
        return True


def _without_place(wants: Sequence[Want], guests: Mapping[int, int]) -> int | None:
    """Return the index of a want that cannot be given devices beside the others, or None if all can."""
    return first_without_place([(union_of(want), least_of(want)) for want in wants], guests)


def _has_room(group: int, wants: Sequence[Sequence[_Bound]]) -> bool:
    for want in wants:
        for devices, missing, bound in want:
            if (devices & group if bound else devices).bit_count() >= missing:
                break
        else:
            return False
    return True


def _within(want: Want, rule: int, kept: int) -> list[Option]:
    """Return the options with only those devices that the rule keeps, if they are enough."""
    options: list[Option] = []
    for option in want:
        if rule not in option.source.rules or not option.devices & ~kept:
            options.append(option)
        elif (option.devices & kept).bit_count() >= option.missing:
            options.append(option._replace(devices=option.devices & kept))
    return options


def _binds(want: Want, rule: int, shared: int) -> bool:
    """True if something is wanted, the rule binds each option of it, and none of it is `shared`."""
    return bool(want) and not shared and all(rule in option.source.rules for option in want)
