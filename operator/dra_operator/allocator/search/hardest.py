"""The search that begins with the hardest request (smallest domain first), for what the check of a node leaves open.

It finds some solution or proves that there is none, and from it the first one in order: with all earlier picks fixed,
it tries the devices below the next pick of the solution at hand. Two kinds of picks need no try, as an equivalent one
has failed: interchangeable devices (symmetry), and states that failed before (nogoods).
Source: docs/engine sections 7 and 8; Haralick and Elliott, Increasing tree search efficiency (1980).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.search.domains import (
    Domain,
    SearchState,
    equals,
    has_places,
    narrow_groups,
    pick,
    state_key,
)
from dra_operator.allocator.search.problem import Picks, Problem

_Solution = dict[int, tuple[int, int]]
"""By request that wants something, the place of an alternative and devices for it."""


@dataclass(slots=True)
class HardestFirst:
    """One search. `tries` counts the picks that led to no solution."""

    problem: Problem
    budget: Budget
    tries: int = 0
    _failed: set[object] = field(default_factory=set)

    def solve(self, now: SearchState) -> Picks | None:
        """Return the first solution in order, or None. Raises AbortedError."""
        solution = self._search(now)
        if solution is None:
            return None
        picks = []
        for request in range(len(now.demands)):
            now, solution = self._settle_alternative(now, request, solution)
            place, picked = now.demands[request][0].place, 0
            while now.demands[request]:
                now, solution, bit = self._settle_device(now, request, solution)
                picked |= bit
            picks.append((place, picked))
        return picks

    def _search(self, now: SearchState) -> _Solution | None:
        """Return devices that serve all demands, or None if there are none."""
        narrowed = narrow_groups(self.problem, now) if self.problem.rules else now
        if narrowed is None:
            return None
        now = narrowed
        request = _hardest(now)
        if request is None:
            return {}
        key = state_key(self.problem, now)
        if key in self._failed:
            return None
        if has_places(self.problem, now.demands):
            for domain in now.demands[request]:
                for bit, after in self._picks(now, request, domain):
                    rest = self._search(after)
                    if rest is not None:
                        place, devices = rest.get(request, (domain.place, 0))
                        rest[request] = place, devices | bit
                        return rest
                    self._count_try()
        self._failed.add(key)
        return None

    def _picks(self, now: SearchState, request: int, domain: Domain) -> Iterator[tuple[int, SearchState]]:
        """Yield the devices that a domain can begin with, in order, each with the state after it.

        Whoever asks for another one has found that the last led to nothing, and so would its equals.
        """
        devices = domain.devices
        while devices.bit_count() >= domain.missing:
            bit = devices & -devices
            self.budget.step()
            after = pick(self.problem, now, request, domain._replace(devices=devices), bit)
            if after is None:
                self._count_try()
            else:
                yield bit, after
            devices ^= bit
            devices &= ~equals(self.problem, now, bit, devices)

    def _count_try(self) -> None:
        self.tries += 1
        self.budget.check_tries(self.tries)

    def _settle_alternative(
        self, now: SearchState, request: int, solution: _Solution
    ) -> tuple[SearchState, _Solution]:
        """Return the state with the first alternative of a request that has a solution, and that solution."""
        for domain in now.demands[request]:
            demands = (*now.demands[:request], (domain,), *now.demands[request + 1 :])
            only = now._replace(demands=demands)
            if domain.place == solution[request][0]:
                return only, solution
            if (other := self._search(only)) is not None:
                return only, other
        raise AssertionError("a solution takes one of the alternatives")

    def _settle_device(
        self, now: SearchState, request: int, solution: _Solution
    ) -> tuple[SearchState, _Solution, int]:
        """Return what is left after the first device that a request can take, a solution of it, and the device."""
        (domain,) = now.demands[request]
        place, devices = solution[request]
        lowest = devices & -devices
        for bit, after in self._picks(now, request, domain):
            rest = solution | {request: (place, devices ^ bit)} if bit == lowest else self._search(after)
            if rest is not None:
                return after, rest, bit
        raise AssertionError("a solution takes one of the devices")


def _hardest(now: SearchState) -> int | None:
    """Return the request with the least choice, or None if nothing is wanted."""
    hardest, least = None, 0
    for request, demand in enumerate(now.demands):
        if demand:
            choice = sum([domain.devices.bit_count() - domain.missing + 1 for domain in demand])
            if hardest is None or choice < least:
                hardest, least = request, choice
    return hardest
