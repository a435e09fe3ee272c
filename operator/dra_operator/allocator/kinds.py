"""Kinds: the devices of a slice that look the same to a selector, made ready for evaluation once.

A selector is asked about each kind of device, not about each device. Finding the kinds takes longer than most
selectors take to answer, and claims that each bring a selector of their own read the same few attributes: so kinds are
kept by what is read, whichever selector reads it.
"""

from dataclasses import dataclass, field

from dra_operator.allocator.reads import Reads
from dra_operator.cel import PreparedDevice, prepare_device
from dra_operator.inventory import Slice, bits

_MAX_SIZE = 655_360
_SIZE_OF_KIND = 4
"""A kind takes about as much room as so many of the values in it."""

Kind = tuple[PreparedDevice, int]
"""A device as selectors see it, and the set of the devices of the slice that look like this."""


@dataclass(slots=True)
class Kinds:
    """The kinds of devices of slices, by what is read of them. When there are too many, all are forgotten.

    A selector goes through all slices, one after the other, so room for less than all is room for nothing: it is enough
    for 131,072 kinds with one value, and for 32,768 with sixteen.
    """

    maximum: int = _MAX_SIZE
    _known: dict[object, tuple[Kind, ...]] = field(default_factory=dict)
    _size: int = 0

    def of(self, reads: Reads, content: Slice, key: object) -> tuple[Kind, ...]:
        """Return the kinds of devices of a slice, as far as they are read; `key` is that of the reads for the slice."""
        found = self._known.get((reads, key))
        if found is None:
            if self._size > self.maximum:
                self._known.clear()
                self._size = 0
            found = self._known[reads, key] = tuple(_kinds(reads, content))
            for device, _ in found:
                self._size += _SIZE_OF_KIND + len(device.attributes) + len(device.capacity)
        return found


def _kinds(reads: Reads, content: Slice) -> list[Kind]:
    unreadable, shareable = content.unreadable, content.shareable
    # Each selector fails on these, whatever it reads.
    found = [
        (prepare_device(content.driver, content.device(index)), 1 << index) for index in bits.each(unreadable)
    ]
    excerpt = reads.excerpt(content)
    for those in excerpt.sets():
        readable = those & ~unreadable
        shared = readable & shareable
        found += [
            (excerpt.device(bits.lowest(alike)), alike) for alike in (readable ^ shared, shared) if alike
        ]
    return found
