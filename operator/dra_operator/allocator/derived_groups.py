"""Derived groups: the devices of a node by an attribute that requests derive.

The value of a device depends on who takes it. Mostly that makes no difference, since what derives the attribute in one
way and what in another are devices of different kinds. Where it does, where an expression fails on a device or may take
long, only the plain search can tell, which knows who takes a device and when it is reached.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from collections.abc import Mapping

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.derived import DerivedAttributes
from dra_operator.allocator.found import UNSURE, Unsure
from dra_operator.allocator.groups import SCALARS, Groups
from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import NodeView


def derived_groups(
    view: NodeView,
    takers: Mapping[str | None, int],
    published: Groups | None,
    derived: DerivedAttributes,
    budget: Budget,
) -> Groups | Unsure:
    """Return the groups of the devices that some requests could take, or that it is unsure.

    `takers` holds sets of positions by the expression that derives the attribute for whoever could take them; under
    None are those of requests that see what is `published`, which may be None if there are none. Raises AbortedError.
    """
    groups: dict[AttributeValue, int] = {}
    odd = seen = 0
    for expression, devices in takers.items():
        if expression is None:
            assert published is not None
            odd = published.odd & devices
            found: Mapping[AttributeValue, int] | Unsure = _published(published, devices)
        else:
            found = _derived(view, expression, devices, derived, budget)
        if found is UNSURE or _differ(groups, found, devices & seen):
            return UNSURE
        seen |= devices
        for value, those in found.items():
            groups[value] = groups.get(value, 0) | those
    return _grouped(groups, odd, sum([pool.size for pool in view.pools]))


def _differ(some: Mapping[AttributeValue, int], others: Mapping[AttributeValue, int], devices: int) -> bool:
    """True if any of some devices has another value among the others, or a value in one of the two alone."""
    return bool(devices) and any(
        (some.get(value, 0) ^ others.get(value, 0)) & devices for value in some.keys() | others.keys()
    )


def _published(groups: Groups, devices: int) -> Mapping[AttributeValue, int]:
    return {
        value: those & devices
        for (value,), those in zip(groups.values, groups.groups, strict=True)
        if value is not None and those & devices
    }


def _derived(
    view: NodeView, expression: str, devices: int, derived: DerivedAttributes, budget: Budget
) -> Mapping[AttributeValue, int] | Unsure:
    if not derived.can_be_asked_ahead(expression):
        return UNSURE
    found: dict[AttributeValue, int] = {}
    for start, pool in view.row:
        for offset, content in pool.placed:
            first = start + offset
            wanted = devices >> first & content.every
            if not wanted:
                continue
            values = derived.values(expression, content, wanted, budget)
            if values.failed & wanted:
                return UNSURE
            for value, those in values.of.items():
                if those & wanted:
                    found[value] = found.get(value, 0) | (those & wanted) << first
    return found


def _grouped(found: Mapping[AttributeValue, int], odd: int, size: int) -> Groups:
    groups: list[tuple[AttributeValue, int]] = []
    members = 0
    for value, those in sorted(found.items(), key=_first_device):
        if value.type in SCALARS:
            groups.append((value, those))
            members |= those
        else:
            odd |= those
    return Groups(
        tuple([those for _, those in groups]), members, odd, size, tuple([(value,) for value, _ in groups])
    )


def _first_device(group: tuple[AttributeValue, int]) -> int:
    return group[1] & -group[1]
