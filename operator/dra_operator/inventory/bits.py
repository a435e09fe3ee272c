"""Sets of positions as Python ints.

Bit order is search order everywhere: the lowest bit of a pool view is the device upstream looks at first, the lowest
bit of a set of nodes is the first node by name. Sets that leave a function are never negative.
"""

from collections.abc import Iterable, Iterator
from itertools import compress, count

_FLAGS = bytes.maketrans(b"01", b"\0\1")


def lowest(bits: int) -> int:
    """Return the position of the lowest bit; `bits` must not be 0."""
    return (bits & -bits).bit_length() - 1


def each(bits: int) -> Iterator[int]:
    """Yield the positions of all bits, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def positions(bits: int) -> list[int]:
    """Return the positions of all bits, lowest first, without a step of Python for each."""
    return list(compress(count(), f"{bits:b}"[::-1].encode().translate(_FLAGS)))


def first(number: int) -> int:
    """Return a set of the positions 0 to `number` - 1."""
    return (1 << number) - 1


def of(flags: Iterable[object]) -> int:
    """Return the set of the positions at which `flags` is true."""
    bits = 0
    for position, flag in enumerate(flags):
        if flag:
            bits |= 1 << position
    return bits


def of_positions(positions: Iterable[int]) -> int:
    """Return the set of these positions."""
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits
