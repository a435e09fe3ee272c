"""Derived groups: the devices of a node by an attribute that requests derive.

The value of a device depends on the request that takes it. Mostly this makes no difference, as requests that derive the
attribute in different ways are for devices of different kinds. If it does make a difference, or if an expression fails
on a device or may take long, only the plain search can tell: it knows which request takes a device, and when.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from collections.abc import Mapping

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.matching.derived import DerivedAttributes
from dra_operator.allocator.matching.groups import Combination, Groups, are_too_many, combinations, groups_of
from dra_operator.allocator.search.found import UNSURE, Unsure
from dra_operator.inventory import NodeView


def derived_groups(
    view: NodeView,
    takers: Mapping[str | None, int],
    published: Groups | None,
    derived: DerivedAttributes,
    budget: Budget,
    *,
    lists: bool,
) -> Groups | Unsure:
    """Return the groups of the devices that some requests could take, or that it is unsure.

    `takers` holds sets of positions by the expression that derives the attribute for whoever could take them; under
    None are those of requests that see what is `published`, which may be None if there are none. `lists` is the feature
    ListTypeAttributes. Raises AbortedError.
    """
    holders: dict[Combination, int] = {}
    seen = 0
    for expression, devices in takers.items():
        if expression is None:
            assert published is not None
            found = _published(published, devices)
        else:
            found = _derived(view, expression, devices, derived, budget, lists=lists)
        if found is UNSURE or _differ(holders, found, devices & seen):
            return UNSURE
        seen |= devices
        for values, those in found.items():
            holders[values] = holders.get(values, 0) | those
    in_order = dict(sorted(holders.items(), key=_first_device))
    return groups_of(in_order, 0, sum([pool.size for pool in view.pools]))


def _differ(some: Mapping[Combination, int], others: Mapping[Combination, int], devices: int) -> bool:
    """True if any of some devices has another value among the others, or a value in one of the two alone."""
    return bool(devices) and any(
        (some.get(value, 0) ^ others.get(value, 0)) & devices for value in some.keys() | others.keys()
    )


def _published(groups: Groups, devices: int) -> dict[Combination, int] | Unsure:
    """Return which of some devices hold each value, or that it is unsure of one of them."""
    if groups.odd & devices:
        return UNSURE
    return {
        values: those & devices
        for values, those in zip(groups.values, groups.holders, strict=True)
        if those & devices
    }


def _derived(
    view: NodeView, expression: str, devices: int, derived: DerivedAttributes, budget: Budget, *, lists: bool
) -> dict[Combination, int] | Unsure:
    """Return the same of what an expression derives."""
    if not derived.can_be_asked_ahead(expression):
        return UNSURE
    held: dict[Combination, int] = {}
    places = 0
    every = sum([pool.size for pool in view.pools])
    for start, pool in view.row:
        for offset, slice_ in pool.placed:
            first = start + offset
            wanted = devices >> first & slice_.every
            if not wanted:
                continue
            values = derived.values(expression, slice_, wanted, budget)
            if values.failed & wanted:
                return UNSURE
            for value, those in values.of.items():
                here = (those & wanted) << first
                if not here:
                    continue
                combined = combinations((value,), lists=lists)
                if combined is None:
                    return UNSURE
                for found in combined:
                    held[found] = held.get(found, 0) | here
                    places += here.bit_count()
            if are_too_many(len(held), places, every):
                return UNSURE
    return held


def _first_device(held: tuple[Combination, int]) -> int:
    return held[1] & -held[1]
