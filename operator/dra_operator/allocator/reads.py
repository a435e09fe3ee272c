"""Reads: the part of a slice that the answer of a selector depends on.

What a selector reads is known from its text. So its answer is kept by those columns and values alone, and a device is
shown to it with those attributes and amounts alone: of a dozen attributes it reads one or two, and making the others
ready for an evaluation takes longer than the evaluation.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from dra_operator.api.sealed import sealed
from dra_operator.cel import PreparedDevice, Selector
from dra_operator.cel.device import assemble_device
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column, Schema

_MAX_SCHEMAS = 1024
_MAX_LOOKS = 16_384
_Named = Sequence[tuple[str, Column[Any]]]


@dataclass(frozen=True, slots=True)
class _Name:
    """A fully qualified name, and how devices may write it: those of the driver that has its domain, and of others.

    A bare name belongs to the domain that equals the driver's name.
    """

    domain: str
    own: tuple[str, ...]
    others: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> "_Name":
        domain, _, identifier = text.partition("/")
        return cls(domain, tuple(sorted((text, identifier))), (text,))


@sealed
class Excerpt:
    """What is read of a slice: some of its columns."""

    content: Slice
    attributes: _Named
    capacity: _Named

    def sets(self) -> list[int]:
        """Return the sets of devices that are equal in what is read."""
        found = [bits.first(len(self.content.names))]
        for _, column in (*self.attributes, *self.capacity):
            sets = column.sets
            if len(sets) > 1:
                found = [both for those in found for equal in sets if (both := those & equal)]
        return found

    def device(self, index: int) -> PreparedDevice:
        """Return what is read of a device, ready for evaluation."""
        content = self.content
        return assemble_device(
            content.driver,
            content.traits[index].shareable,
            [
                (name, column.prepared[index])
                for name, column in self.attributes
                if column.values[index] is not None
            ],
            [
                (name, column.prepared[index])
                for name, column in self.capacity
                if column.values[index] is not None
            ],
        )


@sealed
class _Projection:
    """What is read of slices of one schema: the names, and what picks the serial numbers of their columns.

    `look` is the same for schemas that differ in nothing but names that are not read.
    """

    look: object
    attributes: tuple[str, ...]
    capacity: tuple[str, ...]
    pick: Callable[[tuple[int, ...]], object]


@dataclass(frozen=True, slots=True, eq=False)
class Reads:
    """What a selector reads: these attributes and amounts, or with `whole` all of them.

    With `nothing` it reads none of them, as most selectors of classes do: they ask for the driver.

    What is found out about slices is kept by the object, so selectors that read the same should have the same one.
    """

    whole: bool
    nothing: bool = False
    attributes: tuple[_Name, ...] = ()
    capacity: tuple[_Name, ...] = ()
    _projections: dict[Schema, _Projection] = field(default_factory=dict)
    _looks: dict[object, object] = field(default_factory=dict)

    @classmethod
    def of(cls, program: Selector) -> "Reads":
        """Return what a selector reads."""
        if program.reads is None:
            return cls(whole=True)
        attributes = _named("attributes/", program.reads)
        capacity = _named("capacity/", program.reads)
        return cls(
            whole=False, nothing=not attributes and not capacity, attributes=attributes, capacity=capacity
        )

    def key(self, content: Slice) -> object:
        """Return something equal for slices that no selector with these reads can tell apart, device by device."""
        schema = content.schema
        if self.nothing:
            return schema
        projection = self._projections.get(schema)
        if projection is None:
            projection = self._project(schema)
        return (projection.look, projection.pick(content.serials))

    def excerpt(self, content: Slice) -> Excerpt:
        """Return the part of a slice that is read."""
        projection = self._projections.get(content.schema) or self._project(content.schema)
        return Excerpt(
            content,
            [(name, content.attributes[name]) for name in projection.attributes],
            [(name, content.capacity[name]) for name in projection.capacity],
        )

    def _project(self, schema: Schema) -> _Projection:
        if len(self._projections) >= _MAX_SCHEMAS:
            self._projections.clear()
            # With a look that is forgotten go all answers, so there is room for more of these.
            if len(self._looks) >= _MAX_LOOKS:
                self._looks.clear()
        if self.whole:
            found = _Projection(schema, schema.attributes, schema.capacity, tuple)
        else:
            attributes: tuple[str, ...] = ()
            capacity: tuple[str, ...] = ()
            places: list[int] = []
            if self.attributes:
                attributes = _present(self.attributes, schema.attributes, schema.driver)
                places = list(map(schema.attributes.index, attributes))
            if self.capacity:
                capacity = _present(self.capacity, schema.capacity, schema.driver)
                places += [len(schema.attributes) + schema.capacity.index(name) for name in capacity]
            # Slices differ for other selectors in names that these do not read.
            fields = (schema.driver, attributes, capacity, schema.size, schema.shareable, schema.unreadable)
            look = self._looks.get(fields)
            if look is None:
                look = self._looks[fields] = object()
            found = _Projection(look, attributes, capacity, itemgetter(*places) if places else _nothing)
        self._projections[schema] = found
        return found


def _named(kind: str, reads: Iterable[str]) -> tuple[_Name, ...]:
    return tuple([_Name.of(read.removeprefix(kind)) for read in sorted(reads) if read.startswith(kind)])


def _present(names: Iterable[_Name], published: Container[str], driver: str) -> tuple[str, ...]:
    """Return those of the names, as devices of a driver may write them, that any device has."""
    return tuple(
        [
            name
            for item in names
            for name in (item.own if item.domain == driver else item.others)
            if name in published
        ]
    )


def _nothing(serials: tuple[int, ...]) -> object:
    del serials
    return None
