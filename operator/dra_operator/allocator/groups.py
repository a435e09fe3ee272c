"""Groups: the devices of a node by the values of some attributes.

A matchAttribute constraint lets devices of one group stand together, a distinctAttribute constraint one device of each.
Which device is in which group depends on what is published and on nothing else, so it is found once for a node view and
kept with it. A list has something in common with many values; a device that has one is odd, and only the plain search
deals with it.
Source: docs/dra-semantics 3.7.
"""

from dataclasses import dataclass

from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import NodeView

_SCALARS = frozenset(("int", "bool", "string", "version"))


@dataclass(frozen=True, slots=True)
class Groups:
    """Sets of positions of a node view, each of devices with equal values, by their lowest device.

    `number_of` gives the group of each position, -1 for none; `members` is all groups together: the devices that have
    all of the attributes. `odd` are those with a list or an unknown value.
    """

    groups: tuple[int, ...]
    number_of: tuple[int, ...]
    members: int
    odd: int


def groups_of(view: NodeView, attributes: tuple[str, ...]) -> Groups:
    """Return the groups of a node view by some attributes `domain/id`."""
    found = view.groups.get(attributes)
    if found is None:
        found = view.groups[attributes] = _group(view, attributes)
    assert isinstance(found, Groups)
    return found


def _group(view: NodeView, attributes: tuple[str, ...]) -> Groups:
    numbers: dict[tuple[AttributeValue | None, ...], int] = {}
    groups: list[int] = []
    number_of: list[int] = []
    odd = members = 0
    for pool in view.pools:
        for content in pool.slices:
            for index in range(len(content.names)):
                bit = 1 << len(number_of)
                values = tuple(content.attribute(index, name) for name in attributes)
                number = -1
                if any(value is not None and value.type not in _SCALARS for value in values):
                    odd |= bit
                elif None not in values:
                    members |= bit
                    number = numbers.setdefault(values, len(groups))
                    if number == len(groups):
                        groups.append(0)
                    groups[number] |= bit
                number_of.append(number)
    return Groups(tuple(groups), tuple(number_of), members, odd)
