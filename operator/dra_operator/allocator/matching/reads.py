"""Reads: the part of a slice that the answer of a selector depends on.

What a selector reads is known from its text. So its answers are kept by those columns and values only. And an
evaluation is given only those attributes and amounts of a device: a selector reads one or two of a dozen attributes,
and preparing the others would take longer than the evaluation.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from sys import intern

from dra_operator.api.sealed import sealed
from dra_operator.cel.device import full_name
from dra_operator.inventory import Slice
from dra_operator.inventory.columns import Schema

_MAX_SCHEMAS = 1024
_MAX_LOOKS = 16_384
_PublishedNames = tuple[tuple[str, str], ...]
"""Names as `domain/id`, each with the one it is published by."""


@dataclass(frozen=True, slots=True)
class _Name:
    """A fully qualified name, and how devices may write it: those of the driver that has its domain, and of others.

    A bare name belongs to the domain that equals the driver's name.
    """

    full: str
    domain: str
    own: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "_Name":
        domain, _, identifier = text.partition("/")
        return cls(intern(text), domain, tuple(sorted((text, identifier))), (text,))


@sealed
class Projection:
    """What is read of slices of one schema: the names, and what picks the serial numbers of their columns.

    `look` is the same for schemas that differ in nothing but names that are not read.
    """

    look: object
    attributes: _PublishedNames
    capacity: _PublishedNames
    pick: Callable[[tuple[int, ...]], object]


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """What a selector reads: these attributes and amounts, or with `whole` all of them.

    The object remembers what it finds out about slices, so selectors that read the same should share one.
    """

    whole: bool
    attributes: tuple[_Name, ...] = ()
    capacity: tuple[_Name, ...] = ()
    _projections: dict[Schema, Projection] = field(default_factory=dict)
    _looks: dict[object, object] = field(default_factory=dict)

    @classmethod
    def of(cls, reads: frozenset[str] | None) -> "Reads":
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
            tuple([(full_name(name, schema.driver), name) for name in names])
            for names in (schema.attributes, schema.capacity)
        )
        return Projection(schema, attributes, capacity, tuple)


def _named(kind: str, reads: Iterable[str]) -> tuple[_Name, ...]:
    return tuple([_Name.of(read.removeprefix(kind)) for read in sorted(reads) if read.startswith(kind)])


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
