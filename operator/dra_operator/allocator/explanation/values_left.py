"""Values left: what the devices left for requests have of the attribute of a constraint.

Two requests that are to agree may each find devices enough that do, but of different values: a GPU is left at one root
complex, a network card at another. Or of no value is there enough for both, or of too few values for all to differ.
Source: docs/dra-semantics 3.7.
"""

from collections.abc import Collection, Sequence

from dra_operator.allocator.comparison import listed_values
from dra_operator.allocator.explanation.phrases import names_of
from dra_operator.allocator.matching.groups import Groups
from dra_operator.allocator.plan import ClaimPlan
from dra_operator.allocator.search.bounds import Demand, is_bound
from dra_operator.allocator.search.model import SearchModel
from dra_operator.api.attributes import AttributeValue
from dra_operator.api.text import listed


def reached_by(demands: Sequence[Demand]) -> int:
    """Return the devices that any of some demands could have."""
    reached = 0
    for demand in demands:
        for choice in demand:
            reached |= choice.mask
    return reached


def able_choices(demand: Demand) -> list[int]:
    """Return the numbers of the choices for which there are devices enough, or else of all."""
    able = [number for number, choice in enumerate(demand) if choice.mask.bit_count() >= choice.count]
    return able or list(range(len(demand)))


def tell_values(board: SearchModel, plan: ClaimPlan, number: int) -> str:
    """Return what a node has left for the requests that a constraint binds, if that shows that they cannot satisfy it.

    Empty where it does not, and where one of them has an alternative that is not bound.
    """
    requests = [
        request
        for request in plan.requests
        if all(number in item.constraints for item in request.alternatives)
    ]
    demands = [demand for demand in board.demands if is_bound(demand, number)]
    reached = reached_by(demands)
    if len(requests) < 2:
        return ""
    counts = [[demand[at].count for at in able_choices(demand)] for demand in demands]
    least, most = sum(map(min, counts)), sum(map(max, counts))
    wanted = f"for {names_of(requests)}, which want {'' if least == most else 'at least '}{least}"
    found = board.rules[number].groups
    # Who has a list holds several values.
    groups = [held & reached for held in found.holders if held & reached]
    if not board.rules[number].matching:
        values = f"{len(groups)} value{'s' if len(groups) != 1 else ''}"
        return f"{values} left {wanted}" if len(groups) < least else ""
    enough = [[group for group in groups if _has_room(demand, group)] for demand in demands]
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
    if reached & board.shareable:
        # Several requests may have the same of these.
        return ""
    have = max([group.bit_count() for group in groups])
    return f"at most {have} with the same value left {wanted}" if have < least else ""


def _has_room(demand: Demand, group: int) -> bool:
    return any((choice.mask & group).bit_count() >= choice.count for choice in demand)


def _values(groups: Groups, reached: int, those: Collection[int]) -> list[AttributeValue]:
    """Return the values that some of the sets of devices have that are reached."""
    held = zip(groups.values, groups.holders, strict=True)
    return [value for (value,), devices in held if devices & reached in those]
