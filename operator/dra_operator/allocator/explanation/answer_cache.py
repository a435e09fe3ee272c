"""Answers that explanations keep, for as long as what they depend on stays and there is room."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


@dataclass(slots=True)
class AnswerCache(Generic[_Answer]):
    """Answers of one kind, by what was asked.

    All of them go when `version` returns something else than before. Those kept for longest go when they take more than
    the `room` there is, until half of it is free.
    """

    room: int
    version: Callable[[], object]
    _answers: dict[object, tuple[_Answer, int]] = field(default_factory=dict)
    _size: int = 0
    _version: object = None

    def get(self, key: object) -> _Answer | None:
        """Return a kept answer, or None."""
        self._forget_outdated()
        found = self._answers.get(key)
        return None if found is None else found[0]

    def put(self, key: object, answer: _Answer, size: int = 1) -> None:
        """Keep an answer in place of the one before. `size` is the room that it takes."""
        self._forget_outdated()
        self._size += size - self._answers.pop(key, (None, 0))[1]
        self._answers[key] = answer, size
        if self._size > self.room:
            for other in list(self._answers)[:-1]:
                if self._size <= self.room // 2:
                    break
                self._size -= self._answers.pop(other)[1]

    def find(self, key: object, make: Callable[[], _Answer]) -> _Answer:
        """Return the answer for a key, which is made if it is not kept."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def _forget_outdated(self) -> None:
        if (version := self.version()) != self._version:
            self._version = version
            self._answers.clear()
            self._size = 0


def never() -> None:
    """Be the version of what never changes: answers depend on nothing but what was asked."""
