"""Room: one limit for all kept answers together.

A claim with a selector of its own asks every node of a cluster, and nobody asks the same again. Hundreds of such claims
leave millions of answers. A limit for each keeper of answers would not help, as each claim brings a keeper of its own.
So all keepers share one limit. When it is reached, the oldest keepers forget their answers, which are computed again if
somebody asks.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

_Value = TypeVar("_Value")
_MAX_KEEPERS = 8192
"""Whoever drops one who keeps answers lets it leave; these are for those that somebody still used after that."""
_MOST_TEXT: Final = 524_288
"""How many characters expressions may have together whose code is kept."""


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


class ByExpression(dict[str, _Value]):
    """What was made of expressions. Code takes up to 400 bytes a character, and users bring as many as they like."""

    __slots__ = ("_length",)

    def __init__(self) -> None:
        super().__init__()
        self._length = 0

    def make_room(self, expression: str, maximum: int) -> list[_Value]:
        """Drop the older half, and return it, if one more expression would be too many, or too much text."""
        self._length += len(expression)
        if len(self) < maximum and self._length <= _MOST_TEXT:
            return []
        dropped = drop_older_half(self)
        self._length = len(expression) + sum(map(len, self))
        return dropped


def drop_older_half(table: dict[Any, _Value]) -> list[_Value]:
    """Remove the older half of a full table, and return its values."""
    return [table.pop(key) for key in list(table)[: len(table) // 2]]
