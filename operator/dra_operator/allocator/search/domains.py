"""Domains: the devices that each alternative can still take, narrowed by each pick (forward checking).

Devices are those that are left, that constraints still admit, that have room for the amounts, and whose counters fit. A
request whose every alternative has too few is a dead end. `narrow_groups` and `has_places` are relaxations: they tell
that requests cannot all be served, by counting in groups and by matching (Kuhn's algorithm for b-matching).
Source: docs/engine sections 6 to 9; Haralick and Elliott, Increasing tree search efficiency (1980).
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dra_operator.allocator.matching.candidates import CandidateKey
from dra_operator.allocator.search.problem import GroupRule, InFlight, Left, Problem
from dra_operator.inventory import bits


class Domain(NamedTuple):
    """An alternative as far as it is open: `missing` ones out of `devices`; its place in the request, and its rules."""

    devices: int
    missing: int
    place: int
    key: CandidateKey
    rules: tuple[int, ...]


DemandLeft = tuple[Domain, ...]
"""What a request still demands: one of the domains, or nothing more if there are none."""


class SearchState(NamedTuple):
    """Demands by request, what is left of counters, and what shares picked so far consume.

    `open` is what each rule admits with the marks of its groups, or nothing where no group that has to match overlaps.
    """

    demands: tuple[DemandLeft, ...]
    left: Left
    in_flight: InFlight
    open: tuple[int, ...]


def first_state(problem: Problem) -> SearchState | None:
    """Return the state before any pick, or None if a request cannot be served at all."""
    demands: list[DemandLeft] = []
    for request, demand in zip(problem.requests, problem.demands, strict=True):
        domains: DemandLeft = ()
        for place, choice in enumerate(demand):
            devices = choice.mask
            for rule in choice.constraints:
                devices &= problem.rules[rule].groups.members
            if devices.bit_count() >= choice.count:
                key = request.alternatives[place].key
                domains += (Domain(devices, choice.count, place, key, choice.constraints),)
        if not domains:
            return None
        demands.append(domains)
    overlapping = any(rule.matching and rule.groups.overlapping for rule in problem.rules)
    admitted = tuple([rule.groups.open for rule in problem.rules]) if overlapping else ()
    return SearchState(tuple(demands), problem.left, {}, admitted)


def pick(problem: Problem, now: SearchState, request: int, domain: Domain, bit: int) -> SearchState | None:
    """Return the state after a device is picked for a domain of a request, or None if that is a dead end."""
    position = bit.bit_length() - 1
    left, in_flight = now.left, now.in_flight
    gone = filled = 0
    if problem.counted & bit and position not in in_flight:
        charged = problem.charge(position, left)
        if charged is None:
            return None
        left = charged
    if problem.shareable & bit:
        if not problem.has_room(domain.key, position, in_flight):
            return None
        in_flight = problem.share(domain.key, position, in_flight)
        filled = bit
    else:
        gone = bit
    if left is not now.left:
        gone |= _unaffordable(problem, now, left) & ~bits.from_positions(in_flight)
    admitted = {rule: _admitted(problem.rules[rule], position, now.open, rule) for rule in domain.rules}
    demands = list(now.demands)
    for number, demand in enumerate(demands):
        if not demand:
            continue
        if number == request:
            if domain.missing == 1:
                demands[number] = ()
                continue
            demand = (domain._replace(devices=domain.devices & ~bit, missing=domain.missing - 1),)  # noqa: PLW2901
        narrowed: list[Domain] = []
        for item in demand:
            devices = item.devices & ~gone
            if devices & filled and not problem.has_room(item.key, position, in_flight):
                devices ^= bit
            if admitted:
                for rule in item.rules:
                    if rule in admitted:
                        devices &= admitted[rule]
            if devices == item.devices:
                narrowed.append(item)
            elif devices.bit_count() >= item.missing:
                narrowed.append(item._replace(devices=devices))
        if not narrowed:
            return None
        demands[number] = tuple(narrowed)
    still = now.open
    if still:
        still = tuple(
            [
                admitted.get(rule, before) if problem.rules[rule].matching else before
                for rule, before in enumerate(still)
            ]
        )
    return SearchState(tuple(demands), left, in_flight, still)


def narrow_groups(problem: Problem, now: SearchState) -> SearchState | None:
    """Return the state with only those groups of matching rules that have devices enough; None for a dead end.

    Enough for each request that is bound to the rule, and, as far as devices are not shareable, for all of them.
    """
    demands = list(now.demands)
    for number, rule in enumerate(problem.rules):
        if not rule.matching:
            continue
        live = [
            request
            for request, demand in enumerate(demands)
            if any(number in domain.rules for domain in demand)
        ]
        if not live:
            continue
        # A domain that the rule does not bind has devices enough, whatever the group.
        bound = [demands[request] for request in live if _is_bound(demands[request], number)]
        own = [demand for demand in bound if not union_of(demand) & problem.shareable]
        # Overlapping groups have marks that say which are open. Of other groups, the picks leave only devices of one.
        marks = now.open[number] >> rule.groups.size if rule.groups.overlapping else -1
        kept = 0
        for place, group in enumerate(rule.groups.groups):
            if marks >> place & 1 and _has_enough(group, bound, own):
                kept |= group
        for request in live:
            narrowed = _within(demands[request], number, kept)
            if not narrowed:
                return None
            demands[request] = narrowed
    return now._replace(demands=tuple(demands))


def has_places(problem: Problem, demands: Sequence[DemandLeft]) -> bool:
    """False if the demands cannot be given different devices, or different values where a rule wants them distinct.

    A shareable device can serve several demands: those who could have one are not counted.
    """
    own = [(union_of(demand), least_of(demand)) for demand in demands if demand]
    if first_without_place([lot for lot in own if not lot[0] & problem.shareable]) is not None:
        return False
    for number, rule in enumerate(problem.rules):
        if rule.matching:
            continue
        lots = [
            (_values(rule.groups.groups, union_of(demand)), least_of(demand))
            for demand in demands
            if demand and _is_bound(demand, number)
        ]
        if first_without_place(lots) is not None:
            return False
    return True


def first_without_place(lots: Sequence[tuple[int, int]]) -> int | None:
    """Return the index of the first lot that cannot have so many of its devices beside those before; None if all can.

    A device is for one lot. By augmenting paths.
    """
    unions = [devices for devices, _ in lots]
    owner: dict[int, int] = {}
    taken = seen = 0

    def place(lot: int) -> bool:
        nonlocal taken, seen
        if free := unions[lot] & ~taken & ~seen:
            bit = free & -free
            owner[bit] = lot
            taken |= bit
            return True
        while wanted := unions[lot] & ~seen:
            bit = wanted & -wanted
            seen |= bit
            if owner[bit] != lot and place(owner[bit]):
                owner[bit] = lot
                return True
        return False

    for lot, (_, count) in enumerate(lots):
        for _ in range(count):
            seen = 0
            if not place(lot):
                return lot
    return None


def equals(problem: Problem, now: SearchState, bit: int, among: int) -> int:
    """Return those of other devices that everybody left could have in the place of this one, and it in theirs.

    They are open to the same domains, in the same groups, draw on the same counters and have the same room.
    """
    same = among & (problem.shareable if problem.shareable & bit else ~problem.shareable)
    same &= problem.counted if problem.counted & bit else ~problem.counted
    position = bit.bit_length() - 1
    rules: set[int] = set()
    keys: dict[int, CandidateKey] = {}
    for demand in now.demands:
        for domain in demand:
            same &= domain.devices if domain.devices & bit else ~domain.devices
            rules.update(domain.rules)
            keys[domain.key.serial] = domain.key
    for rule in rules:
        groups = problem.rules[rule].groups
        beside = groups.beside[position]
        # A device without a value is in no group, and open to no domain that the rule binds.
        same &= beside or ~groups.members
        if groups.overlapping:
            same = bits.from_positions(other for other in bits.each(same) if groups.beside[other] == beside)
    if same and problem.counted & bit:
        draws = problem.draws(position)
        same = bits.from_positions(other for other in bits.each(same) if problem.draws(other) == draws)
    if same and problem.shareable & bit:
        kind = _kind(problem, keys.values(), position, now.in_flight)
        same = bits.from_positions(
            other for other in bits.each(same) if _kind(problem, keys.values(), other, now.in_flight) == kind
        )
    return same


def state_key(problem: Problem, now: SearchState) -> object:
    """Return what it depends on whether the demands can be served: the same for requests that have changed places."""
    union = 0
    parts = []
    for demand in now.demands:
        if demand:
            union |= union_of(demand)
            parts.append(
                tuple([(item.devices, item.missing, item.key.serial, item.rules) for item in demand])
            )
    parts.sort()
    shares = [
        (position, tuple(sorted(amounts.items())))
        for position, amounts in sorted(now.in_flight.items())
        if union >> position & 1
    ]
    return (tuple(parts), now.left if union & problem.counted else (), tuple(shares), now.open)


def union_of(demand: DemandLeft) -> int:
    """Return the devices of all domains."""
    union = 0
    for domain in demand:
        union |= domain.devices
    return union


def least_of(demand: DemandLeft) -> int:
    """Return the number of devices that a request takes at least."""
    return min([domain.missing for domain in demand])


def _unaffordable(problem: Problem, now: SearchState, left: Left) -> int:
    """Return the devices still wanted that draw more than is left of a counter that was just drawn on."""
    less = {
        (number, place)
        for number, (before, after) in enumerate(zip(now.left, left, strict=True))
        if before != after
        for place, (old, new) in enumerate(zip(before, after, strict=True))
        if old != new
    }
    wanted = 0
    for demand in now.demands:
        wanted |= union_of(demand)
    return bits.from_positions(
        position
        for position in bits.each(wanted & problem.counted)
        if any(
            amount > left[counter[0]][counter[1]]
            for counter, amount in problem.draws(position).items()
            if counter in less
        )
    )


def _admitted(rule: GroupRule, position: int, before: tuple[int, ...], number: int) -> int:
    beside = rule.groups.beside[position]
    if not rule.matching:
        return ~beside
    return rule.groups.common(before[number] & beside) if rule.groups.overlapping else beside


def _is_bound(demand: DemandLeft, rule: int) -> bool:
    for domain in demand:  # noqa: SIM110 - asked for each group, and a generator takes longer than this
        if rule not in domain.rules:
            return False
    return True


def _has_enough(group: int, bound: Iterable[DemandLeft], own: Iterable[DemandLeft]) -> bool:
    for demand in bound:
        for domain in demand:
            if (domain.devices & group).bit_count() >= domain.missing:
                break
        else:
            return False
    union = least = 0
    for demand in own:
        union |= union_of(demand) & group
        least += least_of(demand)
    return union.bit_count() >= least


def _within(demand: DemandLeft, rule: int, kept: int) -> DemandLeft:
    """Return the domains with only those devices that the rule keeps, if they are enough."""
    domains: DemandLeft = ()
    for domain in demand:
        if rule not in domain.rules or not domain.devices & ~kept:
            domains += (domain,)
        elif (domain.devices & kept).bit_count() >= domain.missing:
            domains += (domain._replace(devices=domain.devices & kept),)
    return domains


def _values(groups: Sequence[int], devices: int) -> int:
    """Return the values that some devices have, as a set of groups."""
    return bits.from_positions(place for place, group in enumerate(groups) if group & devices)


def _kind(
    problem: Problem, keys: Iterable[CandidateKey], position: int, in_flight: InFlight
) -> tuple[object, ...]:
    """Return what shareable devices have in common that have the same room, and give the same shares to all.

    The first share of a device pays its counters, so it also matters whether there is one.
    """
    paid = position in in_flight
    return paid, problem.room(position, in_flight), [problem.amounts(key, position) for key in keys]
