"""The search in one node: a check, then a search by counting, or one device at a time where counting cannot tell.

The check is the first picks in order: each is the lowest device that leaves the later requests devices enough, so if
none is a dead end, upstream finds the same; most searches need no more. All searches give the same answer.
Source: docs/engine sections 6, 8 and 9.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import islice
from typing import Self

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.plan import MAX_DEVICES, ClaimPlan, RequestPlan
from dra_operator.allocator.search.domains import (
    Domain,
    SearchState,
    equals,
    first_state,
    has_places,
    narrow_groups,
    pick,
    state_key,
)
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch, NodeState
from dra_operator.allocator.search.problem import (
    UNDECIDED,
    Answer,
    Eligibility,
    Picks,
    Problem,
    Rows,
    Solution,
    build,
    find_rows,
)
from dra_operator.inventory import NodeView, PoolView, bits
from dra_operator.ledger import Availability

# --- The search that begins with the hardest request (smallest domain first), for what the check of a node leaves
# open.
# It finds some solution or proves that there is none, and from it the first one in order: with all earlier picks
# fixed, it tries the devices below the next pick of the solution at hand. Two kinds of picks need no try, as an
# equivalent one has failed: interchangeable devices (symmetry), and states that failed before (nogoods). Source:
# docs/engine sections 7 and 8; Haralick and Elliott, Increasing tree search efficiency (1980).


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


# --- The searches, one after the other.


_MOST_LEVELS = 300


def is_countable(plans: Sequence[ClaimPlan]) -> bool:
    """True if some claims can be expressed as a problem, and a search for them does not recurse too deeply.

    Only the first claim may ask for admin access. A later one could take devices that earlier claims of the attempt
    have taken, and one set of available devices cannot express that.
    """
    levels = 0
    for plan in plans:
        if not plan.countable or (levels and plan.evaluates_used and _asks_for_admin_access(plan)):
            return False
        for request in plan.requests:
            levels += 1 + max([item.count or MAX_DEVICES for item in request.alternatives])
    return levels <= _MOST_LEVELS


def lowest_devices(plans: Sequence[ClaimPlan], rows: Rows, view: NodeView) -> Picks | None:
    """Return the lowest devices of each request, where requests depend on each other in nothing else; or None.

    None also if there are too few devices beside those of earlier requests.
    """
    alone = len(plans) == 1 and len(plans[0].requests) == 1
    taken, found = 0, []
    for plan in plans:
        for request in plan.requests:
            chosen = _first_alternative(request, rows, taken)
            if chosen is None or (chosen[0] and not alone):
                return None
            place, count, free = chosen
            devices = _lowest(free, count)
            if not (alone and count == 1) and _is_special(devices, view):
                return None
            taken |= devices
            found.append((place, devices))
    return found


def _first_alternative(request: RequestPlan, rows: Rows, taken: int) -> tuple[int, int, int] | None:
    """Return the place of the first alternative with devices enough, their number, and the devices; or None."""
    for place, item in enumerate(request.alternatives):
        if item.constraints or item.count is None:
            return None
        free = rows[item.key.serial, item.admin_access] & ~taken
        if free.bit_count() >= item.count:
            return place, item.count, free
    return None


def first_fit(problem: Problem, now: SearchState, budget: Budget) -> Picks | None:
    """Return the first picks in order, or None if one of them leads to a dead end. Raises AbortedError."""
    found = []
    for request in range(len(now.demands)):
        # Those before it have too few devices left, whatever is picked of them.
        domain = now.demands[request][0]
        picked = 0
        while now.demands[request]:
            domain = now.demands[request][0]
            devices = domain.devices
            after = None
            while after is None and devices.bit_count() >= domain.missing:
                bit = devices & -devices
                budget.step()
                after = pick(problem, now, request, domain._replace(devices=devices), bit)
                devices ^= bit
            if after is None:
                return None
            now = after
            picked |= bit
        found.append((domain.place, picked))
    return found


def solution_of(plans: Sequence[ClaimPlan], view: NodeView, picks: Picks) -> Solution:
    """Return what claims get by the picks of their requests."""
    served = zip([request for plan in plans for request in plan.requests], picks, strict=True)
    each = [(request.alternatives[place], _located(view, devices)) for request, (place, devices) in served]
    in_order = iter(each)
    return [list(islice(in_order, len(plan.requests))) for plan in plans]


def _located(view: NodeView, devices: int) -> Sequence[tuple[PoolView, int]]:
    pools, starts = view.pools, view.starts
    found: list[tuple[PoolView, int]] = []
    for position in bits.each(devices):
        number = bisect_right(starts, position) - 1
        found.append((pools[number], position - starts[number]))
    return found


def _lowest(devices: int, count: int) -> int:
    found = 0
    for _ in range(count):
        bit = devices & -devices
        devices ^= bit
        found |= bit
    return found


def _is_special(devices: int, view: NodeView) -> bool:
    """True if any of the devices is shareable or draws on counters."""
    for start, pool in view.row:  # noqa: SIM110 - asked for each claim, and a generator takes longer
        if (pool.shareable | pool.counted) & devices >> start:
            return True
    return False


def _asks_for_admin_access(plan: ClaimPlan) -> bool:
    return any(item.admin_access for request in plan.requests for item in request.alternatives)


class SearchMode(Enum):
    """How devices are searched for: one at a time in upstream's order, or by counting where the answer is the same."""

    PLAIN = "plain"
    COUNTING = "counting"


