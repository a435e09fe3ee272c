"""Groups: the devices of a node by the values of some attributes.

A matchAttribute constraint lets devices of one group stand together, a distinctAttribute constraint one device of each.
Which device is in which group depends on what is published and on nothing else, so it is found once for a node view and
kept with it. A list has something in common with many values; a device that has one is odd, and only the plain search
deals with it.
Source: docs/dra-semantics 3.7.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import NodeView
from dra_operator.inventory.columns import AttributeColumn

_MAX_KNOWN = 4096
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


@dataclass(slots=True)
class Grouping:
    """The groups of node views. Nodes of one kind publish equal columns, and share what is found out about them."""

    _known: dict[object, Groups] = field(default_factory=dict)

    def of(self, view: NodeView, attributes: tuple[str, ...]) -> Groups:
        """Return the groups of a node view by some attributes `domain/id`."""
        found = view.groups.get(attributes)
        if found is None:
            found = view.groups[attributes] = self._find(view, attributes)
        assert isinstance(found, Groups)
        return found

    def _find(self, view: NodeView, attributes: tuple[str, ...]) -> Groups:
        table = [
            (len(content.names), [content.attribute_columns(name) for name in attributes])
            for pool in view.pools
            for content in pool.slices
        ]
        key = tuple(
            (size, *(column and column.serial for pair in columns for column in pair))
            for size, columns in table
        )
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            rows = chain.from_iterable(_rows(size, columns) for size, columns in table)
            found = self._known[key] = _group(rows)
        return found


def _rows(
    size: int, columns: Sequence[tuple[AttributeColumn | None, AttributeColumn | None]]
) -> Iterable[tuple[AttributeValue | None, ...]]:
    """Return the values of each device of a slice; what its literal key lacks may stand under the bare one."""
    merged: list[Sequence[AttributeValue | None]] = []
    for literal, bare in columns:
        if literal is not None and bare is not None:
            pairs = zip(literal.values, bare.values, strict=True)
            merged.append([first if first is not None else second for first, second in pairs])
        else:
            column = literal or bare
            merged.append((None,) * size if column is None else column.values)
    return zip(*merged, strict=True)


def _group(rows: Iterable[tuple[AttributeValue | None, ...]]) -> Groups:
    numbers: dict[tuple[AttributeValue | None, ...], int] = {}
    groups: list[int] = []
    number_of: list[int] = []
    odd = members = 0
    for position, values in enumerate(rows):
        bit = 1 << position
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
