"""Change sets: what a subscriber of the inventory has not seen yet, as narrowly as it can be said.

Change notification by polling: a subscriber owns a set that fills up, and empties it when it catches up.
"""

from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import ref

from dra_operator.inventory.slices import PoolKey

_T = TypeVar("_T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class ChangeSet:
    """What changed since its owner emptied it: pools with the nodes concerned (None: all), nodes, and class names."""

    pools: dict[PoolKey, set[str] | None] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Subscribers(Generic[_T]):
    """The change sets to fill, for as long as their owners refer to them.

    Those that are gone are dropped when another comes: a callback could come at any time, also while all are filled.
    """

    _known: "list[ref[_T]]" = field(default_factory=list)

    def add(self, subscriber: _T) -> None:
        """Fill it from now on."""
        self._known = [known for known in self._known if known() is not None]
        self._known.append(ref(subscriber))

    def all(self) -> list[_T]:
        """Return those that are still there."""
        return [subscriber for known in self._known if (subscriber := known()) is not None]
