"""Sets of positions as Python ints.

Bit order is search order everywhere: the lowest bit of a pool view is the device upstream looks at first, the lowest
bit of a set of nodes is the first node by name. Sets that leave a function are never negative.
"""

from collections.abc import Iterable, Iterator


def lowest(bits: int) -> int:
    """Return the position of the lowest bit; `bits` must not be 0."""
    return (bits & -bits).bit_length() - 1


def each(bits: int) -> Iterator[int]:
    """Yield the positions of all bits, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def first(count: int) -> int:
    """Return a set of the positions 0 to `count` - 1."""
    return (1 << count) - 1


def from_flags(flags: Iterable[object]) -> int:
    """Return the set of the positions at which `flags` is true."""
    return from_positions(position for position, flag in enumerate(flags) if flag)


def from_positions(positions: Iterable[int]) -> int:
    """Return the set of these positions."""
    bits = 0
    for position in positions:
        bits |= 1 << position
    return bits
