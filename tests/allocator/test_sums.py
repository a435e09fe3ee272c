"""Parts of devices, rounded so that those that fit together never seem too much."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.sums import ALL, part


@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=20), st.integers(0, 4))
def test_parts_of_what_fits_never_exceed_a_device(room: int, amounts: list[int], rounding: int) -> None:
    """The law that makes each rounding a bound: amounts within the room have parts within one device."""
    fitting: list[int] = []
    for amount in amounts:
        if sum(fitting) + amount <= room:
            fitting.append(amount)

    assert sum(part(amount, room, rounding) for amount in fitting) <= ALL


@pytest.mark.parametrize(
    ("amount", "rounding", "expected"),
    [
        (25, 0, Fraction(1, 4)),
        (40, 1, 0),
        (50, 1, Fraction(1, 2)),
        (51, 1, 1),
        (34, 2, Fraction(1, 2)),
        (101, 0, 1),
    ],
)
def test_a_part_is_rounded(amount: int, rounding: int, expected: Fraction) -> None:
    """Halves: less than half is nothing, more is all; thirds: more than one third is a half."""
    assert part(amount, 100, rounding) == expected * ALL
