"""Sizes: how large a value can be, as far as the declaration of `device` says, looked up by the way to it (its trail).

The limits that the API sets to names, attributes and their number stand for sizes; what nothing limits is unbounded. In
cel-go a trail is a slice, and appending to two slices of one array writes the same place:
`attributes.all(d, m, m.exists(k, m.s == k))` costs as if keys were as long as values.
Source: k8s.io/dynamic-resource-allocation `cel/compile.go` (`sizeEstimator`), k8s.io/api/resource/v1.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from dra_operator.api.fast_dataclass import fast_dataclass
from dra_operator.cel.types.types import Type


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


UNBOUNDED: Final = 2**64 - 1
_MAX_DOMAIN: Final = 63
_MAX_IDENTIFIER: Final = 32
_MAX_ENTRIES: Final = 32
_MAX_VALUE: Final = 64


class Range(NamedTuple):
    """A least and a greatest size or cost; at 2**64 - 1 it is unbounded and stays so."""

    low: int
    high: int

    def plus(self, other: "Range") -> "Range":
        """Return the sum."""
        return Range(min(self.low + other.low, UNBOUNDED), min(self.high + other.high, UNBOUNDED))

    def times(self, other: "Range") -> "Range":
        """Return the product."""
        return Range(min(self.low * other.low, UNBOUNDED), min(self.high * other.high, UNBOUNDED))

    def scaled(self, factor: float) -> "Range":
        """Return this many units at `factor` each, rounded up."""
        return Range(_scaled(self.low, factor), _scaled(self.high, factor))

    def union(self, other: "Range") -> "Range":
        """Return the range that covers both."""
        return Range(min(self.low, other.low), max(self.high, other.high))


class KeptRange(Range):
    """A range of 1.38, in whose estimates a part of something unbounded is unbounded."""

    __slots__ = ()

    def plus(self, other: Range) -> Range:
        """Return the sum."""
        return KeptRange(*super().plus(other))

    def scaled(self, factor: float) -> Range:
        """Return this many units at `factor` each, rounded up."""
        return Range(*[UNBOUNDED if each == UNBOUNDED else _scaled(each, factor) for each in self])


def _scaled(amount: int, factor: float) -> int:
    product = float(amount) * factor
    if product >= 2.0**64:
        return UNBOUNDED
    whole = int(product)
    return whole if whole == product else whole + 1


def exactly(size: int) -> Range:
    """Return the range of one value."""
    return Range(size, size)


UNKNOWN: Final = Range(0, UNBOUNDED)


@fast_dataclass
class Measured:
    """An expression, or the elements of one, as estimates see it.

    That is its path from `device`, its type, its value if it is a literal, and its size if that is known. `is_kept`:
    what the standard library makes of a size that is not known is not known either.
    """

    path: Trail
    type: Type
    constant: Any = None
    size: Range | None = None
    is_kept: bool = False


@fast_dataclass
class _Declared:
    maximum: int = 0
    key: "_Declared | None" = None
    element: "_Declared | None" = None
    fields: "Mapping[str, _Declared]" = field(default_factory=dict)


_DOMAIN: Final = _Declared(_MAX_DOMAIN)
_IDENTIFIER: Final = _Declared(_MAX_IDENTIFIER)
_VALUE: Final = _Declared(_MAX_VALUE)
_CAPACITIES: Final = _Declared(_MAX_ENTRIES, _IDENTIFIER, _Declared())
_ATTRIBUTES: Final = _Declared(_MAX_ENTRIES, _IDENTIFIER, _VALUE)
_DEVICE: Final = _Declared(
    fields={
        "driver": _Declared(_MAX_DOMAIN),
        "allowMultipleAllocations": _Declared(1),
        "attributes": _Declared(_MAX_ENTRIES, _DOMAIN, _ATTRIBUTES),
        "capacity": _Declared(_MAX_ENTRIES, _DOMAIN, _CAPACITIES),
    }
)


def declared_size(path: Trail) -> Range | None:
    """Return how large what lies at a path can be, or None if the declaration does not say."""
    if path.first != "device":
        return None
    current: _Declared | None = _DEVICE
    steps = iter(path)
    next(steps)
    for name in steps:
        assert current is not None
        assert name is not None
        if name in ("@items", "@values"):
            current = current.element
        elif name == "@keys":
            current = current.key
        elif current is _ATTRIBUTES:
            current = _VALUE
        else:
            current = current.fields.get(name)
        if current is None:
            return None
    assert current is not None
    return Range(0, current.maximum)


def size_of(node: Measured) -> Range:
    """Return the size of an expression, unbounded if nothing says it."""
    return node.size or declared_size(node.path) or UNKNOWN


def known_size(node: Measured) -> Range:
    """Return the size of an expression, unbounded if it is not known; what the declaration says does not count."""
    found = node.size or UNKNOWN
    return KeptRange(*found) if node.is_kept else found


def elements_of(node: Measured) -> Measured | None:
    """Return the elements of a list, or None if the type has none."""
    if not node.type.parameters:
        return None
    return Measured(node.path.alone("@items") if node.path else NOWHERE, node.type.parameters[0])
