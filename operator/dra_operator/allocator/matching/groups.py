"""Groups: the devices of a node by the values of an attribute, which match and distinct constraints are about.

A list is in the groups of all its values; only maximal groups are kept. Where groups overlap each has a mark, a bit
above those of the devices, so that sets of admitted devices carry the open groups through every intersection. Devices
that are odd, such as lists without their feature, are left to the exhaustive search. Source: docs/dra-semantics 3.7.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dra_operator.allocator.constraints import cannot_be_joined, elements
from dra_operator.api.attributes import SCALARS, AttributeValue
from dra_operator.inventory import Features, NodeView, bits
from dra_operator.inventory.slices import AttributeColumn

_MAX_OF_DEVICE = 256
"""A device has few values."""
_MOST_PLACES = 1 << 17
_MOST_BITS = 1 << 28
"""What lists may come to in a node: places of devices in groups, each some microseconds, and bits of all groups."""
_MOST_KEPT = 1 << 30
_BITS_BESIDES = 1 << 10
"""What is kept of all views, in bits: sets of devices, and what each set and its value take besides."""
_Pair = tuple[AttributeColumn | None, AttributeColumn | None]
"""The columns of an attribute: by its literal key, and by its bare id."""


@dataclass(slots=True)
class Groups:
    """Sets of positions of a node view, each of devices with a value in common, by their lowest device.

    `members` is all groups together: the devices that have the attribute. `odd` are those that cannot be told. `size`
    is the number of all devices. `values` are all there are, and `holders` the devices that have them. `overlapping`
    says that some devices are in several groups, which bear marks then.
    """

    groups: tuple[int, ...]
    members: int
    odd: int
    size: int
    values: tuple[AttributeValue, ...] = ()
    holders: tuple[int, ...] = ()
    overlapping: bool = False
    _beside: Sequence[int] | None = field(default=None, compare=False)

    @property
    def open(self) -> int:
        """What a constraint admits at first: the members, and the marks of all groups if they bear some."""
        return self.members | (bits.first(len(self.groups)) << self.size if self.overlapping else 0)

    @property
    def beside(self) -> Sequence[int]:
        """The groups of each position, all together; 0 for none."""
        if self._beside is None:
            beside = self._beside = [0] * self.size
            overlapping = self.overlapping
            row = bits.first(self.size)
            for group in self.groups:
                # A group is mostly of neighbours, so its bits are few if it is moved to the beginning of the row.
                start = bits.lowest(group)
                for position in bits.each((group & row) >> start):
                    # Where it is the only one, all of its devices share it.
                    beside[start + position] = beside[start + position] | group if overlapping else group
        return self._beside

    def common(self, admitted: int) -> int:
        """Return the groups whose marks are among what overlapping groups admit, all together."""
        found = 0
        for number in bits.each(admitted >> self.size):
            found |= self.groups[number]
        return found


@dataclass(slots=True)
class Grouping:
    """The groups of node views. Nodes of one kind publish equal columns, and share what is found out about them.

    If there are too many groups, all are forgotten.
    """

    features: Features
    _known: dict[object, Groups] = field(default_factory=dict)
    _size: int = 0

    def find(self, view: NodeView, attribute: str) -> Groups:
        """Return the groups of a node view by an attribute `domain/id`."""
        table: list[tuple[int, _Pair]] = []
        serials: list[int | None] = []
        for pool in view.pools:
            for slice_ in pool.slices:
                literal, bare = slice_.attribute_columns(attribute)
                size = len(slice_.names)
                table.append((size, (literal, bare)))
                serials += (
                    size,
                    None if literal is None else literal.serial,
                    None if bare is None else bare.serial,
                )
        key = tuple(serials)
        found = self._known.get(key)
        if found is None:
            found = self._group(table)
            self._size += _size(found)
            if self._size > _MOST_KEPT:
                self._known.clear()
                self._size = _size(found)
            self._known[key] = found
        return found

    def _group(self, table: Sequence[tuple[int, _Pair]]) -> Groups:
        """Return the groups of some slices, of each its number of devices, and the columns of the attribute."""
        holders: dict[AttributeValue, int] = {}
        odd = start = places = 0
        every = sum([size for size, _ in table])
        for size, columns in table:
            for value, those in _alike(*columns):
                values = values_of(value, self.features)
                if values is None:
                    odd |= those << start
                    continue
                each = those.bit_count()
                for one in values:
                    holders[one] = holders.get(one, 0) | those << start
                    places += each
            if are_too_many(len(holders), places, every):
                return ungrouped(every)
            start += size
        return groups_of(holders, odd, start)


def _size(groups: Groups) -> int:
    sets = 1 + len(groups.values)
    return sets * (groups.size + sets + _BITS_BESIDES)


def values_of(value: AttributeValue | None, features: Features) -> Sequence[AttributeValue] | None:
    """Return what devices with this attribute may have in common with others; None if that cannot be told.

    Who lacks it has nothing in common with anybody, with itself neither.
    """
    if value is None:
        return ()
    if value.type in SCALARS and value.type != "version":
        # Asked for each slice, and most are.
        return (value,)
    if cannot_be_joined(value, features):
        return None
    if value.type not in SCALARS and not features.list_type_attributes:
        return None
    found = elements(value, features.rules)
    return found if len(found) <= _MAX_OF_DEVICE else None


def are_too_many(values: int, places: int, size: int) -> bool:
    """True if so many values are too many to count with, of which some devices have so many all together.

    One value of each device is not, as where there are no lists.
    """
    return places > size and (places > _MOST_PLACES or values * (size + values) > _MOST_BITS)


def ungrouped(size: int) -> Groups:
    """Return the groups of devices of which none can be told."""
    return Groups((), 0, bits.first(size), size)


def groups_of(holders: Mapping[AttributeValue, int], odd: int, size: int) -> Groups:
    """Return the groups of devices that hold some values."""
    members = total = 0
    for those in holders.values():
        members |= those
        total += those.bit_count()
    every = tuple(holders.values())
    number = members.bit_count()
    if total == number:
        return Groups(every, members, odd, size, tuple(holders), every)
    if are_too_many(len(every), total, size):
        return ungrouped(size)
    groups = _largest(every)
    overlapping = sum([group.bit_count() for group in groups]) > number
    if overlapping:
        groups = tuple([group | 1 << size + place for place, group in enumerate(groups)])
    return Groups(groups, members, odd, size, tuple(holders), every, overlapping)


def _largest(sets: Sequence[int]) -> tuple[int, ...]:
    """Return the sets that are within no other one, each once, by their lowest device."""
    kept: list[int] = []
    kept_of: dict[int, list[int]] = {}
    for those in sorted(sets, key=int.bit_count, reverse=True):
        # Another one around it has its lowest device as well.
        if any(not those & ~other for other in kept_of.get(bits.lowest(those), ())):
            continue
        kept.append(those)
        for position in bits.each(those):
            kept_of.setdefault(position, []).append(those)
    return tuple(sorted(kept, key=bits.lowest))


def _alike(
    literal: AttributeColumn | None, bare: AttributeColumn | None
) -> Iterable[tuple[AttributeValue | None, int]]:
    """Return the values of the devices of a slice, each with those that have it; some may come several times."""
    if literal is not None and bare is not None:
        # What the literal key lacks may stand under the bare one.
        pairs = zip(literal.values, bare.values, strict=True)
        row = [first if first is not None else second for first, second in pairs]
        return [(value, 1 << position) for position, value in enumerate(row)]
    column = literal or bare
    return [] if column is None else [(column.values[bits.lowest(those)], those) for those in column.sets]
