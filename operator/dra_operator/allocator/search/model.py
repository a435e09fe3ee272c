"""Search model: some claims and a node as ints, which is all that the backtracking search needs.

The pools of a node lie side by side in one row of positions; each alternative is a set of them, each constraint a
partition. A request for all devices is one for as many as there are. What a claim picks is gone for later claims, which
holds as long as only the first one asks for admin access. What cannot be expressed like this has no model.
Source: docs/engine sections 6 and 9.
"""

from collections.abc import Mapping, Sequence

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.constraints import MATCH
from dra_operator.allocator.matching.candidates import CandidateKey
from dra_operator.allocator.matching.capacity import Consumption
from dra_operator.allocator.matching.derived import derived_groups
from dra_operator.allocator.matching.groups import Groups
from dra_operator.allocator.plan import MAX_DEVICES, Alternative, ClaimPlan, RequestPlan
from dra_operator.allocator.search.bounds import Choice, Demand, GroupRule
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.result_types import UNDECIDED, Undecided
from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.inventory import NodeView, Verdict

Left = tuple[tuple[int, ...], ...]
"""What is left of each pool's counters, in nano-units."""
_Masks = dict[tuple[int, bool], int]
"""The devices that can be had, by serial number of the key, and whether for admin access."""
InFlight = dict[int, dict[str, int]]
"""What shares picked in this attempt consume, by position and capacity name, in nano-units; never changed in place."""


