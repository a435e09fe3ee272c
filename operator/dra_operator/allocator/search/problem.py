"""Problems: what claims ask of a node, as ints: which devices each alternative may take, groups, counters and shares.

Who counts devices needs to know beforehand which ones the exhaustive search would accept, each judged by itself.
Nothing can be counted if that search could meet an error, or a rule that cannot be put in these terms.
Source: docs/engine sections 6 and 9; docs/dra-semantics 3.4, 3.5 and 4.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.constraints import MATCH
from dra_operator.allocator.matching.candidates import CandidateKey, Candidates
from dra_operator.allocator.matching.capacity import Consumption, has_room
from dra_operator.allocator.matching.derived import derived_groups
from dra_operator.allocator.matching.groups import Groups
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, ClaimPlan, RequestPlan
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.inventory import NodeView, PoolView, Verdict, bits
from dra_operator.ledger import Availability

RequestPicks: TypeAlias = tuple[Alternative, Sequence[tuple[PoolView, int]]]
"""A request that is served: the chosen alternative, and its devices in order, by pool and position."""
Solution: TypeAlias = Sequence[Sequence[RequestPicks]]
"""By claim, its requests in order."""


class Undecided(Enum):
    """Counting cannot tell; the exhaustive search has to."""

    UNDECIDED = "undecided"


UNDECIDED: Literal[Undecided.UNDECIDED] = Undecided.UNDECIDED

Answer: TypeAlias = Solution | Literal[Undecided.UNDECIDED] | None
"""Devices, a proven no, or neither."""
Picks: TypeAlias = Sequence[tuple[int, int]]
"""By request, the place of the chosen alternative, and its devices as a set of positions."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Judges devices by what is committed."""

    availability: Availability
    candidates: Candidates

    def candidates_of(self, asked: Alternative, pool: PoolView, budget: Budget) -> int | Undecided:
        """Return the devices that the key admits and whose use permits it, or UNDECIDED if only another can tell.

        It has to if a device that it would look at is an error, and if what devices draw on counters depends on more
        than what is left and who has paid. Raises AbortedError.
        """
        usable = -1 if asked.admin_access else self.availability.states[pool.serial].free
        if not usable:
            return 0
        ask = asked.key.ask
        answers = ask.answers.get(pool.serial)
        if answers is None or usable & answers.unknown:
            answers = self.candidates.find(ask, pool, budget, usable)
        if answers.errors & usable:
            return UNDECIDED
        usable &= answers.selectable
        if not usable:
            return 0
        fit, impossible = self.candidates.fit(asked.key, pool, usable)
        if impossible:
            return UNDECIDED
        wanted = answers.mask & fit
        if wanted & pool.counted:
            layout = pool.counters
            if layout is None or not layout.is_plain:
                return UNDECIDED
        return wanted

    def judge(self, key: CandidateKey, pool: PoolView, wanted: int) -> int:
        """Return which of the candidates have room and counters that fit, each judged by itself."""
        if drawing := wanted & pool.counted:
            wanted ^= drawing ^ self._affordable(pool, drawing)
        if asked := wanted & self.availability.states[pool.serial].charged:
            wanted ^= asked ^ self._with_room(key, pool, asked)
        return wanted

    def may_end_in_an_error(self, row: int, view: NodeView) -> bool:
        """True if a constraint could be asked about a value of any of these devices that it cannot compare.

        That is an error where the rules say so (`unknown_values_fail`).
        """
        if not self.candidates.features.list_type_attributes:
            return True
        return any(pool.unreadable & row >> start for start, pool in view.row)

    def paid(self, pool: PoolView, devices: int) -> int:
        """Return which of the devices have shares: the first share of each has paid its counters."""
        found = 0
        if shared := self._paying(pool):
            for offset, slice_ in pool.placed:
                for index in bits.each(devices >> offset & slice_.counted & slice_.shareable):
                    if slice_.names[index] in shared:
                        found |= 1 << offset + index
        return found

    def _paying(self, pool: PoolView) -> Collection[str]:
        """Return the names of devices with shares; none if the feature is off, whatever claims say."""
        return (
            self.availability.ledger.shared(pool.key) if self.candidates.features.consumable_capacity else ()
        )

    def _affordable(self, pool: PoolView, asked: int) -> int:
        """Return which of the devices have counters that fit or are paid."""
        layout = pool.counters
        assert layout is not None
        counters = self.availability.counters(layout)
        affordable = self.paid(pool, asked) if asked & pool.shareable else 0
        if counters.overdrawn:
            return affordable
        left = counters.left
        for offset, slice_ in pool.placed:
            for index in bits.each((asked & ~affordable) >> offset & slice_.counted):
                if all(left[place] >= amount for place, amount in layout.draw(slice_, index).amounts):
                    affordable |= 1 << offset + index
        return affordable & asked

    def _with_room(self, key: CandidateKey, pool: PoolView, asked: int) -> int:
        """Return which of the shared devices have room."""
        shared = self.availability.ledger.shared(pool.key)
        found = 0
        for offset, slice_ in pool.placed:
            here = asked >> offset & slice_.every
            if not here:
                continue
            each = self.candidates.consumed_each(key, slice_)
            for index in bits.each(here):
                consumed = each[index]
                assert isinstance(consumed, Consumption)
                shares = shared.get(slice_.names[index])
                if shares is None or has_room(consumed, shares.amounts, {}):
                    found |= 1 << offset + index
        return found


