"""Trails: by which steps from a variable a value is reached, e.g. `device`, `attributes`, `@values`, `@keys`.

The declared size of a value is looked up by its trail. In cel-go a trail is a slice, and appending to two slices of one
array writes the same place: `attributes.all(d, m, m.exists(k, m.s == k))` costs as if keys were as long as values.
Whoever wants upstream's costs needs upstream's slices.
Source: cel-go `checker/cost.go` (`exprPaths`, `localVar.path`), Go's `append`.
"""

from collections.abc import Iterator


class Trail:
    """A Go slice of strings: the first `length` places of an array that others may share."""

    __slots__ = ("_array", "length")

    def __init__(self, array: list[str | None], length: int) -> None:
        self._array = array
        self.length = length

    def then(self, step: str) -> "Trail":
        """Return the trail with a step more: in the same array where it has room, else in one twice as large."""
        array, length = self._array, self.length
        if length == len(array):
            array = [*array, *([None] * (length or 1))]
        array[length] = step
        return Trail(array, length + 1)

    def alone(self, step: str) -> "Trail":
        """Return the trail with a step more in an array of its own."""
        return Trail([*self._array[: self.length], step], self.length + 1)

    def __iter__(self) -> Iterator[str | None]:
        return iter(self._array[: self.length])

    def __len__(self) -> int:
        return self.length

    @property
    def first(self) -> str | None:
        """The variable that the trail starts from."""
        return self._array[0] if self.length else None


NOWHERE = Trail([], 0)
"""The trail of what is reached from no variable."""


def trail(variable: str) -> Trail:
    """Return the trail of a variable."""
    return Trail([variable], 1)
