"""Kinds: the devices of a slice that look the same to a selector, made ready for evaluation once.

A selector is asked about each kind of device, not about each device. Finding the kinds takes longer than evaluating
most selectors, and even claims with selectors of their own read the same few attributes. So kinds are kept by what is
read, for all selectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dra_operator.allocator.matching.reads import Reads
from dra_operator.cel import PreparedDevice, prepare_device
from dra_operator.cel.values import legal_text
from dra_operator.inventory import Slice, bits
from dra_operator.inventory.columns import Column

_MAX_SIZE = 655_360
_SIZE_OF_KIND = 4
"""A kind takes about as much room as so many of the values in it."""

Kind = tuple[PreparedDevice, int]
"""A device as selectors see it, and the set of the devices of the slice that look like this."""
_Columns = list[tuple[str, Column[Any]]]


@dataclass(slots=True)
class SliceKinds:
    """The kinds of the devices of a slice that somebody has asked about, `ready`."""

    ready: int = 0
    kinds: list[Kind] = field(default_factory=list)


@dataclass(slots=True)
class Kinds:
    """The kinds of devices of slices, by what is read of them. If there are too many, all are forgotten.

    A selector goes through all slices in turn, so a limit that is too small for all of them would keep nothing useful.
    This one is enough for 131,072 kinds with one value, and for 32,768 with sixteen.
    """

    maximum: int = _MAX_SIZE
    _known: dict[object, SliceKinds] = field(default_factory=dict)
    _size: int = 0

    def of(self, reads: Reads, slice_: Slice, key: object, wanted: int) -> Sequence[Kind]:
        """Return the kinds of some devices of a slice, and maybe others, as far as they are read.

        `key` is that of the reads for the slice. Most devices are in use, and nobody asks about those.
        """
        found = self._known.get((reads, key))
        if found is None:
            self._make_room()
            found = self._known[reads, key] = SliceKinds()
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


def _kinds(reads: Reads, slice_: Slice, wanted: int) -> list[Kind]:
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
