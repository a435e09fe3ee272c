"""Backtracking with forward checking: for any claims that have a model, depth first over ints.

It goes through requests, alternatives and devices in upstream's order, so it meets the same solution first; the state
is passed by value. What it skips cannot hold a solution (`bounds`). What it has not decided after some tries goes to
the search that begins with the hardest request, or to the exhaustive one if shares pay counters.
Source: docs/engine sections 6 to 9.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.plan import MAX_DEVICES, ClaimPlan
from dra_operator.allocator.search import bounds
from dra_operator.allocator.search.bounds import Choice
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.hardest import DevicePick, HardestFirst
from dra_operator.allocator.search.model import InFlight, Left, SearchModel, set_up_first, set_up_to_search
from dra_operator.allocator.search.result_types import UNDECIDED, Answer, Solution, Undecided
from dra_operator.inventory import NodeView, PoolView

_TRIES_BEFORE_HARDEST = 32
_MOST_LEVELS = 300
_MOST_DEVICES = 1024
_TRIES_ON_LARGE = 1000
"""On a model with more than `_MOST_DEVICES`, beginning with the hardest takes longer than so many tries in order. A
device that does not fit what is left of counters counts as a try as well.
"""

_Path = tuple[int, int, int, "_Path"] | tuple[()]
"""The picks of a solution: (request, alternative, position, the rest)."""


@dataclass(frozen=True, slots=True)
class BacktrackingSearch:
    """The backtracking search, in any node."""

    eligibility: Eligibility

    def search(self, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget) -> Answer:
        """Return the devices for some countable claims, None if they do not fit, or UNDECIDED. Raises AbortedError."""
        if view.has_large_pool:
            first = set_up_first(self.eligibility, plans, view, budget)
            if first is not None and (path := _Search(first, budget, beginning=True).begin()) is not None:
                return _found(plans, first, path)
        model = set_up_to_search(self.eligibility, plans, view, budget)
        if model is UNDECIDED or model is None:
            return model
        solved = _Search(model, budget).solve()
        return solved if solved is None or solved is UNDECIDED else _found(plans, model, solved)


def is_countable(plans: Sequence[ClaimPlan]) -> bool:
    """True if the backtracking search can be asked: all claims are countable, and it does not recurse too deeply.

    Only the first claim may ask for admin access. A later one could take devices that earlier claims of the attempt
    have taken, and one set of available devices cannot express that.
    """
    levels = 0
    for plan in plans:
        if not plan.countable or (levels and plan.evaluates_used and _asks_for_admin_access(plan)):
            return False
        for request in plan.requests:
            levels += 1 + max(item.count or MAX_DEVICES for item in request.alternatives)
    return levels <= _MOST_LEVELS


def _asks_for_admin_access(plan: ClaimPlan) -> bool:
    return any(item.admin_access for request in plan.requests for item in request.alternatives)


def _found(plans: Sequence[ClaimPlan], model: SearchModel, path: _Path) -> Solution:
    chosen = [request.alternatives[0] for request in model.requests]
    picks: list[list[tuple[PoolView, int]]] = [[] for _ in chosen]
    pools, starts = model.view.pools, model.view.starts
    while path:
        number, place, position, path = path
        if place:
            chosen[number] = model.requests[number].alternatives[place]
        pool = bisect_right(starts, position) - 1
        picks[number].append((pools[pool], position - starts[pool]))
    served = zip(chosen, picks, strict=True)
    return [list(islice(served, len(plan.requests))) for plan in plans]


class _HardError(Exception):
    """Another search has to decide."""


def _path(picks: Sequence[DevicePick] | None) -> _Path | None:
    if picks is None:
        return None
    path: _Path = ()
    for request, place, bit in reversed(picks):
        path = (request, place, bit.bit_length() - 1, path)
    return path


@dataclass(slots=True)
class _Search:
    """One search. `_tries` counts the picks that led to no solution.

    `beginning` says that the model has only the first devices: what fails there may succeed with the others.
    """

    model: SearchModel
    budget: Budget
    beginning: bool = False
    _tries: int = 0

    def solve(self) -> _Path | Undecided | None:
        """Return the first solution, None if there is none, or UNDECIDED."""
        model = self.model
        allowed = tuple([rule.groups.open for rule in model.rules])
        if model.rules:
            allowed = bounds.narrow(
                model.rules, model.demands, model.available, allowed, shareable=model.shareable
            )
        if not bounds.have_enough(model.demands, model.available, allowed):
            return None
        try:
            return self._request(0, model.available, allowed, model.left, {})
        except _HardError:
            if model.shareable & model.counted:
                return UNDECIDED
            return _path(HardestFirst(model, self.budget, 0 if self._is_large else self._tries).solve())

    @property
    def _is_large(self) -> bool:
        return self.model.available.bit_count() > _MOST_DEVICES

    def begin(self) -> _Path | None:
        """Return the first solution if no pick has to be taken back to find it, or None.

        Each pick is the lowest possible after those before it, so devices that are not on the model cannot come first.
        """
        model = self.model
        allowed = tuple([rule.groups.open for rule in model.rules])
        try:
            return self._request(0, model.available, allowed, model.left, {})
        except _HardError:
            return None

    def _request(
        self, number: int, available: int, allowed: tuple[int, ...], left: Left, in_flight: InFlight
    ) -> _Path | None:
        """Return the picks for this request and all that follow."""
        demands = self.model.demands
        if number == len(demands):
            return ()
        for place, choice in enumerate(demands[number]):
            found = self._pick(number, place, choice, choice.count, -1, available, allowed, left, in_flight)
            if found is not None:
                return found
        return None

    def _pick(  # noqa: PLR0917 - the state is passed by value, and a record of it would be built for every pick
        self,
        number: int,
        place: int,
        choice: Choice,
        missing: int,
        above: int,
        available: int,
        allowed: tuple[int, ...],
        left: Left,
        in_flight: InFlight,
    ) -> _Path | None:
        """Return the picks for the rest of a choice, from the devices in `above`, and for the requests that follow."""
        model = self.model
        wanted = bounds.candidates(choice, available & above, allowed)
        later = model.demands[number + 1 :]
        if missing > 1 and not self._tries and not choice.constraints:
            found = self._pick_lowest(number, place, missing, wanted, available, allowed, left, in_flight)
            if found is not None:
                return found
        while wanted.bit_count() >= missing:
            bit = wanted & -wanted
            wanted ^= bit
            position = bit.bit_length() - 1
            self.budget.step()
            next_available, next_left, next_in_flight = available, left, in_flight
            next_allowed = self._admit(choice, position, allowed) if choice.constraints else allowed
            fits = True
            if model.shareable & bit:
                key = model.requests[number].alternatives[place].key
                share = model.share(key, position, in_flight)
                fits, next_in_flight = share is not None, share or {}
            else:
                next_available ^= bit
            if model.counted & bit and position not in in_flight:
                charged = model.charge(position, left)
                fits, next_left = charged is not None, charged or ()
            if fits and bounds.have_enough(later, next_available, next_allowed):
                found = (
                    self._request(number + 1, next_available, next_allowed, next_left, next_in_flight)
                    if missing == 1
                    else self._pick(
                        number,
                        place,
                        choice,
                        missing - 1,
                        -(bit << 1),
                        next_available,
                        next_allowed,
                        next_left,
                        next_in_flight,
                    )
                )
                if found is not None:
                    return (number, place, position, found)
            if not self.beginning:
                self._count_try()
            elif fits:
                raise _HardError
        return None

    def _pick_lowest(  # noqa: PLR0917 - as above
        self,
        number: int,
        place: int,
        missing: int,
        wanted: int,
        available: int,
        allowed: tuple[int, ...],
        left: Left,
        in_flight: InFlight,
    ) -> _Path | None:
        """Return the lowest wanted devices, picked all at once, and what follows; None if one depends on another.

        Nothing has failed so far, and mostly nothing does. If something does, they are picked again, one by one.
        """
        model = self.model
        if wanted & (model.shareable | model.counted) or wanted.bit_count() < missing:
            return None
        positions: list[int] = []
        for _ in range(missing):
            bit = wanted & -wanted
            wanted ^= bit
            available ^= bit
            positions.append(bit.bit_length() - 1)
        found: _Path | None = None
        if bounds.have_enough(model.demands[number + 1 :], available, allowed):
            found = self._request(number + 1, available, allowed, left, in_flight)
        if found is None:
            self._count_try()
            return None
        for position in reversed(positions):
            found = (number, place, position, found)
        return found

    def _admit(self, choice: Choice, position: int, allowed: tuple[int, ...]) -> tuple[int, ...]:
        """Return what the constraints admit beside a device."""
        admitted = list(allowed)
        for number in choice.constraints:
            rule = self.model.rules[number]
            beside = rule.groups.beside[position]
            admitted[number] &= beside if rule.matching else ~beside
            if rule.matching and rule.groups.overlapping:
                admitted[number] = rule.groups.common(admitted[number])
        return tuple(admitted)

    def _count_try(self) -> None:
        self._tries += 1
        if self._tries >= (_TRIES_ON_LARGE if self._is_large else _TRIES_BEFORE_HARDEST):
            raise _HardError
        self.budget.check_tries(self._tries)
