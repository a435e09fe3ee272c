"""Room: how many answers are kept, by all who keep some, together.

A claim with a selector of its own asks every node of a cluster, and nobody asks the same again: hundreds of such claims
leave millions of answers. A limit for each of those who keep answers does not help, as there are as many of them as
there are claims. So they share one, and those that began to keep some first forget theirs when it is reached. What is
asked about again is computed again.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

_Value = TypeVar("_Value")
_MAX_KEEPERS = 8192
"""Whoever drops one who keeps answers lets it leave; these are for those that somebody still used after that."""


@dataclass(slots=True)
class Room:
    """Room for so many answers, and for so many who keep some.

    Who keeps answers has them in a dict, and changes it by what is said here alone.
    """

    maximum: int
    keepers: int = _MAX_KEEPERS
    _taken: int = 0
    _kept: dict[int, dict[Any, Any]] = field(default_factory=dict)

    def take(self, answers: dict[Any, Any]) -> None:
        """Take room for one more answer, which is to be entered next."""
        if self._taken >= self.maximum:
            self._forget_oldest()
        self._taken += 1
        if not answers:
            if len(self._kept) >= self.keepers:
                self._forget_oldest()
            self._kept[id(answers)] = answers

    def leave(self, answers: dict[Any, Any]) -> None:
        """Forget the answers of one who keeps some."""
        if self._kept.pop(id(answers), None) is not None:
            self._taken -= len(answers)
            answers.clear()

    def forget(self, keys: Collection[object]) -> None:
        """Forget the answers that stand under these keys, whoever keeps them."""
        for answers in tuple(self._kept.values()):
            before = len(answers)
            for key in keys:
                answers.pop(key, None)
            self._taken -= before - len(answers)
            if not answers:
                del self._kept[id(answers)]

    def _forget_oldest(self) -> None:
        for answers in tuple(self._kept.values()):
            if self._taken <= self.maximum // 2 and len(self._kept) <= self.keepers // 2:
                break
            self.leave(answers)


def drop_older_half(table: dict[Any, _Value]) -> list[_Value]:
    """Take the older half out of a table that is full, and return what stood there."""
    return [table.pop(key) for key in list(table)[: len(table) // 2]]
