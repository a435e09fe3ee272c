"""Contention: what requests that each fit alone take from each other.

Two requests may fit alone on nodes of their own, or on the same node, where the one takes what the other needs:
devices, counters that both draw on, capacity of devices that they share. The first node by name on which each fits
alone is looked at, and what there is of it is told beside what they take at least. Where no sum says so, or only the
plain search can tell, what they could both take is told (`overlap`).
Source: docs/engine sections 7 and 9.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.explanation.overlap import tell_overlap
from dra_operator.allocator.explanation.phrases import devices, names_of
from dra_operator.allocator.explanation.reduced import only, stuck_requests, with_alternative
from dra_operator.allocator.explanation.values_left import able_choices, reached_by, tell_values
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, ClaimPlan, RequestPlan
from dra_operator.allocator.search.backtracking import BacktrackingSearch, is_countable
from dra_operator.allocator.search.bounds import Choice
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.model import SearchModel, set_up
from dra_operator.allocator.search.remaining import RemainingSupply
from dra_operator.allocator.search.result_types import UNDECIDED, Undecided
from dra_operator.api.quantity import format_beside
from dra_operator.inventory import NodeView, PoolView, bits

_MAX_SEARCHED = 128
"""On how many nodes it is asked, at the most, whether each request fits alone."""

_Ask = Callable[[Alternative, PoolView, Budget], int | Undecided]
"""Tells which devices of a pool an alternative can have."""


class _Sum(NamedTuple):
    """What there is of a counter or a capacity, or else of devices, and what requests take of it at least and at most.

    Amounts are in nano-units.
    """

    have: int
    least: int
    most: int
    of: str = ""

    def tell(self, node: str, requests: str, left: str) -> str:
        """Return a clause that sets the one against the other."""
        at_least = "" if self.least == self.most else "at least "
        if self.of:
            have, wanted = format_beside(self.have, self.least)
            there = f"{have} of {self.of}"
        else:
            there, wanted = devices(self.have), str(self.least)
        return f"{node} has {there}{left} for {requests}, which want {at_least}{wanted}"


@dataclass(frozen=True, slots=True)
class Contention:
    """Tells what requests take from each other, by what is committed."""

    eligibility: Eligibility

    def tell(self, plan: ClaimPlan, whole: ClaimPlan, nodes: Mapping[str, str], budget: Budget) -> str:
        """Return a clause on why requests do not fit together, each of which fits alone; no constraint binds them.

        They are some of `whole`, or all: a node on which each of those fits alone is what the claim comes closest to.
        `nodes` has the first node on which each fits alone, by request. The clause is empty where there is none that is
        plain, or where the time is used up: without it there is enough to tell.
        """
        try:
            return self._tell(plan, whole, nodes, budget)
        except AbortedError:
            return ""

    def tell_constraint(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        """Return a clause on why requests do not fit together with a constraint, the only one that binds them.

        Each fits alone with it, and all of them without it. The clause is empty where `tell` would be.
        """
        try:
            return self._tell_constraint(plan, number, budget) if is_countable([plan]) else ""
        except AbortedError:
            return ""

    def _tell(self, plan: ClaimPlan, whole: ClaimPlan, nodes: Mapping[str, str], budget: Budget) -> str:
        found = self._find_node(whole, budget) if is_countable([whole]) else UNDECIDED
        if found is None and whole is not plan:
            found = self._find_node(plan, budget)
        if found is None:
            names = names_of(plan.requests)
            if self._is_apart(plan, budget):
                return f"{names} have no node in common even if no device were in use"
            return f"no node has enough left for each of {names}"
        if found is UNDECIDED:
            first, *others = {nodes[request.name] for request in plan.requests}
            if others:
                return ""
            found = first, self.eligibility.availability.views.of_node(first)
        node, view = found
        fits = self._search(plan, view, budget) if is_countable([plan]) else None
        if fits:
            # Only the constraints of the claim, which do not bind the plan, keep them apart there.
            return ""
        stuck = plan
        if fits is False:
            stuck = only(plan, stuck_requests(plan, partial(self._maybe, node, view, budget)))
            board = set_up(self.eligibility, [stuck], view, budget)
            if board is not UNDECIDED and (told := _tell_board(board, stuck, node)):
                return told
        if (least := self._least(stuck, view, budget)) > MAX_DEVICES:
            names = names_of(stuck.requests)
            return f"on {node}, {names} want at least {least} devices, and a claim can have {MAX_DEVICES}"
        overlap = tell_overlap(self.eligibility, stuck, node, budget)
        return f"on {node}, {overlap}" if overlap else ""

    def _tell_constraint(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        found = self._find_node(plan, budget)
        if found is None:
            return f"with it, no node has enough left for each of {names_of(plan.requests)}"
        if found is UNDECIDED:
            return ""
        node, view = found
        board = set_up(self.eligibility, [plan], view, budget)
        if board is UNDECIDED:
            return ""
        text = tell_values(board, plan, number)
        return f"{node} has {text}" if text else ""

    def _find_node(self, plan: ClaimPlan, budget: Budget) -> tuple[str, NodeView] | Undecided | None:
        """Return the first node on which each request fits alone, None if there is none, or that it is unsure."""
        alone = [only(plan, [request]) for request in plan.requests]
        searched, unsure = 0, False
        for node, view in self._views():
            # Whatever counters and shares say.
            if not _has_enough(self.eligibility.candidates_of, plan, view, budget):
                continue
            searched += 1
            if searched > _MAX_SEARCHED:
                return UNDECIDED
            answers = [self._search(each, view, budget) for each in alone]
            if all(answers):
                return node, view
            unsure = unsure or False not in answers
        return UNDECIDED if unsure else None

    def _is_apart(self, plan: ClaimPlan, budget: Budget) -> bool:
        """True if no node has devices for each request, whoever uses them: then waiting does not help."""
        return not any(_has_enough(self.eligibility.admits, plan, view, budget) for _, view in self._views())

    def _views(self) -> Iterator[tuple[str, NodeView]]:
        """Yield what usable nodes see, each view once, behind the first node by name that has it."""
        views = self.eligibility.availability.views
        wanted = views.usable
        while wanted:
            position = bits.lowest(wanted)
            node = views.order[position]
            view = views.of_node(node)
            yield node, view
            wanted &= ~(view.nodes | 1 << position)

    def _search(self, plan: ClaimPlan, view: NodeView, budget: Budget) -> bool | None:
        """Return whether a plan fits on a node; None if only the plain search can tell."""
        answer = BacktrackingSearch(self.eligibility).search([plan], view, budget)
        return None if answer is UNDECIDED else answer is not None

    def _least(self, plan: ClaimPlan, view: NodeView, budget: Budget) -> int:
        """Return how many devices requests take at least, by the alternatives that may fit alone on a node."""
        least = 0
        for request in plan.requests:
            alone = only(plan, [request])
            counts = [
                1 if item.count is None else item.count
                for item in request.alternatives
                if self._search(with_alternative(alone, request, item), view, budget) is not False
            ]
            least += min(counts, default=0)
        return least

    def _maybe(self, node: str, view: NodeView, budget: Budget, plan: ClaimPlan) -> str | None:
        return None if self._search(plan, view, budget) is False else node


def _has_enough(ask: _Ask, plan: ClaimPlan, view: NodeView, budget: Budget) -> bool:
    """False if the pools of a node have too few of the devices asked about for a request; true where that is unsure."""
    return not view.countable or all(_is_enough(ask, request, view, budget) for request in plan.requests)


def _is_enough(ask: _Ask, request: RequestPlan, view: NodeView, budget: Budget) -> bool:
    for item in request.alternatives:
        number = 0
        for pool in view.pools:
            found = ask(item, pool, budget)
            if found is UNDECIDED:
                return True
            number += found.bit_count()
        if number >= (item.count or 1):
            return True
    return False


def _tell_board(board: SearchModel, plan: ClaimPlan, node: str) -> str:
    """Return what the requests of a plan take from each other on a node, none of which can be left out; or nothing."""
    names = names_of(plan.requests)
    items = [item for request in plan.requests for item in request.alternatives]
    left = "" if any(item.admin_access for item in items) else " left"
    for item in _sums(board):
        if item.least > item.have:
            return item.tell(node, names, left)
    # There are devices enough where nobody can choose among alternatives; what else they take is the cause.
    if any(request.prioritized for request in plan.requests):
        return ""
    if board.counted and not board.shareable and _draw_on_one_counter(board):
        return f"on {node}, {names} draw on the same counters"
    if board.counted and not board.shareable and _want_one_device(board):
        # If no counter were in the way, the number of devices would be.
        return f"on {node}, {names} want the same devices, and the other devices draw on the same counters"
    if board.shareable == board.available and _want_one_device(board):
        others = "" if _can_pay_all(board) else ", and the other devices draw on the same counters"
        return f"on {node}, {names} need capacity of the same devices{others}"
    return ""


def _sums(board: SearchModel) -> Iterator[_Sum]:
    """Yield what there is on a board and what its requests take of it."""
    able = [able_choices(demand) for demand in board.demands]
    demands = [tuple([demand[at] for at in those]) for demand, those in zip(board.demands, able, strict=True)]
    reached = reached_by(demands)
    if not reached & board.shareable:
        counts = [[choice.count for choice in demand] for demand in demands]
        yield _Sum(reached.bit_count(), sum(map(min, counts)), sum(map(max, counts)))
    stock = RemainingSupply(board)
    # Where shares pay counters, what requests take of them depends on who has the same device.
    draws = {} if board.shareable & board.counted else stock.draws
    for place in sorted({place for draw in draws.values() for place in draw}):
        number, counter = place
        drawn = {position: draw.get(place, 0) for position, draw in draws.items()}
        taken = [[_of(choice, drawn) for choice in demand] for demand in demands]
        yield _added(board.left[number][counter], taken, f"counter {stock.title_of(place)}")
    if not reached & ~board.shareable:
        keys = [[stock.number_of(item.key) for item in request.alternatives] for request in board.requests]
        rooms = [stock.room(position, {}) for position in bits.each(reached)]
        for name in sorted({name for room in rooms for name in room}):
            taken = [
                [_of_capacity(stock, numbers[at], demand[at], name) for at in those]
                for demand, numbers, those in zip(board.demands, keys, able, strict=True)
            ]
            yield _added(sum([room.get(name, 0) for room in rooms]), taken, f"capacity {name}")


def _draw_on_one_counter(board: SearchModel) -> bool:
    """True if there is a counter on which some device of each request draws."""
    draws = RemainingSupply(board).draws
    places = [
        {place for position in bits.each(reached_by([demand]) & board.counted) for place in draws[position]}
        for demand in board.demands
    ]
    return bool(set.intersection(*places))


def _can_pay_all(board: SearchModel) -> bool:
    """True if there is enough left of all counters for a share of every device at once."""
    taken = Counter[tuple[int, int]]()
    for draw in RemainingSupply(board).draws.values():
        taken.update(draw)
    return all(amount <= board.left[number][counter] for (number, counter), amount in taken.items())


def _want_one_device(board: SearchModel) -> bool:
    """True if there is a device that each request could have."""
    common = -1
    for demand in board.demands:
        common &= reached_by([demand])
    return bool(common)


def _of(choice: Choice, amounts: Mapping[int, int]) -> tuple[int, int]:
    """Return what a choice takes at least and at the most, by what each of its devices takes."""
    each = sorted([amounts.get(position, 0) for position in bits.each(choice.mask)])
    return sum(each[: choice.count]), sum(each[len(each) - choice.count :])


def _of_capacity(stock: RemainingSupply, key: int, choice: Choice, name: str) -> tuple[int, int]:
    return _of(choice, {at: stock.amounts(key, at).get(name, 0) for at in bits.each(choice.mask)})


def _added(have: int, taken: Sequence[Sequence[tuple[int, int]]], of: str) -> _Sum:
    least = sum([min([few for few, _ in request]) for request in taken])
    return _Sum(have, least, sum([max([many for _, many in request]) for request in taken]), of)
