"""Relaxations tell that requests cannot all be served, and only if that is so."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator.search.domains import first_without_place

LOTS = st.lists(st.tuples(st.integers(0, 63), st.integers(1, 3)), max_size=4)


def _can_be_placed(lots: list[tuple[int, int]], taken: int = 0) -> bool:
    if not lots:
        return True
    (devices, count), *rest = lots
    free = [1 << place for place in range(6) if devices & ~taken & 1 << place]
    return any(_can_be_placed(rest, taken | sum(chosen)) for chosen in combinations(free, count))


@given(LOTS)
def test_a_lot_is_without_place_if_no_devices_can_be_found_for_it(lots: list[tuple[int, int]]) -> None:
    """The first one that cannot have its devices beside all before it, whichever those have."""
    expected = next((number for number in range(len(lots)) if not _can_be_placed(lots[: number + 1])), None)

    assert first_without_place(lots) == expected
