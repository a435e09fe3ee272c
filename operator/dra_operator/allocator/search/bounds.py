"""Bounds: necessary conditions for a solution, found by counting instead of trying.

A search that turns back where a bound is not met misses nothing and finds the same solution first. A set of devices is
an int; `allowed` holds, for each constraint, the devices that it still admits. `first_without_place` is Kuhn's
algorithm for bipartite b-matching.
Source: docs/engine sections 7 and 8.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from dra_operator.allocator.matching.groups import Groups
from dra_operator.api.fast_dataclass import fast_dataclass

_NO_GUESTS: Final[Mapping[int, int]] = {}


@fast_dataclass
class Choice:
    """An alternative: `count` devices out of `mask`, bound by the constraints with these numbers."""

    mask: int
    count: int
    constraints: tuple[int, ...]


Demand = tuple[Choice, ...]
"""A request: one of the choices."""
_Need = Sequence[tuple[int, int]]
"""The devices of each choice of a request, and how many of them it takes."""


@fast_dataclass
class GroupRule:
    """A constraint over groups of devices with equal values: all from one group, or else no two from the same."""

    matching: bool
    groups: Groups


def candidates(choice: Choice, available: int, allowed: Sequence[int]) -> int:
    """Return the devices that a choice can still take."""
    wanted = choice.mask & available
    for number in choice.constraints:
        wanted &= allowed[number]
    return wanted


def have_enough(demands: Iterable[Demand], available: int, allowed: Sequence[int]) -> bool:
    """False if a request has, for every alternative, fewer candidates than it needs."""
    for demand in demands:
        for choice in demand:
            wanted = choice.mask & available
            for number in choice.constraints:
                wanted &= allowed[number]
            if wanted.bit_count() >= choice.count:
                break
        else:
            return False
    return True


def narrow(
    rules: Sequence[GroupRule],
    demands: Sequence[Demand],
    available: int,
    allowed: Sequence[int],
    *,
    shareable: int,
) -> tuple[int, ...]:
    """Return `allowed` with only those groups of matching rules that have room for all requests bound to the rule.

    Requests cannot share a device that is not shareable, so the sum of what they need must fit as well.
    """
    narrowed = list(allowed)
    for number, rule in enumerate(rules):
        bound = [demand for demand in demands if _may_be_bound(demand, number)]
        if not rule.matching or not bound:
            continue
        # Whatever the group, the other rules leave each request the same devices.
        narrowed[number] = -1
        needs, own = _needs(bound, number, available, narrowed, shareable=shareable)
        kept = 0
        for group in rule.groups.groups:
            if has_enough_devices(group, needs) and (not own or _has_sum(group, own, shareable)):
                kept |= group
        narrowed[number] = kept & allowed[number]
    return tuple(narrowed)


def _needs(
    bound: Iterable[Demand], number: int, available: int, allowed: Sequence[int], *, shareable: int
) -> tuple[Sequence[_Need], Sequence[tuple[int, int]]]:
    """Return what requests need of each group of a rule, and how many devices each needs for itself there."""
    needs: list[_Need] = []
    own: list[tuple[int, int]] = []
    for demand in bound:
        inside: list[tuple[int, int]] = []
        elsewhere, union = False, 0
        for choice in demand:
            wanted = candidates(choice, available, allowed)
            if number in choice.constraints:
                inside.append((wanted, choice.count))
                union |= wanted
            elif wanted.bit_count() >= choice.count:
                elsewhere = True
        if not elsewhere:
            needs.append(inside)
        if union & ~shareable and is_bound(demand, number):
            own.append((union, least_of(demand)))
    return needs, own


def has_enough_devices(group: int, needs: Iterable[_Need]) -> bool:
    """False if a group has too few devices for every choice of one of the needs."""
    for inside in needs:
        for devices, count in inside:
            if (devices & group).bit_count() >= count:
                break
        else:
            return False
    return True


def _has_sum(group: int, own: Iterable[tuple[int, int]], shareable: int) -> bool:
    union = least = 0
    for devices, count in own:
        wanted = devices & group
        if not wanted & shareable:
            union |= wanted
            least += count
    return union.bit_count() >= least


def have_values(groups: Sequence[int], lots: Iterable[tuple[int, int]]) -> bool:
    """False if the devices of the lots, of each lot so many, cannot all have different values; a group is a value."""
    reached: list[tuple[int, int]] = []
    for devices, count in lots:
        values = 0
        for place, group in enumerate(groups):
            if group & devices:
                values |= 1 << place
        reached.append((values, count))
    return first_without_place(reached) is None


def have_whole(groups: Sequence[int], family: Sequence[tuple[int, int]]) -> bool:
    """False if a family of rules, with how many of which devices each needs, needs more whole groups than there are."""
    least = min([total for total, _ in family])
    union = 0
    for _, devices in family:
        union |= devices
    return sum([(group & union).bit_count() // least for group in groups]) >= len(family)


def first_without_place(
    lots: Sequence[tuple[int, int]], share_limits: Mapping[int, int] = _NO_GUESTS
) -> int | None:
    """Return the index of the first lot that cannot have so many of its devices beside those before; None if all can.

    A device is for one lot, or for as many as `share_limits` says, but only once for each. By augmenting paths.
    """
    unions = [devices for devices, _ in lots]
    mine = [0] * len(lots)
    owners: dict[int, list[int]] = {}
    full = seen = 0

    def place(lot: int) -> bool:
        nonlocal full, seen
        if free := unions[lot] & ~mine[lot] & ~full & ~seen:
            bit = free & -free
            owned = owners.setdefault(bit, [])
            owned.append(lot)
            mine[lot] |= bit
            if len(owned) >= share_limits.get(bit, 1):
                full |= bit
            return True
        while wanted := unions[lot] & ~mine[lot] & ~seen:
            bit = wanted & -wanted
            seen |= bit
            owned = owners[bit]
            for number, other in enumerate(owned):
                if place(other):
                    mine[other] &= ~bit
                    owned[number] = lot
                    mine[lot] |= bit
                    return True
        return False

    for lot, (_, count) in enumerate(lots):
        for _ in range(count):
            seen = 0
            if not place(lot):
                return lot
    return None


def _may_be_bound(demand: Demand, number: int) -> bool:
    """True if the constraint with this number applies to one of the choices."""
    for choice in demand:  # noqa: SIM110 - asked for each group, and a generator takes longer than this
        if number in choice.constraints:
            return True
    return False


def is_bound(demand: Demand, number: int) -> bool:
    """True if the constraint with this number applies to each of the choices."""
    for choice in demand:  # noqa: SIM110 - as above
        if number not in choice.constraints:
            return False
    return True


def least_of(demand: Demand) -> int:
    """Return how many devices a request takes at least."""
    return min([choice.count for choice in demand])
