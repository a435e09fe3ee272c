"""Derived groups: the devices of a node by an attribute that requests derive.

The value of a device depends on who takes it. Mostly that makes no difference, since what derives the attribute in one
way and what in another are devices of different kinds. Where it does, or where an expression fails, only the plain
search can tell, which knows who takes a device and when it is reached.
Source: docs/dra-semantics 8.13, KEP-6080.
"""

from collections.abc import Iterator, Mapping, Sequence

from dra_operator.allocator.budget import Budget
from dra_operator.allocator.derived import Derived, DerivedAttributes
from dra_operator.allocator.found import UNSURE, Unsure
from dra_operator.allocator.groups import SCALARS, Groups
from dra_operator.api.attributes import AttributeValue
from dra_operator.cel import CelError
from dra_operator.inventory import NodeView, Slice, bits


def derived_groups(
    view: NodeView,
    attribute: str,
    takers: Mapping[str | None, int],
    derived: DerivedAttributes,
    budget: Budget,
) -> Groups | Unsure:
    """Return the groups of the devices that some requests could take, or that it is unsure.

    `takers` holds sets of positions by the expression that derives the attribute for whoever could take them; under
    None are those of requests that see what is published. Raises AbortedError.
    """
    values: dict[int, Derived] = {}
    for expression, devices in takers.items():
        for position, value in _seen(view, attribute, expression, devices, derived=derived, budget=budget):
            if isinstance(value, CelError) or values.setdefault(position, value) != value:
                return UNSURE
    groups: dict[tuple[AttributeValue], int] = {}
    odd = members = 0
    for position in sorted(values):
        value = values[position]
        if not isinstance(value, AttributeValue):
            continue
        if value.type in SCALARS:
            groups[value,] = groups.get((value,), 0) | 1 << position
            members |= 1 << position
        else:
            odd |= 1 << position
    size = sum([pool.size for pool in view.pools])
    return Groups(tuple(groups.values()), members, odd, size, tuple(groups))


def _seen(
    view: NodeView,
    attribute: str,
    expression: str | None,
    devices: int,
    *,
    derived: DerivedAttributes,
    budget: Budget,
) -> Iterator[tuple[int, Derived]]:
    """Yield the positions of some devices, and what the attribute of each is to whoever derives it so."""
    for start, pool in zip(view.starts, view.pools, strict=True):
        for offset, content in zip(pool.offsets, pool.slices, strict=True):
            first = start + offset
            here = devices >> first & bits.first(len(content.names))
            if not here:
                continue
            values = (
                _published(content, attribute)
                if expression is None
                else derived.values(expression, content, here, budget)
            )
            for index in bits.each(here):
                yield first + index, values[index]


def _published(content: Slice, attribute: str) -> Sequence[AttributeValue | None]:
    return [content.attribute(index, attribute) for index in range(len(content.names))]
