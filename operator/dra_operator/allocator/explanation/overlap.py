"""Overlap: what several requests could each take on a node.

Requests that fit alone on a node, and not together, take something from each other there: devices, capacity of shared
ones, counters, or a place beside devices of other compatibility groups. Where no sum shows which (`contention`), since
requests have alternatives or only the plain search can tell, this is what is left to tell: each of them that more than
one request could take. Nothing else can be the cause.
Source: docs/dra-semantics 4.3 and 4.4.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.explanation.values_left import listed
from dra_operator.allocator.plan import ClaimPlan, RequestPlan
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.inventory import NodeView, bits
from dra_operator.ledger.counters import join

_DEVICES = "want the same devices"
_CAPACITY = "need capacity of the same devices"
_COUNTERS = "draw on the same counters"
_GROUPS = "want devices without a compatibility group in common"
_IN_ORDER = (_DEVICES, _CAPACITY, _COUNTERS, _GROUPS)


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a request could take on a node.

    `devices` are positions of the row; `counters` and `places` are of a pool, by its number: each counter, and each
    counter set with the compatibility groups of a device that draws on it.
    """

    request: RequestPlan
    devices: int
    counters: frozenset[tuple[int, int]]
    places: frozenset[tuple[int, int, frozenset[str]]]


def tell_overlap(eligibility: Eligibility, plan: ClaimPlan, view: NodeView, budget: Budget) -> str:
    """Return a clause that says which requests could take the same on a node, and what; empty if none could.

    Raises AbortedError.
    """
    reaches = [_reach(eligibility, request, view, budget) for request in plan.requests]
    shareable = sum(pool.shareable << start for start, pool in view.row)
    rivals: dict[str, set[str]] = {text: set() for text in _IN_ORDER}
    for one, other in combinations(reaches, 2):
        for text in _shared(one, other, shareable):
            rivals[text] |= {one.request.name, other.request.name}
    texts: dict[str, list[str]] = {}
    for text, names in rivals.items():
        if names:
            who = listed([request for request in plan.requests if request.name in names])
            texts.setdefault(who, []).append(text)
    return ", and ".join([f"{who} {' and '.join(told)}" for who, told in texts.items()])


def _shared(one: _Reach, other: _Reach, shareable: int) -> Iterator[str]:
    """Yield what two requests could both take."""
    if devices := one.devices & other.devices:
        yield _DEVICES if devices & ~shareable else _CAPACITY
    if one.counters & other.counters:
        yield _COUNTERS
    if any(
        (pool, counter_set) == (where, which) and not join(None, groups).admits(beside)
        for pool, counter_set, groups in one.places
        for where, which, beside in other.places
    ):
        yield _GROUPS


def _reach(eligibility: Eligibility, request: RequestPlan, view: NodeView, budget: Budget) -> _Reach:
    devices = 0
    for item in request.alternatives:
        for start, pool in view.row:
            answers = eligibility.candidates.ask(item.key, pool, budget)
            devices |= (answers.mask if item.admin_access else answers.mask & pool.free) << start
    counters: set[tuple[int, int]] = set()
    places: set[tuple[int, int, frozenset[str]]] = set()
    for number, (start, pool) in enumerate(view.row):
        if (layout := pool.counters) is None:
            continue
        for position in bits.each(devices >> start & pool.counted):
            draw = layout.draw(*pool.locate(position))
            counters |= {(number, place) for place, amount in draw.amounts if amount}
            places |= {(number, counter_set, groups) for counter_set, groups in draw.groups}
    return _Reach(request, devices, frozenset(counters), frozenset(places))
