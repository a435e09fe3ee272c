"""Derived groups: the devices of a node by an attribute that requests derive.

The value of a device depends on who takes it. Mostly that makes no difference, since what derives the attribute in one
way and what in another are devices of different kinds. Where it could, or where an expression fails, only the plain
search can tell, which knows who takes a device and when it is reached.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from collections.abc import Iterable, Mapping

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.derived import DerivedAttributes
from dra_operator.allocator.found import UNSURE, Unsure
from dra_operator.allocator.groups import SCALARS, Groups
from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import NodeView, bits

_Alike = list[tuple[AttributeValue, int]]
"""Values, each with devices that have it."""


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
    alike: _Alike = []
    odd = seen = 0
    for expression, devices in takers.items():
        if devices & seen:
            return UNSURE
        seen |= devices
        if expression is None:
            assert published is not None
            odd |= published.odd & devices
            alike += _published(published, devices)
            continue
        found = _derived(view, expression, devices, derived, budget)
        if found is UNSURE:
            return UNSURE
        alike += found
    return _grouped(alike, odd, sum([pool.size for pool in view.pools]))


def _published(groups: Groups, devices: int) -> _Alike:
    return [
        (value, those & devices)
        for (value,), those in zip(groups.values, groups.groups, strict=True)
        if value is not None and those & devices
    ]


def _derived(
    view: NodeView, expression: str, devices: int, derived: DerivedAttributes, budget: Budget
) -> _Alike | Unsure:
    alike: _Alike = []
    for start, pool in zip(view.starts, view.pools, strict=True):
        for offset, content in zip(pool.offsets, pool.slices, strict=True):
            first = start + offset
            wanted = devices >> first & bits.first(len(content.names))
            if not wanted:
                continue
            values = derived.values(expression, content, wanted, budget)
            if values.failed & wanted:
                return UNSURE
            alike += [
                (value, (those & wanted) << first) for value, those in values.of.items() if those & wanted
            ]
    return alike


def _grouped(alike: Iterable[tuple[AttributeValue, int]], odd: int, size: int) -> Groups:
    groups: dict[AttributeValue, int] = {}
    members = 0
    for value, those in alike:
        if value.type in SCALARS:
            groups[value] = groups.get(value, 0) | those
            members |= those
        else:
            odd |= those
    found = sorted(groups.items(), key=_first_device)
    return Groups(
        tuple([those for _, those in found]), members, odd, size, tuple([(value,) for value, _ in found])
    )


def _first_device(group: tuple[AttributeValue, int]) -> int:
    return group[1] & -group[1]
