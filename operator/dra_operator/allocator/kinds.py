"""Kinds: the devices of a slice that look the same to a selector, made ready for evaluation once.

A selector is asked about each kind of device, not about each device. Finding the kinds takes longer than most
selectors take to answer, and claims that each bring a selector of their own read the same few attributes: so kinds are
kept by what is read, whichever selector reads it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dra_operator.allocator.reads import Part
from dra_operator.cel import PreparedDevice, prepare_device
from dra_operator.inventory import bits

_MAX_KINDS = 32_768

Kind = tuple[PreparedDevice, int]
"""A device as selectors see it, and the set of the devices of the slice that look like this."""


@dataclass(slots=True)
class Kinds:
    """The kinds of devices of parts of slices. When there are too many, all are forgotten."""

    maximum: int = _MAX_KINDS
    _of_part: dict[object, tuple[Kind, ...]] = field(default_factory=dict)
    _count: int = 0

    def of(self, part: Part) -> tuple[Kind, ...]:
        """Return the kinds of devices of a part."""
        found = self._of_part.get(part.key)
        if found is None:
            if self._count > self.maximum:
                self._of_part.clear()
                self._count = 0
            found = self._of_part[part.key] = tuple(self._find(part))
            self._count += len(found)
        return found

    def _find(self, part: Part) -> Iterator[Kind]:
        content = part.content
        unreadable, shareable = content.unreadable, content.shareable
        for index in bits.each(unreadable):
            # Each selector fails on it, whatever it reads.
            yield prepare_device(content.driver, content.device(index)), 1 << index
        for those in part.sets():
            readable = those & ~unreadable
            shared = readable & shareable
            for alike in (readable ^ shared, shared):
                if alike:
                    yield part.device(bits.lowest(alike)), alike
