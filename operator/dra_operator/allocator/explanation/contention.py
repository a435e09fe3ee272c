"""Contention: what requests that each fit alone take from each other.

The first node on which each fits alone is looked at, and what there is of devices, counters and capacity is told beside
what they take at least. Where no sum says so, or only the exhaustive search can tell, what several of them could take
is told. Of a constraint it is told what values of its attribute are left for each.
Source: docs/engine sections 7 and 9; docs/dra-semantics 3.7, 4.3 and 4.4.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import NamedTuple

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.comparison import listed_values
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.explanation.relaxation import conflicting_requests, only, with_alternative
from dra_operator.allocator.explanation.text import devices, names_of
from dra_operator.allocator.matching.groups import Groups
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, ClaimPlan, RequestPlan
from dra_operator.allocator.search.backtracking import BacktrackingSearch, is_countable
from dra_operator.allocator.search.bounds import Choice, Demand, is_bound
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.model import SearchModel, set_up
from dra_operator.allocator.search.remaining import RemainingSupply
from dra_operator.allocator.search.result_types import UNDECIDED, Undecided
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.quantity import format_beside
from dra_operator.api.text import listed
from dra_operator.inventory import NodeView, PoolView, bits
from dra_operator.inventory.counters import Draw
from dra_operator.ledger.counters import SetOccupancy, join

_MAX_SEARCHED = 128
"""On how many nodes it is asked, at the most, whether each request fits alone."""
_DEVICES = "want the same devices"
_CAPACITY = "need capacity of the same devices"
_COUNTERS = "draw on the same counters"
_GROUPS = "want devices without a compatibility group in common"
_IN_ORDER = (_DEVICES, _CAPACITY, _COUNTERS, _GROUPS)

_Ask = Callable[[Alternative, PoolView, Budget], int | Undecided]
"""Tells which devices of a pool an alternative can have."""


class _Total(NamedTuple):
    """What there is of a counter or a capacity, or else of devices, and what requests take of it at least and at most.

    Amounts are in nano-units.
    """

    have: int
    least: int
    most: int
    of: str = ""

    def text(self, node: str, requests: str, left: str) -> str:
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

    def describe(self, plan: ClaimPlan, whole: ClaimPlan, nodes: Mapping[str, str], budget: Budget) -> str:
        """Return a clause on why requests do not fit together, each of which fits alone; no constraint binds them.

        They are some of `whole`, or all: a node on which each of those fits alone is what the claim comes closest to.
        `nodes` has the first node on which each fits alone, by request. The clause is empty where there is none that is
        plain, or where the time is used up: without it there is enough to tell.
        """
        try:
            return self._describe(plan, whole, nodes, budget)
        except AbortedError:
            return ""

    def describe_constraint(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        """Return a clause on why requests do not fit together with a constraint, the only one that binds them.

        Each fits alone with it, and all of them without it. The clause is empty where that of `describe` would be.
        """
        try:
            return self._describe_constraint(plan, number, budget) if is_countable([plan]) else ""
        except AbortedError:
            return ""

    def _describe(self, plan: ClaimPlan, whole: ClaimPlan, nodes: Mapping[str, str], budget: Budget) -> str:
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
        rivals = plan
        if fits is False:
            rivals = only(plan, conflicting_requests(plan, partial(self._maybe, node, view, budget)))
            model = set_up(self.eligibility, [rivals], view, budget)
            if model is not UNDECIDED and (text := _model_text(model, rivals, node)):
                return text
        if (least := self._least(rivals, view, budget)) > MAX_DEVICES:
            names = names_of(rivals.requests)
            return f"on {node}, {names} want at least {least} devices, and a claim can have {MAX_DEVICES}"
        overlap = _overlap_text(self.eligibility, rivals, node, budget)
        return f"on {node}, {overlap}" if overlap else ""

    def _describe_constraint(self, plan: ClaimPlan, number: int, budget: Budget) -> str:
        found = self._find_node(plan, budget)
        if found is None:
            return f"with it, no node has enough left for each of {names_of(plan.requests)}"
        if found is UNDECIDED:
            return ""
        node, view = found
        model = set_up(self.eligibility, [plan], view, budget)
        if model is UNDECIDED:
            return ""
        text = _values_text(model, plan, number)
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
        """Return whether a plan fits on a node; None if only the exhaustive search can tell."""
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


def _model_text(model: SearchModel, plan: ClaimPlan, node: str) -> str:
    """Return what the requests of a plan take from each other on a node, none of which can be left out; or nothing."""
    names = names_of(plan.requests)
    items = [item for request in plan.requests for item in request.alternatives]
    left = "" if any(item.admin_access for item in items) else " left"
    for item in _sums(model):
        if item.least > item.have:
            return item.text(node, names, left)
    # There are devices enough where nobody can choose among alternatives; what else they take is the cause.
    if any(request.prioritized for request in plan.requests):
        return ""
    if model.counted and not model.shareable and _draw_on_one_counter(model):
        return f"on {node}, {names} draw on the same counters"
    if model.counted and not model.shareable and _want_one_device(model):
        # If no counter were in the way, the number of devices would be.
        return f"on {node}, {names} want the same devices, and the other devices draw on the same counters"
    if model.shareable == model.available and _want_one_device(model):
        others = "" if _can_pay_all(model) else ", and the other devices draw on the same counters"
        return f"on {node}, {names} need capacity of the same devices{others}"
    return ""


def _sums(model: SearchModel) -> Iterator[_Total]:
    """Yield what there is on a model and what its requests take of it."""
    able = [_able_choices(demand) for demand in model.demands]
    demands = [tuple([demand[at] for at in those]) for demand, those in zip(model.demands, able, strict=True)]
    reached = _reached_by(demands)
    if not reached & model.shareable:
        counts = [[choice.count for choice in demand] for demand in demands]
        yield _Total(reached.bit_count(), sum(map(min, counts)), sum(map(max, counts)))
    supply = RemainingSupply(model)
    # Where shares pay counters, what requests take of them depends on who has the same device.
    draws = {} if model.shareable & model.counted else supply.draws
    for place in sorted({place for draw in draws.values() for place in draw}):
        number, counter = place
        drawn = {position: draw.get(place, 0) for position, draw in draws.items()}
        taken = [[_range(choice, drawn) for choice in demand] for demand in demands]
        yield _added(model.left[number][counter], taken, f"counter {supply.title_of(place)}")
    if not reached & ~model.shareable:
        keys = [[supply.number_of(item.key) for item in request.alternatives] for request in model.requests]
        rooms = [supply.room(position, {}) for position in bits.each(reached)]
        for name in sorted({name for room in rooms for name in room}):
            taken = [
                [_capacity_range(supply, numbers[at], demand[at], name) for at in those]
                for demand, numbers, those in zip(model.demands, keys, able, strict=True)
            ]
            yield _added(sum([room.get(name, 0) for room in rooms]), taken, f"capacity {name}")


def _draw_on_one_counter(model: SearchModel) -> bool:
    """True if there is a counter on which some device of each request draws."""
    draws = RemainingSupply(model).draws
    places = [
        {place for position in bits.each(_reached_by([demand]) & model.counted) for place in draws[position]}
        for demand in model.demands
    ]
    return bool(set.intersection(*places))


def _can_pay_all(model: SearchModel) -> bool:
    """True if there is enough left of all counters for a share of every device at once."""
    taken = Counter[tuple[int, int]]()
    for draw in RemainingSupply(model).draws.values():
        taken.update(draw)
    return all(amount <= model.left[number][counter] for (number, counter), amount in taken.items())


def _want_one_device(model: SearchModel) -> bool:
    """True if there is a device that each request could have."""
    common = -1
    for demand in model.demands:
        common &= _reached_by([demand])
    return bool(common)


def _range(choice: Choice, amounts: Mapping[int, int]) -> tuple[int, int]:
    """Return what a choice takes at least and at the most, by what each of its devices takes."""
    each = sorted([amounts.get(position, 0) for position in bits.each(choice.mask)])
    return sum(each[: choice.count]), sum(each[len(each) - choice.count :])


def _capacity_range(supply: RemainingSupply, key: int, choice: Choice, name: str) -> tuple[int, int]:
    return _range(choice, {at: supply.amounts(key, at).get(name, 0) for at in bits.each(choice.mask)})


def _added(have: int, taken: Sequence[Sequence[tuple[int, int]]], of: str) -> _Total:
    least = sum([min([few for few, _ in request]) for request in taken])
    return _Total(have, least, sum([max([many for _, many in request]) for request in taken]), of)


# --- values


def _reached_by(demands: Sequence[Demand]) -> int:
    """Return the devices that any of some demands could have."""
    reached = 0
    for demand in demands:
        for choice in demand:
            reached |= choice.mask
    return reached


def _able_choices(demand: Demand) -> list[int]:
    """Return the numbers of the choices for which there are devices enough, or else of all."""
    able = [number for number, choice in enumerate(demand) if choice.mask.bit_count() >= choice.count]
    return able or list(range(len(demand)))


def _values_text(model: SearchModel, plan: ClaimPlan, number: int) -> str:
    """Return what a node has left for the requests that a constraint binds, if that shows that they cannot satisfy it.

    Empty where it does not, and where one of them has an alternative that is not bound.
    """
    requests = [
        request
        for request in plan.requests
        if all(number in item.constraints for item in request.alternatives)
    ]
    demands = [demand for demand in model.demands if is_bound(demand, number)]
    reached = _reached_by(demands)
    if len(requests) < 2:
        return ""
    counts = [[demand[at].count for at in _able_choices(demand)] for demand in demands]
    least, most = sum(map(min, counts)), sum(map(max, counts))
    wanted = f"for {names_of(requests)}, which want {'' if least == most else 'at least '}{least}"
    found = model.rules[number].groups
    # Who has a list holds several values.
    groups = [held & reached for held in found.holders if held & reached]
    if not model.rules[number].matching:
        values = f"{len(groups)} value{'s' if len(groups) != 1 else ''}"
        return f"{values} left {wanted}" if len(groups) < least else ""
    enough = [[group for group in groups if _has_enough_devices(demand, group)] for demand in demands]
    if not all(enough):
        return ""
    if not set.intersection(*map(set, enough)):
        left = [_values(found, reached, those) for those in enough]
        several = len({value.type for those in left for value in those}) > 1
        texts = [
            f"for {request.name} with {listed_values(those, with_types=several)}"
            for request, those in zip(requests, left, strict=True)
        ]
        return f"enough left {listed(texts)}"
    if reached & model.shareable:
        # Several requests may have the same of these.
        return ""
    have = max([group.bit_count() for group in groups])
    return f"at most {have} with the same value left {wanted}" if have < least else ""


def _has_enough_devices(demand: Demand, group: int) -> bool:
    return any((choice.mask & group).bit_count() >= choice.count for choice in demand)


def _values(groups: Groups, reached: int, those: Collection[int]) -> list[AttributeValue]:
    """Return the values that some of the sets of devices have that are reached."""
    held = zip(groups.values, groups.holders, strict=True)
    return [value for (value,), devices in held if devices & reached in those]


# --- what several requests could take


@dataclass(frozen=True, slots=True)
class _Reachable:
    """What a request could take on a node.

    `devices` are positions of the row. `counters` and `places` are of a pool, by its number: each counter, and by
    counter set the compatibility groups of each device that draws on it, with what would then be in place.
    """

    request: RequestPlan
    devices: int
    counters: AbstractSet[tuple[int, int]]
    places: Mapping[tuple[int, int], AbstractSet[tuple[SetOccupancy, frozenset[str]]]]


def _overlap_text(eligibility: Eligibility, plan: ClaimPlan, node: str, budget: Budget) -> str:
    """Return a clause that says which requests could take the same on a node, and what; empty if none could.

    Raises AbortedError.
    """
    views, features = eligibility.availability.views, eligibility.candidates.features
    row = views.of_node(node).row
    skips = features.optional_node_operations and views.inventory.nodes[node].skips_operations
    reaches = [_reach(eligibility, request, row, budget, skips=skips) for request in plan.requests]
    shareable = sum(pool.shareable << start for start, pool in row) if features.consumable_capacity else 0
    rivals: dict[str, set[str]] = {text: set() for text in _IN_ORDER}
    for one, other in combinations(reaches, 2):
        for text in _shared(one, other, shareable):
            rivals[text] |= {one.request.name, other.request.name}
    texts: dict[str, list[str]] = {}
    for text, names in rivals.items():
        if names:
            who = names_of([request for request in plan.requests if request.name in names])
            texts.setdefault(who, []).append(text)
    return ", and ".join([f"{who} {' and '.join(told)}" for who, told in texts.items()])


def _shared(one: _Reachable, other: _Reachable, shareable: int) -> Iterator[str]:
    """Yield what two requests could both take."""
    if devices := one.devices & other.devices:
        yield _DEVICES if devices & ~shareable else _CAPACITY
    if one.counters & other.counters:
        yield _COUNTERS
    if any(
        not placed.admits(groups)
        for where in one.places.keys() & other.places.keys()
        for placed, _ in one.places[where]
        for _, groups in other.places[where]
    ):
        yield _GROUPS


def _reach(
    eligibility: Eligibility,
    request: RequestPlan,
    row: Sequence[tuple[int, PoolView]],
    budget: Budget,
    *,
    skips: bool,
) -> _Reachable:
    reached = 0
    counters: set[tuple[int, int]] = set()
    places: dict[tuple[int, int], set[tuple[SetOccupancy, frozenset[str]]]] = {}
    for number, (start, pool) in enumerate(row):
        usable = _usable(pool, skips=skips)
        devices = 0
        for item in request.alternatives:
            mask = eligibility.candidates.ask(item.key, pool, budget).mask & usable
            free = -1 if item.admin_access else eligibility.availability.states[pool.serial].free
            devices |= eligibility.judge(item.key, pool, mask & free)
        for position, draw, placed in _draws(eligibility, pool, devices):
            joining = [(counter_set, groups, placed[counter_set]) for counter_set, groups in draw.groups]
            if not all(before is None or before.admits(groups) for _, groups, before in joining):
                devices ^= 1 << position
                continue
            counters |= {(number, place) for place, amount in draw.amounts if amount}
            for counter_set, groups, before in joining:
                places.setdefault((number, counter_set), set()).add((join(before, groups), groups))
        reached |= devices << start
    return _Reachable(request, reached, counters, places)


def _usable(pool: PoolView, *, skips: bool) -> int:
    """Return the devices of a pool that a node can use, which can do without node operations or not."""
    found = 0
    for offset, content in pool.placed:
        if skips or not content.skip_node_operations:
            found |= content.every << offset
    # Without a layout the feature is switched off.
    return found if pool.counters is not None else found & ~pool.counted


def _draws(
    eligibility: Eligibility, pool: PoolView, devices: int
) -> Iterator[tuple[int, Draw, Sequence[SetOccupancy | None]]]:
    """Yield what each of some devices draws on counters, unless a share has paid, and what is in place, by set."""
    layout = pool.counters
    if layout is None:
        return
    concerned = frozenset([content.serial for content in pool.slices])
    placed = eligibility.availability.counters(layout).placed(concerned)
    for position in bits.each(devices & pool.counted & ~eligibility.paid(pool, devices)):
        yield position, layout.draw(*pool.locate(position)), placed