Left = tuple[tuple[int, ...], ...]
"""What is left of each pool's counters, in nano-units."""
CounterAt = tuple[int, int]
"""A counter: the number of its pool, and its position there."""
InFlight = dict[int, dict[str, int]]
"""What shares picked in this attempt consume, by position and capacity name, in nano-units; never changed in place."""
Rows = dict[tuple[int, bool], int]
"""The devices that can be had, by serial number of the key, and whether for admin access."""
_NO_AMOUNTS: Mapping[str, int] = {}


@fast_dataclass
class Choice:
    """An alternative: `count` devices out of `mask`, bound by the constraints with these numbers."""

    mask: int
    count: int
    constraints: tuple[int, ...]


Demand = tuple[Choice, ...]
"""A request: one of the choices."""


@fast_dataclass
class GroupRule:
    """A constraint of a kind in `COUNTED`, over groups of devices with equal values."""

    kind: str
    groups: Groups

    @property
    def matching(self) -> bool:
        """True if all devices are to be of one group."""
        return self.kind == MATCH


@dataclass(slots=True)
class Problem:
    """`demands[i]` is what `requests[i]` asks for. Sets of positions: `available`, `shareable`, `counted`.

    `counted` devices draw on counters when they are taken; not if somebody has a share of the device, which has paid.
    """

    eligibility: Eligibility
    view: NodeView
    requests: tuple[RequestPlan, ...]
    demands: tuple[Demand, ...]
    rules: tuple[GroupRule, ...]
    available: int
    shareable: int
    counted: int
    left: Left
    _amounts: dict[tuple[int, int], Mapping[str, int]] = field(default_factory=dict)
    _room: dict[int, Mapping[str, int]] = field(default_factory=dict)
    _draws: dict[int, Mapping[CounterAt, int]] = field(default_factory=dict)

    def draws(self, position: int) -> Mapping[CounterAt, int]:
        """Return how much a device that draws on counters takes of which."""
        found = self._draws.get(position)
        if found is None:
            number = self.view.number_of(position)
            pool = self.view.pools[number]
            slice_, index = pool.locate(position - self.view.starts[number])
            assert pool.counters is not None
            drawn: dict[CounterAt, int] = {}
            for place, amount in pool.counters.draw(slice_, index).amounts:
                if amount:
                    drawn[number, place] = drawn.get((number, place), 0) + amount
            found = self._draws[position] = drawn
        return found

    def charge(self, position: int, left: Left) -> Left | None:
        """Return what a device that draws on counters leaves of them, or None if they do not fit."""
        after = [list(counters) for counters in left]
        for (number, place), amount in self.draws(position).items():
            if after[number][place] < amount:
                return None
            after[number][place] -= amount
        return tuple(map(tuple, after))

    def amounts(self, key: CandidateKey, position: int) -> Mapping[str, int]:
        """Return what a share of a device takes of each capacity, in nano-units; nothing if it is unfit for the key."""
        found = self._amounts.get((key.serial, position))
        if found is None:
            consumed = self._consumed(key, position)
            found = (
                _NO_AMOUNTS if consumed is None else {name: amount for name, amount, _ in consumed.amounts}
            )
            self._amounts[key.serial, position] = found
        return found

    def room(self, position: int, in_flight: InFlight) -> Mapping[str, int]:
        """Return what committed shares and those in flight leave of a device's capacities, in nano-units."""
        room = self._room.get(position)
        if room is None:
            room = self._room[position] = self._find_room(position)
        flying = in_flight.get(position)
        return {name: amount - flying.get(name, 0) for name, amount in room.items()} if flying else room

    def has_room(self, key: CandidateKey, position: int, in_flight: InFlight) -> bool:
        """True if a device has room for one more share."""
        room = self.room(position, in_flight)
        return all(amount <= room[name] for name, amount in self.amounts(key, position).items())

    def share(self, key: CandidateKey, position: int, in_flight: InFlight) -> InFlight:
        """Return what is in flight with one more share of a device."""
        after = dict(in_flight.get(position, _NO_AMOUNTS))
        for name, amount in self.amounts(key, position).items():
            after[name] = after.get(name, 0) + amount
        return {**in_flight, position: after}

    def _consumed(self, key: CandidateKey, position: int) -> Consumption | None:
        pool, place = self.view.locate(position)
        consumed = self.eligibility.candidates.consumed(key, *pool.locate(place))
        return consumed if isinstance(consumed, Consumption) else None

    def _find_room(self, position: int) -> Mapping[str, int]:
        pool, place = self.view.locate(position)
        slice_, index = pool.locate(place)
        used = self.eligibility.availability.ledger.consumed(pool.key, slice_.names[index])
        # What a device has of a capacity does not depend on the key; the keys that it is unfit for do not say.
        for request in self.requests:
            for item in request.alternatives:
                if (consumed := self._consumed(item.key, position)) is not None:
                    return {name: value - used.get(name, 0) for name, _, value in consumed.amounts}
        return _NO_AMOUNTS


