"""Overlap: what several requests could each take on a node.

Requests that fit alone on a node, and not together, take something from each other there: devices, capacity of shared
ones, counters, or a place beside devices of other compatibility groups. Where no sum shows which (`contention`), since
requests have alternatives or only the plain search can tell, this is what is left to tell: each of them that more than
one request could take. One cause is not told: groups of three devices that agree two by two, and not all three.
Source: docs/dra-semantics 4.3 and 4.4.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.explanation.phrases import names_of
from dra_operator.allocator.plan import ClaimPlan, RequestPlan
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.inventory import PoolView, bits
from dra_operator.inventory.counters import Draw
from dra_operator.ledger.counters import SetOccupancy, join

_DEVICES = "want the same devices"
_CAPACITY = "need capacity of the same devices"
_COUNTERS = "draw on the same counters"
_GROUPS = "want devices without a compatibility group in common"
_IN_ORDER = (_DEVICES, _CAPACITY, _COUNTERS, _GROUPS)


@dataclass(frozen=True, slots=True)
class _Reach:
    """What a request could take on a node.

    `devices` are positions of the row. `counters` and `places` are of a pool, by its number: each counter, and by
    counter set the compatibility groups of each device that draws on it, with what would then be in place.
    """

    request: RequestPlan
    devices: int
    counters: AbstractSet[tuple[int, int]]
    places: Mapping[tuple[int, int], AbstractSet[tuple[SetOccupancy, frozenset[str]]]]


def tell_overlap(eligibility: Eligibility, plan: ClaimPlan, node: str, budget: Budget) -> str:
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


def _shared(one: _Reach, other: _Reach, shareable: int) -> Iterator[str]:
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
) -> _Reach:
    reached = 0
    counters: set[tuple[int, int]] = set()
    places: dict[tuple[int, int], set[tuple[SetOccupancy, frozenset[str]]]] = {}
    for number, (start, pool) in enumerate(row):
        usable = _usable(pool, skips=skips)
        devices = 0
        for item in request.alternatives:
            mask = eligibility.candidates.ask(item.key, pool, budget).mask & usable
            devices |= eligibility.judge(
                item.key,
                pool,
                mask if item.admin_access else mask & eligibility.availability.states[pool.serial].free,
            )
        for position, draw, placed in _draws(eligibility, pool, devices):
            joining = [(counter_set, groups, placed[counter_set]) for counter_set, groups in draw.groups]
            if not all(before is None or before.admits(groups) for _, groups, before in joining):
                devices ^= 1 << position
                continue
            counters |= {(number, place) for place, amount in draw.amounts if amount}
            for counter_set, groups, before in joining:
                places.setdefault((number, counter_set), set()).add((join(before, groups), groups))
        reached |= devices << start
    return _Reach(request, reached, counters, places)


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
