"""Parts: what one pool of a group adds to a tally, kept for as long as there is room for all of them.

Claims that each bring a selector of their own, and a cluster of pools of which no two are alike, make a part for each
claim and pool: millions. Most say the same ("8 published, 8 in use"), and are one object. What is asked for is dropped
as a whole when there is too much, that which nobody has asked about for longest first: it is counted again when it is
asked about again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from dra_operator.allocator.explanation.census import Group
from dra_operator.allocator.reasons import Reason
from dra_operator.inventory import PoolKey, Slice

_MAX_SIZE = 524_288
_MAX_SHARED = 16_384


@dataclass(frozen=True, slots=True)
class Failure:
    """A device on which the selector of a number fails; `place` is the number of its slice in the pool."""

    number: int
    place: int
    content: Slice
    index: int

    @property
    def order(self) -> tuple[int, PoolKey, int, int]:
        """A key by which failures are sorted, the same whatever came first."""
        return (self.number, self.content.key, self.place, self.index)


class Refused(NamedTuple):
    """What an obstacle keeps away of one pool: how many devices, details with the devices of each, and a failure."""

    reason: Reason
    devices: int
    details: tuple[str, ...]
    of_details: tuple[int, ...]
    failure: Failure | None


class Part(NamedTuple):
    """What one pool of a group adds to a tally.

    `old` are the devices selected of older generations. `obstacles` stand in the order in which they were met. `held`
    names, for each that is due to uses, the devices whose uses these are, a set for each place; `left_on` the number of
    those left, for each slot, and `idle_on` what that would be if no device were in use and none were tainted; of these
    `drawing` draw on counters, and uses and taints keep `kept` away.
    `texts` says how many details there are.
    """

    published: int
    old: int
    in_class: int
    left: int
    rivals: int
    grouped: int
    class_details: Refused
    selectors: tuple[Refused, ...]
    obstacles: tuple[Refused, ...]
    held: tuple[tuple[Reason, tuple[int, ...]], ...]
    left_on: tuple[int, ...]
    idle_on: tuple[int, ...]
    kept: int
    drawing: int
    texts: int


@dataclass(slots=True)
class Parts:
    """All parts that are kept, by what was asked for and by group.

    `maximum` is how many they and their details are together.
    """

    maximum: int = _MAX_SIZE
    _known: dict[object, tuple[Mapping[Group, Part], int]] = field(default_factory=dict)
    _size: int = 0
    _shared: dict[Part, Part] = field(default_factory=dict)

    def of(self, asked: object) -> Mapping[Group, Part]:
        """Return the parts of what was asked for, by group; none if they are not known."""
        known = self._known.get(asked)
        return {} if known is None else known[0]

    def keep(self, asked: object, parts: Mapping[Group, Part]) -> None:
        """Keep the parts of what was asked for, in place of those before."""
        _, before = self._known.pop(asked, (None, 0))
        size = 1 + len(parts) + sum([part.texts for part in parts.values()])
        # What is asked about last stands last.
        self._known[asked] = parts, size
        self._size += size - before
        if self._size <= self.maximum:
            return
        for other in list(self._known)[:-1]:
            if self._size <= self.maximum // 2:
                break
            self._size -= self._known.pop(other)[1]

    def share(self, part: Part) -> Part:
        """Return the one object that stands for all parts that say the same. Those with details hardly ever do."""
        if part.texts:
            return part
        if len(self._shared) >= _MAX_SHARED:
            self._shared.clear()
        return self._shared.setdefault(part, part)
