"""Reads: the part of a slice that the answer of a selector depends on.

What a selector reads is known from its text. So its answer is kept by those columns and values alone, and a device is
shown to it with those attributes and amounts alone: of a dozen attributes it reads one or two, and making the others
ready for an evaluation takes longer than the evaluation.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dra_operator.api.sealed import sealed
from dra_operator.cel import PreparedDevice, Selector
from dra_operator.cel.device import assemble_device
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column

_Named = tuple[tuple[str, Column[Any]], ...]


@dataclass(frozen=True, slots=True)
class _Name:
    """A fully qualified name. `spellings` says how a device may write it, sorted, and which of them is the bare one.

    A bare name belongs to the domain that equals the driver's name.
    """

    domain: str
    spellings: tuple[tuple[str, bool], ...]

    @classmethod
    def of(cls, text: str) -> "_Name":
        domain, _, identifier = text.partition("/")
        return cls(domain, tuple(sorted([(text, False), (identifier, True)])))

    def of_driver(self, driver: str) -> Iterable[str]:
        own = self.domain == driver
        return [name for name, bare in self.spellings if own or not bare]


@sealed
class Part:
    """A part of a slice: some of its columns, and the key of what is read of it."""

    content: Slice
    attributes: _Named
    capacity: _Named
    key: object

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


@dataclass(frozen=True, slots=True)
class Reads:
    """What a selector reads: these attributes and amounts, or with `whole` all of them; `driver`: the driver too."""

    whole: bool
    driver: bool
    attributes: tuple[_Name, ...] = ()
    capacity: tuple[_Name, ...] = ()
    _names: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, program: Selector) -> "Reads":
        """Return what a selector reads."""
        if program.reads is None:
            return cls(whole=True, driver=True)
        reads = sorted(program.reads)
        return cls(
            whole=False,
            # What is read by name depends on the driver only through columns.
            driver="driver" in reads,
            attributes=tuple(
                _Name.of(read.removeprefix("attributes/")) for read in reads if read.startswith("attributes/")
            ),
            capacity=tuple(
                _Name.of(read.removeprefix("capacity/")) for read in reads if read.startswith("capacity/")
            ),
        )

    def key(self, content: Slice) -> object:
        """Return something equal for slices that no selector with these reads can tell apart, device by device."""
        attributes, capacity = self._names_of(content)
        return (
            # Most selectors of classes read the driver alone.
            _serials(attributes, content.attributes) if attributes else (),
            _serials(capacity, content.capacity) if capacity else (),
            content.driver if self.driver else None,
            content.shareable,
            content.unreadable,
            len(content.names),
        )

    def part(self, content: Slice, key: object) -> Part:
        """Return the part of a slice that is read; `key` is that of the slice."""
        attributes, capacity = self._names_of(content)
        return Part(content, _found(attributes, content.attributes), _found(capacity, content.capacity), key)

    def _names_of(self, content: Slice) -> tuple[Iterable[str], Iterable[str]]:
        """Return the names of attributes and of amounts that are read, as devices of this slice may write them."""
        if self.whole:
            return content.attributes, content.capacity
        names = self._names.get(content.driver)
        if names is None:
            names = self._names[content.driver] = (
                tuple([name for item in self.attributes for name in item.of_driver(content.driver)]),
                tuple([name for item in self.capacity for name in item.of_driver(content.driver)]),
            )
        return names


def _serials(names: Iterable[str], table: Mapping[str, Column[Any]]) -> tuple[tuple[str, int], ...]:
    return tuple([(name, column.serial) for name in names if (column := table.get(name)) is not None])


def _found(names: Iterable[str], table: Mapping[str, Column[Any]]) -> _Named:
    return tuple([(name, column) for name in names if (column := table.get(name)) is not None])