def find_rows(
    eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget, *, give_up: bool
) -> Rows | Undecided | None:
    """Return the devices that each alternative of some countable claims can have on a view, each judged by itself.

    UNDECIDED if only the exhaustive search can tell. With `give_up`, None if there are too few devices for a request,
    whatever the others take: the exhaustive search never gets to the requests after that one, nor to their errors. This
    does not hold if it looks at all requests first, or at what earlier ones derive. Raises AbortedError.
    """
    if not view.countable:
        return UNDECIDED
    rows: Rows = {}
    values_fail = eligibility.candidates.features.rules.unknown_values_fail
    for plan in plans:
        for request in plan.requests:
            enough = not give_up
            for item in request.alternatives:
                asked = (item.key.serial, item.admin_access)
                if asked not in rows:
                    row = _row(eligibility, item, view, budget)
                    if row is UNDECIDED:
                        return UNDECIDED
                    rows[asked] = row
                if values_fail and item.constraints and eligibility.may_end_in_an_error(rows[asked], view):
                    return UNDECIDED
                enough = enough or rows[asked].bit_count() >= (item.count or 0)
            if not enough:
                return None
    return rows


def build(
    eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget, rows: Rows
) -> Problem | Undecided:
    """Return the problem with these rows, or UNDECIDED if there is none. Raises AbortedError."""
    rules: list[GroupRule] = []
    demands: list[Demand] = []
    for plan in plans:
        first = len(rules)
        most = 0
        for number, constraint in enumerate(plan.constraints):
            groups = _groups(eligibility, plan, number, rows, view, budget)
            if groups is UNDECIDED:
                return UNDECIDED
            rules.append(GroupRule(constraint.kind, groups))
        for request in plan.requests:
            demand: Demand = ()
            for item in request.alternatives:
                mask = rows[item.key.serial, item.admin_access]
                numbers = tuple([first + number for number in item.constraints])
                count = item.count or _number_of_all(eligibility, item.key, view, budget)
                if count is UNDECIDED or any(rules[number].groups.odd & mask for number in numbers):
                    return UNDECIDED
                demand += (Choice(mask, count, numbers),)
            demands.append(demand)
            most += max([choice.count for choice in demand])
        if most > MAX_DEVICES:
            return UNDECIDED
    return _problem(eligibility, plans, view, rows, tuple(demands), tuple(rules))


