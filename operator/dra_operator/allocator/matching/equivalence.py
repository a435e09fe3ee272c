"""Equivalence of devices: what a selector reads, the devices that are equal in it, and one limit for kept answers.

The answer of a selector depends on a known part of a device (its field set), so it is evaluated once for all devices
that are equal there (an equivalence class), in all slices. Field sets and classes are shared by all selectors. Each
claim may bring selectors of its own, so the answers of all of them share a limit: the oldest are forgotten first.
Source: docs/engine section 2.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from sys import intern
from typing import Any, Final, TypeVar

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.cel.device import PreparedDevice, full_name, is_qualified, prepare_device
from dra_operator.cel.values import legal_text
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.slices import Column, Schema

_MAX_SCHEMAS = 1024
_MAX_LOOKS = 16_384
_PublishedNames = tuple[tuple[str, str], ...]
"""Names as `domain/id`, each with the one it is published by."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A fully qualified name, and how devices may write it: those of the driver that has its domain, and of others.

    Where a device has both spellings, the one with the domain counts: it comes last.

    A bare name belongs to the domain that equals the driver's name.
    """

    full: str
    domain: str
    own: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "_Name":
        domain, _, identifier = text.partition("/")
        return cls(intern(text), domain, (identifier, text), (text,))


@fast_dataclass
class Projection:
    """What is read of slices of one schema: the names, and what picks the serial numbers of their columns.

    `look` is the same for schemas that differ in nothing but names that are not read.
    """

    look: object
    attributes: _PublishedNames
    capacity: _PublishedNames
    pick: Callable[[tuple[int, ...]], object]


@dataclass(frozen=True, slots=True, eq=False)
class FieldSet:
    """What a selector reads: these attributes and amounts, or with `whole` all of them.

    The object remembers what it finds out about slices, so selectors that read the same should share one.
    """

    whole: bool
    attributes: tuple[_Name, ...] = ()
    capacity: tuple[_Name, ...] = ()
    _projections: dict[Schema, Projection] = field(default_factory=dict)
    _looks: dict[object, object] = field(default_factory=dict)

    @classmethod
    def parse(cls, reads: frozenset[str] | None) -> "FieldSet":
        """Return what an expression reads, from the names that its program gives."""
        if reads is None:
            return cls(whole=True)
        return cls(False, _named("attributes/", reads), _named("capacity/", reads))

    def key(self, slice_: Slice) -> object:
        """Return a key that is equal for slices whose devices no selector with these reads can tell apart."""
        projection = self.projection(slice_.schema)
        return (projection.look, projection.pick(slice_.serials))

    def projection(self, schema: Schema) -> Projection:
        """Return what is read of slices of a schema."""
        found = self._projections.get(schema)
        if found is not None:
            return found
        if len(self._projections) >= _MAX_SCHEMAS:
            self._projections.clear()
            # With a look that is forgotten go all answers, so there is room for more of these.
            if len(self._looks) >= _MAX_LOOKS:
                self._looks.clear()
        found = self._projections[schema] = self._all_of(schema) if self.whole else self._part_of(schema)
        return found

    def _part_of(self, schema: Schema) -> Projection:
        attributes: _PublishedNames = ()
        capacity: _PublishedNames = ()
        places: list[int] = []
        if self.attributes:
            attributes = _present(self.attributes, schema.attributes, schema.driver)
            places = [schema.attributes.index(name) for _, name in attributes]
        if self.capacity:
            capacity = _present(self.capacity, schema.capacity, schema.driver)
            places += [len(schema.attributes) + schema.capacity.index(name) for _, name in capacity]
        # Slices differ for other selectors in names that these do not read.
        fields = (schema.driver, attributes, capacity, schema.size, schema.shareable, schema.unreadable)
        look = self._looks.get(fields)
        if look is None:
            look = self._looks[fields] = object()
        return Projection(look, attributes, capacity, itemgetter(*places) if places else _nothing)

    @staticmethod
    def _all_of(schema: Schema) -> Projection:
        attributes, capacity = (
            tuple([(full_name(name, schema.driver), name) for name in sorted(names, key=is_qualified)])
            for names in (schema.attributes, schema.capacity)
        )
        return Projection(schema, attributes, capacity, tuple)


def _named(kind: str, reads: Iterable[str]) -> tuple[_Name, ...]:
    return tuple([_Name.parse(read.removeprefix(kind)) for read in sorted(reads) if read.startswith(kind)])


def _present(names: Iterable[_Name], published: tuple[str, ...], driver: str) -> _PublishedNames:
    """Return those of the names, as devices of a driver may write them, that any device has."""
    return tuple(
        [
            (item.full, name)
            for item in names
            for name in (item.own if item.domain == driver else item.others)
            if name in published
        ]
    )


def _nothing(serials: tuple[int, ...]) -> object:
    del serials
    return None


_MAX_SIZE = 655_360
_SIZE_OF_KIND = 4
"""A kind takes about as much room as so many of the values in it."""

Kind = tuple[PreparedDevice, int]
"""A device as selectors see it, and the set of the devices of the slice that look like this."""
_Columns = list[tuple[str, Column[Any]]]


@dataclass(slots=True)
class _KnownKinds:
    """The kinds of the devices of a slice that somebody has asked about, `ready`."""

    ready: int = 0
    kinds: list[Kind] = field(default_factory=list)


@dataclass(slots=True)
class EquivalentDevices:
    """The kinds of devices of slices, by what is read of them. If there are too many, all are forgotten.

    A selector goes through all slices in turn, so a limit that is too small for all of them would keep nothing useful.
    This one is enough for 131,072 kinds with one value, and for 32,768 with sixteen.
    """

    maximum: int = _MAX_SIZE
    _known: dict[object, _KnownKinds] = field(default_factory=dict)
    _size: int = 0

    def find(self, reads: FieldSet, slice_: Slice, key: object, wanted: int) -> Sequence[Kind]:
        """Return the kinds of some devices of a slice, and maybe others, as far as they are read.

        `key` is that of the reads for the slice. Most devices are in use, and nobody asks about those.
        """
        found = self._known.get((reads, key))
        if found is None:
            self._make_room()
            found = self._known[reads, key] = _KnownKinds()
        if missing := wanted & ~found.ready:
            kinds = _kinds(reads, slice_, missing)
            found.kinds += kinds
            for device, those in kinds:
                found.ready |= those
                self._size += _SIZE_OF_KIND + len(device.attributes) + len(device.capacity)
        return found.kinds

    def _make_room(self) -> None:
        if self._size > self.maximum:
            self._known.clear()
            self._size = 0


def _kinds(reads: FieldSet, slice_: Slice, wanted: int) -> list[Kind]:
    """Return the kinds that the wanted devices of a slice are of."""
    schema = slice_.schema
    projection = reads.projection(schema)
    attributes: _Columns = [(full, slice_.attributes[name]) for full, name in projection.attributes]
    capacity: _Columns = [(full, slice_.capacity[name]) for full, name in projection.capacity]
    driver, shareable = legal_text(schema.driver), schema.shareable
    readable = bits.first(schema.size) & ~schema.unreadable
    sets = [those for those in (readable & ~shareable, readable & shareable) if those & wanted]
    for _, column in attributes + capacity:
        sets = [both for those in sets for equal in column.sets if (both := those & equal) & wanted]
    found: list[Kind] = []
    for those in sets:
        index = bits.lowest(those)
        device = PreparedDevice(
            driver,
            bool(those & shareable),
            {name: value for name, column in attributes if (value := column.prepared[index]) is not None},
            {name: value for name, column in capacity if (value := column.prepared[index]) is not None},
            None,
        )
        found.append((device, those))
    # Each selector fails on these, whatever it reads.
    if unreadable := wanted & schema.unreadable:
        found += [
            (prepare_device(slice_.driver, slice_.device(index)), 1 << index)
            for index in bits.each(unreadable)
        ]
    return found


_Value = TypeVar("_Value")
_MOST_TEXT: Final = 524_288
"""How many characters expressions may have together whose code is kept."""


@dataclass(slots=True)
class CacheLimit:
    """Room for so many answers of all who keep some, each in a dict; when it is used up, all are forgotten.

    A keeper enters and removes answers only as the methods here say. An answer may take the room of several.
    """

    maximum: int
    _taken: int = 0
    _kept: dict[int, dict[Any, Any]] = field(default_factory=dict)
    _sizes: dict[int, int] = field(default_factory=dict)

    def reserve(self, answers: dict[Any, Any], size: int = 1) -> None:
        """Take room for one more answer of this size, which is to be entered next."""
        if self._taken + size > self.maximum:
            for kept in tuple(self._kept.values()):
                self.release(kept)
        key = id(answers)
        self._taken += size
        self._kept[key] = answers
        self._sizes[key] = self._sizes.get(key, 0) + size

    def release(self, answers: dict[Any, Any]) -> None:
        """Forget the answers of a keeper."""
        if self._kept.pop(id(answers), None) is not None:
            self._taken -= self._sizes.pop(id(answers))
            answers.clear()

    def forget(self, keys: Collection[object]) -> None:
        """Forget the answers under these keys, of all keepers; each takes the room of one."""
        for answers in tuple(self._kept.values()):
            gone = len([answers.pop(key) for key in keys if key in answers])
            self._taken -= gone
            self._sizes[id(answers)] -= gone
            if not answers:
                self.release(answers)


class ExpressionCache(dict[str, _Value]):
    """What was made of expressions. Code takes up to 400 bytes a character, and users bring as many as they like."""

    __slots__ = ("_length",)

    def __init__(self) -> None:
        super().__init__()
        self._length = 0

    def make_room(self, expression: str, maximum: int) -> list[_Value]:
        """Drop the older half, and return it, if one more expression would be too many, or too much text."""
        self._length += len(expression)
        if len(self) < maximum and self._length <= _MOST_TEXT:
            return []
        dropped = drop_older_half(self)
        self._length = len(expression) + sum(map(len, self))
        return dropped


def drop_older_half(table: dict[Any, _Value]) -> list[_Value]:
    """Remove the older half of a full table, and return its values."""
    return [table.pop(key) for key in list(table)[: len(table) // 2]]
