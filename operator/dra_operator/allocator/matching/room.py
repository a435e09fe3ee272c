"""Room: one limit for all kept answers together.

A claim with a selector of its own asks every node of a cluster, and nobody asks the same again. Hundreds of such claims
leave millions of answers. A limit for each keeper of answers would not help, as each claim brings a keeper of its own.
So all keepers share one limit. When it is reached, the oldest keepers forget their answers, which are computed again if
somebody asks.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

_Value = TypeVar("_Value")
_MAX_KEEPERS = 8192
"""Whoever drops one who keeps answers lets it leave; these are for those that somebody still used after that."""


@dataclass(slots=True)
class Room:
    """Room for so many answers, and for so many keepers.

    A keeper has its answers in a dict, and enters and removes them only as the methods here say. `size_of` tells how
    many others an answer takes the room of, if they differ in that.
    """

    maximum: int
    keepers: int = _MAX_KEEPERS
    size_of: Callable[[Any], int] | None = None
    _taken: int = 0
    _kept: dict[int, dict[Any, Any]] = field(default_factory=dict)

    def take(self, answers: dict[Any, Any], size: int = 1) -> None:
        """Take room for one more answer of this size, which is to be entered next."""
        if self._taken + size > self.maximum:
            self._forget_oldest()
        self._taken += size
        if not answers:
            if len(self._kept) >= self.keepers:
                self._forget_oldest()
            self._kept[id(answers)] = answers

    def leave(self, answers: dict[Any, Any]) -> None:
        """Forget the answers of a keeper."""
        if self._kept.pop(id(answers), None) is not None:
            self._taken -= self._size(answers.values())
            answers.clear()

    def forget(self, keys: Collection[object]) -> None:
        """Forget the answers under these keys, of all keepers."""
        for answers in tuple(self._kept.values()):
            self._taken -= self._size([answers.pop(key) for key in keys if key in answers])
            if not answers:
                del self._kept[id(answers)]

    def _size(self, answers: Collection[Any]) -> int:
        return len(answers) if self.size_of is None else sum(map(self.size_of, answers))

    def _forget_oldest(self) -> None:
        for answers in tuple(self._kept.values()):
            if self._taken <= self.maximum // 2 and len(self._kept) <= self.keepers // 2:
                break
            self.leave(answers)


def drop_older_half(table: dict[Any, _Value]) -> list[_Value]:
    """Remove the older half of a full table, and return its values."""
    return [table.pop(key) for key in list(table)[: len(table) // 2]]
