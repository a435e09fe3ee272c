"""Changes: what a follower of the inventory has not seen yet, told as narrowly as it can be."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar
from weakref import ref

from dra_operator.inventory.slices import PoolKey

_T = TypeVar("_T")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Changes:
    """What changed since its owner looked: pools with the nodes concerned (None: all), nodes, and class names."""

    pools: dict[PoolKey, set[str] | None] = field(default_factory=dict)
    nodes: set[str] = field(default_factory=set)
    classes: set[str] = field(default_factory=set)


@dataclass(slots=True, eq=False, weakref_slot=True)
class Looked:
    """The pools that nodes see otherwise than when its owner looked, or that may look otherwise from outside."""

    pools: dict[PoolKey, None]


@dataclass(slots=True)
class Followers(Generic[_T]):
    """Whoever wants to be told, for as long as somebody else refers to it. They are told thousands of times.

    Who is gone is forgotten when another comes. A callback could come at any time, also while they are walked over.
    """

    _known: "list[ref[_T]]" = field(default_factory=list)

    def add(self, follower: _T) -> None:
        """Tell it from now on."""
        self._known = [known for known in self._known if known() is not None]
        self._known.append(ref(follower))

    def all(self) -> list[_T]:
        """Return those that are still there."""
        return [follower for known in self._known if (follower := known()) is not None]