def count(eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget) -> Answer:
    """Return what some countable claims get on a node by counting, None if they do not fit, or UNDECIDED.

    Raises AbortedError.
    """
    # Otherwise errors of any request come before the search.
    in_order = not any(plan.evaluates_used or plan.derives for plan in plans)
    rows = find_rows(eligibility, plans, view, budget, give_up=in_order)
    if rows is UNDECIDED or rows is None:
        return rows
    picks = lowest_devices(plans, rows, view) if in_order else None
    if picks is None:
        problem = build(eligibility, plans, view, budget, rows)
        if problem is UNDECIDED:
            return UNDECIDED
        now = first_state(problem)
        if now is not None and problem.rules:
            now = narrow_groups(problem, now)
        if now is None:
            return None
        picks = first_fit(problem, now, budget)
        if picks is None:
            picks = HardestFirst(problem, budget).solve(now)
        if picks is None:
            return None
    return solution_of(plans, view, picks)


@dataclass(frozen=True, slots=True)
class SearchChain:
    """The searches in a node: by counting, with `eligibility`, and always the exhaustive one."""

    availability: Availability
    candidates: Candidates
    eligibility: Eligibility | None = None

    @classmethod
    def counting(cls, availability: Availability, candidates: Candidates) -> Self:
        """Return all searches."""
        return cls(availability, candidates, Eligibility(availability, candidates))

    def that_can_serve(self, plans: Sequence[ClaimPlan]) -> Self:
        """Return the searches that can be asked about some claims."""
        return self if self.eligibility is None or is_countable(plans) else replace(self, eligibility=None)

    def search(
        self, plans: Sequence[ClaimPlan], node: str, view: NodeView, budget: Budget
    ) -> Solution | None:
        """Return what some claims get on a node, or None; `view` is what the node sees.

        Raises FatalError and AbortedError.
        """
        if self.eligibility is not None:
            answer = count(self.eligibility, plans, view, budget)
            if answer is not UNDECIDED:
                return answer
        state = NodeState(
            plans=plans,
            node=self.availability.views.inventory.nodes[node],
            view=view,
            availability=self.availability,
            candidates=self.candidates,
            derived=partial(self.candidates.derived.value, budget=budget),
        )
        plain = ExhaustiveSearch(state, budget)
        return plain.found() if plain.run() else None
