"""Groups: the devices of a node by the values of some attributes.

A matchAttribute constraint lets devices of one group stand together, a distinctAttribute constraint one device of each.
Which device is in which group depends on what is published and on nothing else, so it is found once for a node view and
kept with it. A list has something in common with many values; a device that has one is odd, and only the plain search
deals with it.
Source: docs/dra-semantics 3.7.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dra_operator.api.attributes import AttributeValue
from dra_operator.inventory import NodeView, bits
from dra_operator.inventory.columns import AttributeColumn

_MAX_KNOWN = 4096
_MAX_OF_VIEW = 32
"""There are thousands of views, and claims can name as many attributes that no device has."""
SCALARS = frozenset(("int", "bool", "string", "version"))
_Pair = tuple[AttributeColumn | None, AttributeColumn | None]
"""The columns of an attribute: by its literal key, and by its bare id."""


@dataclass(slots=True)
class Groups:
    """Sets of positions of a node view, each of devices with equal values, by their lowest device.

    `members` is all groups together: the devices that have all of the attributes. `odd` are those with a list or an
    unknown value. `size` is the number of all devices. `values` are those of each group, one for each attribute.
    """

    groups: tuple[int, ...]
    members: int
    odd: int
    size: int
    values: tuple[tuple[AttributeValue | None, ...], ...] = ()
    _numbers: Sequence[int] | None = field(default=None, compare=False)

    @property
    def number_of(self) -> Sequence[int]:
        """The number of the group of each position, -1 for none."""
        if self._numbers is None:
            numbers = self._numbers = [-1] * self.size
            for number, those in enumerate(self.groups):
                for position in bits.each(those):
                    numbers[position] = number
        return self._numbers


@dataclass(slots=True)
class Grouping:
    """The groups of node views. Nodes of one kind publish equal columns, and share what is found out about them."""

    _known: dict[object, Groups] = field(default_factory=dict)

    def of(self, view: NodeView, attributes: tuple[str, ...]) -> Groups:
        """Return the groups of a node view by some attributes `domain/id`."""
        found = view.groups.get(attributes)
        if found is None:
            if len(view.groups) >= _MAX_OF_VIEW:
                view.groups.clear()
            found = view.groups[attributes] = self._find(view, attributes)
        assert isinstance(found, Groups)
        return found

    def _find(self, view: NodeView, attributes: tuple[str, ...]) -> Groups:
        table: list[tuple[int, list[_Pair]]] = []
        serials: list[int | None] = [len(attributes)]
        for pool in view.pools:
            for content in pool.slices:
                columns = [content.attribute_columns(name) for name in attributes]
                table.append((len(content.names), columns))
                serials.append(len(content.names))
                for literal, bare in columns:
                    serials.append(None if literal is None else literal.serial)
                    serials.append(None if bare is None else bare.serial)
        key = tuple(serials)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[key] = _group(table)
        return found


def _group(table: Sequence[tuple[int, Sequence[_Pair]]]) -> Groups:
    """Return the groups of some slices, of each its number of devices, and the columns of each attribute."""
    groups: dict[tuple[AttributeValue | None, ...], int] = {}
    odd = members = start = 0
    for size, columns in table:
        for kind, those in _alike(size, columns):
            here = those << start
            for value in kind:
                if value is not None and value.type not in SCALARS:
                    odd |= here
                    break
            else:
                if None not in kind:
                    groups[kind] = groups.get(kind, 0) | here
                    members |= here
        start += size
    return Groups(tuple(groups.values()), members, odd, start, tuple(groups))


def _alike(size: int, columns: Sequence[_Pair]) -> Iterable[tuple[tuple[AttributeValue | None, ...], int]]:
    """Return the values of the devices of a slice, each with those that have them, by their lowest."""
    if len(columns) == 1:
        literal, bare = columns[0]
        if literal is None or bare is None:
            column = literal or bare
            if column is None:
                return []
            return [((column.values[bits.lowest(those)],), those) for those in column.sets]
    rows = zip(*[_values(size, literal, bare) for literal, bare in columns], strict=True)
    return [(row, 1 << position) for position, row in enumerate(rows)]


def _values(
    size: int, literal: AttributeColumn | None, bare: AttributeColumn | None
) -> Iterable[AttributeValue | None]:
    """Return the value of each device of a slice; what its literal key lacks may stand under the bare one."""
    nothing = (None,) * size
    pairs = zip(
        nothing if literal is None else literal.values, nothing if bare is None else bare.values, strict=True
    )
    return [first if first is not None else second for first, second in pairs]
