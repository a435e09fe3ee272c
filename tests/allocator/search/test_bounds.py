"""Bounds: what counting can rule out."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from random import Random

import pytest

from dra_operator.allocator.matching.groups import Groups
from dra_operator.allocator.search import bounds
from dra_operator.allocator.search.bounds import Choice, GroupRule

PAIRS = Groups(groups=(0b0011, 0b1100), members=0b1111, odd=0, size=4)


def have_places(demands_left: Sequence[tuple[int, int]], places: Mapping[int, int]) -> bool:
    """Return whether so many of these devices can be given to each, by trying everything."""
    if not demands_left:
        return True
    devices, missing = demands_left[0]
    there = [bit for bit in places if bit & devices and places[bit]]
    return any(
        have_places(demands_left[1:], {bit: left - (bit in taken) for bit, left in places.items()})
        for taken in combinations(there, missing)
    )


@pytest.mark.parametrize("seed", range(4))
def test_places_are_given_up_for_others(seed: int) -> None:
    """Wants have places of their own if there is a way, however the first ones were placed."""
    random = Random(f"places {seed}")  # noqa: S311 - a seed makes a run repeatable
    for _ in range(200):
        size = random.randint(3, 7)
        lots = [(random.randrange(1 << size), random.choice([1, 1, 2])) for _ in range(random.randint(3, 6))]
        share_limits = {
            1 << place: random.choice([1, 2, 3]) for place in random.sample(range(size), size // 2)
        }
        places = {1 << place: share_limits.get(1 << place, 1) for place in range(size)}

        assert (bounds.first_without_place(lots, share_limits) is None) == have_places(lots, places), (
            lots,
            share_limits,
        )


def test_a_place_that_was_given_up_can_be_taken_again() -> None:
    """By whoever had it, when its next place is wanted too."""
    masks = (0b01011, 0b11100, 0b00101, 0b11111, 0b00100, 0b10101, 0b00010, 0b01001)

    assert bounds.first_without_place([(mask, 1) for mask in masks], {0b00010: 2, 0b10000: 3}) is None


def test_a_request_with_too_few_candidates_is_hopeless() -> None:
    """Three of two devices cannot be; an alternative for one can."""
    three = Choice(0b11, 3, ())

    assert not bounds.have_enough([(three,)], 0b1111, ())
    assert bounds.have_enough([(three, Choice(0b100, 1, ()))], 0b1111, ())


def test_a_matching_rule_keeps_only_groups_with_room_for_all_its_requests() -> None:
    """Each pair has room for one device of either request, but only the second for both requests."""
    demands = [(Choice(0b1101, 1, (0,)),), (Choice(0b1101, 1, (0,)),)]

    allowed = bounds.narrow([GroupRule(matching=True, groups=PAIRS)], demands, 0b1111, (0b1111,), shareable=0)

    assert allowed == (0b1100,)


def test_shareable_devices_need_not_add_up() -> None:
    """Two requests can both have the only device of the first pair if it is shareable."""
    demands = [(Choice(0b0001, 1, (0,)),), (Choice(0b0001, 1, (0,)),)]

    allowed = bounds.narrow(
        [GroupRule(matching=True, groups=PAIRS)], demands, 0b1111, (0b1111,), shareable=0b0001
    )

    assert allowed == (0b0011,)