@fast_dataclass
class SearchModel:
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

    def charge(self, position: int, left: Left) -> Left | None:
        """Return what a device that draws on counters leaves of them, or None if they do not fit."""
        number, draw = self.draw(position)
        counters = list(left[number])
        for place, amount in draw:
            if counters[place] < amount:
                return None
            counters[place] -= amount
        return (*left[:number], tuple(counters), *left[number + 1 :])

    def draw(self, position: int) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Return the number of a device's pool, and what it takes of the pool's counters."""
        number = self.view.number_of(position)
        pool = self.view.pools[number]
        slice_, index = pool.locate(position - self.view.starts[number])
        assert pool.counters is not None
        return number, pool.counters.draw(slice_, index).amounts

    def share(self, key: CandidateKey, position: int, in_flight: InFlight) -> InFlight | None:
        """Return what is in flight with one more share of a device, or None if it has no room for it."""
        consumed = self.consumed(key, position)
        assert consumed is not None
        used = self.used(position)
        after = dict(in_flight.get(position, {}))
        for name, amount, value in consumed.amounts:
            after[name] = after.get(name, 0) + amount
            if used.get(name, 0) + after[name] > value:
                return None
        return {**in_flight, position: after}

    def consumed(self, key: CandidateKey, position: int) -> Consumption | None:
        """Return what a share of a device consumes, or None if the device is unfit for the key."""
        pool, place = self.view.locate(position)
        slice_, index = pool.locate(place)
        consumed = self.eligibility.candidates.consumed(key, slice_, index)
        return consumed if isinstance(consumed, Consumption) else None

    def used(self, position: int) -> Mapping[str, int]:
        """Return what committed shares of a device consume, in nano-units by capacity name."""
        pool, place = self.view.locate(position)
        slice_, index = pool.locate(place)
        return self.eligibility.availability.ledger.consumed(pool.key, slice_.names[index])


def set_up(
    eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget
) -> SearchModel | Undecided:
    """Return the model for some countable claims on a view, or UNDECIDED if there is none. Raises AbortedError."""
    masks = _masks(eligibility, plans, view, budget, give_up=False)
    if masks is UNDECIDED or masks is None:
        return UNDECIDED
    return _model(eligibility, plans, view, budget, masks)


def set_up_to_search(
    eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget
) -> SearchModel | Undecided | None:
    """Return the same, but None if there are too few devices for a request, whatever the others take.

    The exhaustive search never gets to the requests after that one, nor to their errors. This does not hold if it looks
    at all requests first, or at what earlier ones derive.
    """
    give_up = not any(plan.evaluates_used or plan.derives for plan in plans)
    masks = _masks(eligibility, plans, view, budget, give_up=give_up)
    if masks is UNDECIDED or masks is None:
        return masks
    return _model(eligibility, plans, view, budget, masks)


def set_up_first(
    eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget
) -> SearchModel | None:
    """Return a model of the first devices of a row, up to the first ones of its first large pool.

    None if requests have alternatives or too few devices there, or if only the exhaustive search can tell. Raises
    AbortedError.
    """
    if not view.countable:
        return None
    masks: _Masks = {}
    for plan in plans:
        for request in plan.requests:
            if len(request.alternatives) > 1:
                return None
            (item,) = request.alternatives
            asked = (item.key.serial, item.admin_access)
            if asked not in masks:
                row = eligibility.beginning_of(item, view, budget)
                if row is UNDECIDED:
                    return None
                masks[asked] = row
            if masks[asked].bit_count() < (item.count or 1):
                return None
    model = _model(eligibility, plans, view, budget, masks)
    return None if model is UNDECIDED else model


def _masks(
    eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget, *, give_up: bool
) -> _Masks | Undecided | None:
    """Return the devices that each alternative can have; with `give_up`, None if there are too few for a request."""
    if not view.countable:
        return UNDECIDED
    masks: _Masks = {}
    for plan in plans:
        for request in plan.requests:
            enough = not give_up
            for item in request.alternatives:
                asked = (item.key.serial, item.admin_access)
                if asked not in masks:
                    row = _row(eligibility, item, view, budget)
                    if row is UNDECIDED:
                        return UNDECIDED
                    masks[asked] = row
                enough = enough or masks[asked].bit_count() >= (item.count or 0)
            if not enough:
                return None
    return masks


def _model(
    eligibility: Eligibility, plans: Sequence[ClaimPlan], view: NodeView, budget: Budget, masks: _Masks
) -> SearchModel | Undecided:
    rules: list[GroupRule] = []
    demands: list[Demand] = []
    for plan in plans:
        first = len(rules)
        most = 0
        for number, constraint in enumerate(plan.constraints):
            groups = _groups(eligibility, plan, number, masks, view, budget)
            if groups is UNDECIDED:
                return UNDECIDED
            rules.append(GroupRule(constraint.kind == MATCH, groups))
        for request in plan.requests:
            demand: Demand = ()
            for item in request.alternatives:
                numbers = tuple([first + number for number in item.constraints])
                choice = _choice(eligibility, item, numbers, rules, masks, view, budget)
                if choice is UNDECIDED:
                    return UNDECIDED
                demand += (choice,)
            demands.append(demand)
            most += max([choice.count for choice in demand])
        if most > MAX_DEVICES:
            return UNDECIDED
    reached = 0
    for mask in masks.values():
        reached |= mask
    shareable = counted = 0
    for start, pool in view.row:
        shareable |= pool.shareable << start
        counted |= pool.counted << start
        if pool.counted & pool.shareable:
            counted &= ~(eligibility.paid(pool, reached >> start) << start)
    if not eligibility.candidates.features.consumable_capacity:
        shareable = 0
    return SearchModel(
        eligibility=eligibility,
        view=view,
        requests=tuple(request for plan in plans for request in plan.requests),
        demands=tuple(demands),
        rules=tuple(rules),
        available=reached,
        shareable=shareable & reached,
        counted=counted & reached,
        left=_left(eligibility, view) if counted & reached else (),
    )


def _choice(  # noqa: PLR0917 - one caller, and the state of it
    eligibility: Eligibility,
    item: Alternative,
    numbers: tuple[int, ...],
    rules: Sequence[GroupRule],
    masks: _Masks,
    view: NodeView,
    budget: Budget,
) -> Choice | Undecided:
    """Return what an alternative can have, bound by the rules of these numbers."""
    mask = masks[item.key.serial, item.admin_access]
    for number in numbers:
        if rules[number].groups.odd & mask:
            return UNDECIDED
    count = item.count or _number_of_all(eligibility, item.key, view, budget)
    return UNDECIDED if count is UNDECIDED else Choice(mask, count, numbers)


def _groups(  # noqa: PLR0917 - one caller, and the state of it
    eligibility: Eligibility,
    plan: ClaimPlan,
    number: int,
    masks: _Masks,
    view: NodeView,
    budget: Budget,
) -> Groups | Undecided:
    """Return the groups of a view by the attribute of a constraint, as the requests that it applies to see it."""
    attribute = plan.constraints[number].attribute
    takers: dict[str | None, int] = {}
    for request in plan.requests if plan.derives else ():
        for item in request.alternatives:
            if number in item.constraints:
                expression = item.derived.get(attribute)
                mask = masks[item.key.serial, item.admin_access]
                takers[expression] = takers.get(expression, 0) | mask
    published = (
        eligibility.candidates.groups.find(view, (attribute,)) if None in takers or not takers else None
    )
    if published is not None and takers.keys() <= {None}:
        return published
    candidates = eligibility.candidates
    lists = candidates.features.list_type_attributes
    found = derived_groups(view, takers, published, candidates.derived, budget, lists=lists)
    return UNDECIDED if found is None else found


def _row(eligibility: Eligibility, asked: Alternative, view: NodeView, budget: Budget) -> int | Undecided:
    row = 0
    key = asked.key
    for start, pool in view.row:
        if pool.driver in key.refused:
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


def _left(eligibility: Eligibility, view: NodeView) -> Left:
    availability = eligibility.availability
    return tuple(
        () if pool.counters is None else tuple(availability.counters(pool.counters).left)
        for pool in view.pools
    )
