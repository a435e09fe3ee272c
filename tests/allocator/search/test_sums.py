"""Parts of devices: those that fit together never seem too much."""

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.search.sums import ALL, part


@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=20))
def test_parts_of_what_fits_never_exceed_a_device(room: int, amounts: list[int]) -> None:
    """The law that makes it a bound: amounts within the room have parts within one device."""
    fitting: list[int] = []
    for amount in amounts:
        if sum(fitting) + amount <= room:
            fitting.append(amount)

    assert sum(part(amount, room) for amount in fitting) <= ALL


def test_more_than_there_is_fills_a_device() -> None:
    """One that has no room for an amount can only be had as a whole."""
    assert part(101, 100) == ALL
