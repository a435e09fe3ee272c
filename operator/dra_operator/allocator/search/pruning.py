"""Pruning of the exhaustive search: a state from which nothing can be found is left at once.

A state before a request is hopeless if it has failed before (nogood), or if the requests to come cannot have enough
devices of their own with admissible values (`bounds`). Before a request after which an error or one device too many can
end more than one try nothing is pruned, so that the search meets it where upstream does.
Source: docs/engine sections 7 to 9.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.constraints import COUNTED, MATCH
from dra_operator.allocator.decision import FatalError
from dra_operator.allocator.matching.candidates import Answers
from dra_operator.allocator.plan import MAX_DEVICES, Alternative
from dra_operator.allocator.search import bounds
from dra_operator.allocator.search.bounds import Choice, Demand, GroupRule
from dra_operator.allocator.search.state import NodeState
from dra_operator.inventory import PoolView, bits

_MOST_STATES = 50_000
_MOST_MATCHED = 300


@dataclass(frozen=True, slots=True)
class _Rest:
    """A request and all that follow it: what they want, and on which state it depends whether they get it.

    `demands` leaves out requests for admin access; it asks for `least` devices or more. Sets of positions of the node
    view's row: `reached`, which any of the requests can take; `free`, which one without admin access can take; `own`,
    which one of the same claim with admin access can take. `constraints` are those of the claim that apply to any of
    them. `never` says that they cannot all be served even if nothing has been taken.
    """

    claim: int
    demands: tuple[Demand, ...] = ()
    least: int = 0
    reached: int = 0
    free: int = 0
    own: int = 0
    constraints: tuple[int, ...] = ()
    never: bool = False


@dataclass(slots=True)
class Pruner:
    """Prunes one search. `requests[c][r]` is None if something other than success can end the attempt."""

    state: NodeState
    requests: tuple[tuple[_Rest | None, ...], ...]
    _allowed: tuple[int, ...]
    _shareable: int
    _failed: set[object] = field(default_factory=set)

    @classmethod
    def build(cls, state: NodeState, budget: Budget) -> "Pruner":
        """Return the pruner of a search in a node. Raises AbortedError."""
        maker = _Maker(state, budget)
        table = tuple(reversed([maker.claim(number) for number in reversed(range(len(state.plans)))]))
        return cls(state, table, maker.allowed, maker.shareable)

    def are_none(self) -> bool:
        """True if the claims cannot all be served, whatever is taken first."""
        found = next((row[0] for row in self.requests if row), None)
        states = self.state.availability.states
        untouched = self._row([states[pool.serial].free for pool in self.state.view.pools])
        return found is not None and not self._can_be_served(found, untouched)

    def state_at(self, claim: int, request: int) -> object:
        """Return the state that the outcome from a request on depends on; None if it must be tried."""
        found = self.requests[claim][request]
        if found is None:
            return None
        state = self.state
        return (
            claim,
            request,
            self._row(state.picked) & found.free,
            self._row(state.picked_by[claim]) & found.own,
            tuple(state.constraints[claim][number].state for number in found.constraints),
            tuple(self._counters(found.reached)),
            tuple(self._shares(found.reached)),
        )

    def is_hopeless(self, claim: int, request: int, at: object) -> bool:
        """True if nothing can be found from a request on, where the state is `at`."""
        found = self.requests[claim][request]
        return found is not None and (at in self._failed or not self._can_be_served(found, self._available()))

    def lacks_devices(self, claim: int, request: int) -> bool:
        """True if the requests after an unfinished one already lack devices."""
        found = self.requests[claim][request]
        return found is not None and not bounds.have_enough(
            found.demands[1:], self._available(), self._allowed
        )

    def has_failed(self, at: object) -> None:
        """Remember that nothing was found from the state `at` on."""
        if len(self._failed) < _MOST_STATES:
            self._failed.add(at)

    def _can_be_served(self, found: _Rest, available: int) -> bool:
        return (
            not found.never
            and bounds.have_enough(found.demands, available, self._allowed)
            # Matching goes as deep as there are devices to be matched.
            and (
                found.least > _MOST_MATCHED
                or bounds.can_be_apart(found.demands, available, self._allowed, self._shareable)
            )
        )

    def _available(self) -> int:
        """Return the devices that are left to requests without admin access."""
        state = self.state
        pools, states = zip(state.view.pools, state.picked, strict=True), state.availability.states
        return self._row([states[pool.serial].free & ~picked for pool, picked in pools])

    def _row(self, by_pool: Sequence[int]) -> int:
        row = 0
        for start, devices in zip(self.state.view.starts, by_pool, strict=True):
            row |= devices << start
        return row

    def _counters(self, reached: int) -> Iterator[object]:
        view = self.state.view
        for start, pool in view.row:
            if pool.counters is not None and pool.counted & reached >> start:
                yield self.state.counters_at(pool.counters)

    def _shares(self, reached: int) -> Iterator[object]:
        for (pool, position), amounts in self.state.shares():
            if reached >> (self.state.view.starts[pool] + position) & 1:
                yield pool, position, amounts


@dataclass(slots=True)
class _Maker:
    """Expresses requests as sets, the last one first.

    `rules` holds the constraints of all claims, `allowed` the devices that each of them may ever admit.
    """

    state: NodeState
    budget: Budget
    shareable: int = 0
    free: int = 0
    rules: list[GroupRule] = field(default_factory=list)
    allowed: tuple[int, ...] = ()
    _later: _Rest | None = field(default_factory=lambda: _Rest(-1))

    def __post_init__(self) -> None:
        for start, pool in self.state.view.row:
            self.free |= self.state.availability.states[pool.serial].free << start
            if self.state.features.consumable_capacity:
                self.shareable |= pool.shareable << start

    def claim(self, number: int) -> tuple[_Rest | None, ...]:
        """Return the requests of a claim; later claims must have been made before. Raises AbortedError."""
        plan = self.state.plans[number]
        first = len(self.rules)
        for item in plan.constraints:
            groups = self.state.candidates.groups.find(self.state.view, (item.attribute,))
            self.rules.append(GroupRule(item.kind == MATCH, groups))
            self.allowed += (groups.members,)
        most = sum(max(map(self._count, request.alternatives)) for request in plan.requests)
        if most > MAX_DEVICES:
            self._later = None
        made: list[_Rest | None] = []
        together: tuple[Demand, ...] = ()
        for request in reversed(plan.requests):
            if self._later is not None:
                self._later, demand = self._before(number, first, request.alternatives, self._later)
                together = (demand, *together)
                if self._later is not None and not self._can_be_served(together):
                    self._later = replace(self._later, never=True)
            made.insert(0, self._later)
        return tuple(made)

    def _before(
        self, claim: int, first: int, alternatives: Sequence[Alternative], later: _Rest
    ) -> tuple[_Rest | None, Demand]:
        """Return a request with those that follow, and what it asks for with or without admin access.

        None if more than success can end an attempt there.
        """
        demand: list[Choice] = []
        within: list[Choice] = []
        same = later.claim == claim
        reached, free, own = later.reached, later.free, later.own if same else 0
        constraints = set(later.constraints if same else ())
        for alternative in alternatives:
            rows = self._rows(alternative)
            if rows is None:
                return None, ()
            wanted, possible = rows
            if alternative.count is None and (not wanted or wanted != possible):
                # All devices, of which one can never be had, or there is none.
                continue
            choice = Choice(
                possible, self._count(alternative), self._counted(claim, first, alternative, wanted)
            )
            reached |= wanted
            constraints.update(alternative.constraints)
            if alternative.admin_access:
                own |= wanted
                within.append(choice)
                demand.append(Choice(0, 0, ()))
            else:
                free |= wanted
                within.append(replace(choice, mask=possible & self.free))
                demand.append(choice)
        demands = (tuple(demand), *later.demands)
        least = later.least + min((choice.count for choice in demand), default=0)
        made = _Rest(claim, demands, least, reached, free, own, tuple(sorted(constraints)), never=later.never)
        return made, tuple(within)

    def _can_be_served(self, together: Sequence[Demand]) -> bool:
        """False if the requests of one claim cannot all be served; no device is given to a claim twice."""
        self.allowed = bounds.narrow(self.rules, together, -1, self.allowed, shareable=self.shareable)
        return (
            bounds.have_enough(together, -1, self.allowed)
            and bounds.can_be_apart(together, -1, self.allowed, self.shareable)
            and bounds.can_differ(self.rules, together, -1, self.allowed)
        )

    def _counted(self, claim: int, first: int, alternative: Alternative, wanted: int) -> tuple[int, ...]:
        """Return the constraints on an alternative that can be counted with: by their kind, and by published values."""
        constraints = self.state.plans[claim].constraints
        return tuple(
            first + number
            for number in alternative.constraints
            if constraints[number].kind in COUNTED
            and constraints[number].attribute not in alternative.derived
            and not self.rules[first + number].groups.odd & wanted
        )

    def _count(self, alternative: Alternative) -> int:
        if alternative.count is not None:
            return alternative.count
        return sum(self._ask(alternative, pool).selectable.bit_count() for pool in self.state.view.pools)

    def _ask(self, alternative: Alternative, pool: PoolView) -> Answers:
        return self.state.candidates.ask(alternative.key, pool, self.budget)

    def _rows(self, alternative: Alternative) -> tuple[int, int] | None:
        """Return the devices that an alternative asks for, and those it can have as far as each can be judged alone.

        None if more than success can end an attempt there.
        """
        state = self.state
        every = alternative.count is None
        if (every and alternative.constraints) or self._count(alternative) < 0:
            return None
        wanted = possible = 0
        for start, pool in state.view.row:
            answers = self._ask(alternative, pool)
            open_to_it = -1 if alternative.admin_access else state.availability.states[pool.serial].free
            if answers.errors & open_to_it:
                return None
            devices = answers.mask
            for offset, slice_ in pool.placed:
                if not state.is_prepared(slice_):
                    devices &= ~(slice_.every << offset)
            if alternative.derived and not self._can_derive(alternative, pool, devices & open_to_it):
                return None
            wanted |= (answers.selectable if every else devices) << start
            possible |= devices << start
        return wanted, possible

    def _can_derive(self, alternative: Alternative, pool: PoolView, devices: int) -> bool:
        """True if the derived attributes that constraints ask for can be computed for all these devices."""
        try:
            for position in bits.each(devices):
                for attribute in alternative.derived:
                    self.state.value(alternative, attribute, *pool.locate(position))
        except FatalError:
            return False
        return True
