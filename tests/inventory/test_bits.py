"""Sets of positions."""

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.inventory import bits


@given(st.sets(st.integers(0, 200)))
def test_a_set_is_read_back_in_order(positions: set[int]) -> None:
    """The positions put into a set come out again, lowest first."""
    assert list(bits.each(bits.from_positions(positions))) == sorted(positions)


@given(st.sets(st.integers(0, 200), min_size=1))
def test_lowest_is_the_smallest_position(positions: set[int]) -> None:
    """The lowest bit is the smallest position."""
    assert bits.lowest(bits.from_positions(positions)) == min(positions)


def test_first_and_of_count_from_zero() -> None:
    """Positions start at 0."""
    assert bits.first(3) == 0b111
    assert bits.from_flags([False, True, False, True]) == 0b1010