def _problem(  # noqa: PLR0917 - one caller, and the state of it
    eligibility: Eligibility,
    plans: Sequence[ClaimPlan],
    view: NodeView,
    rows: Rows,
    demands: tuple[Demand, ...],
    rules: tuple[GroupRule, ...],
) -> Problem:
    reached = 0
    for row in rows.values():
        reached |= row
    shareable = counted = 0
    for start, pool in view.row:
        shareable |= pool.shareable << start
        counted |= pool.counted << start
        if pool.counted & pool.shareable:
            counted &= ~(eligibility.paid(pool, reached >> start) << start)
    if not eligibility.candidates.features.consumable_capacity:
        shareable = 0
    left: Left = ()
    if counted & reached:
        availability = eligibility.availability
        layouts = [pool.counters for pool in view.pools]
        left = tuple([() if item is None else tuple(availability.counters(item).left) for item in layouts])
    return Problem(
        eligibility,
        view,
        tuple([request for plan in plans for request in plan.requests]),
        demands,
        rules,
        reached,
        shareable & reached,
        counted & reached,
        left,
    )


def _groups(  # noqa: PLR0917 - one caller, and the state of it
    eligibility: Eligibility,
    plan: ClaimPlan,
    number: int,
    rows: Rows,
    view: NodeView,
    budget: Budget,
) -> Groups | Undecided:
    """Return the groups of a view by the attribute of a constraint, as the requests that it applies to see it."""
    candidates = eligibility.candidates
    attribute = plan.constraints[number].attribute
    takers: dict[str | None, int] = {}
    for request in plan.requests if plan.derives else ():
        for item in request.alternatives:
            if number in item.constraints:
                expression = item.derived.get(attribute)
                row = rows[item.key.serial, item.admin_access]
                takers[expression] = takers.get(expression, 0) | row
    published = candidates.groups.find(view, attribute) if None in takers or not takers else None
    if published is not None and takers.keys() <= {None}:
        return published
    found = derived_groups(view, takers, published, candidates.derived, budget, features=candidates.features)
    return UNDECIDED if found is None else found


def _row(eligibility: Eligibility, asked: Alternative, view: NodeView, budget: Budget) -> int | Undecided:
    row = 0
    key = asked.key
    for start, pool in view.row:
        if pool.driver in key.ask.refused:
            continue
        wanted = eligibility.candidates_of(asked, pool, budget)
        if wanted is UNDECIDED:
            return UNDECIDED
        if wanted:
            row |= eligibility.judge(key, pool, wanted) << start
    return row


def _number_of_all(
    eligibility: Eligibility, key: CandidateKey, view: NodeView, budget: Budget
) -> int | Undecided:
    """Return the number of devices that a request for all devices is for, in use or not; if there are none, one.

    UNDECIDED if upstream would end the attempt before it searches: by a pool that is not complete, or a device with an
    error.
    """
    number = 0
    for pool in view.pools:
        answers = eligibility.candidates.ask(key, pool, budget)
        if pool.verdict is not Verdict.COMPLETE or answers.errors:
            return UNDECIDED
        number += answers.selectable.bit_count()
    return max(number, 1)
