"""Nodes by what they have left."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from dra_operator.api.quantity import NANO
from dra_operator.ledger.leftovers import Leftovers, LeftoversOf, level_of

LEFT = st.dictionaries(st.sampled_from(["memory", "cores"]), st.integers(-5, 2**70), max_size=2)


@given(st.lists(st.integers(-3, 2**80), min_size=2))
def test_more_is_never_on_a_lower_level(amounts: list[int]) -> None:
    """So whoever has enough is on the level of what is asked for, or on a higher one."""
    levels = [level_of(amount) for amount in sorted(amounts)]

    assert all(low <= high for low, high in pairwise(levels))


@given(st.integers(1, 2**70))
def test_a_quarter_more_is_on_a_higher_level(amount: int) -> None:
    """Few nodes pass that have not quite enough."""
    assert level_of(amount + -(-amount // 4)) > level_of(amount)


@given(st.lists(LEFT, max_size=8), st.sets(st.integers(0, 7)), LEFT)
def test_who_has_room_is_found_until_it_is_forgotten(
    left: list[dict[str, int]], forgotten: set[int], asked: dict[str, int]
) -> None:
    """Of those that are known each with enough of everything, and none of those that are forgotten."""
    leftovers = Leftovers()
    for position, most in enumerate(left):
        leftovers.enter(1 << position, [("gpu", most)])
    for position in forgotten:
        leftovers.forget(1 << position)
    amounts = [(name, max(amount, 0), "") for name, amount in asked.items()]
    gpu = leftovers.by_driver.get("gpu")
    found = gpu.with_room(amounts) if gpu else 0

    known = {position for position in range(len(left)) if position not in forgotten}
    enough = {
        position
        for position in known
        if all(left[position].get(name, -1) >= amount for name, amount, _ in amounts)
    }
    named = {position for position in known if all(name in left[position] for name, *_ in amounts)}
    assert leftovers.known == sum(1 << position for position in known)
    assert {position for position in range(8) if found >> position & 1} >= enough
    assert {position for position in range(8) if found >> position & 1} <= named


def test_a_node_has_what_the_best_of_its_pools_has() -> None:
    """Both may serve."""
    leftovers = Leftovers()
    leftovers.enter(1 << 3, [("gpu", {"memory": 2 * NANO}), ("gpu", {"memory": 9 * NANO})])

    assert leftovers.by_driver["gpu"].with_room([("memory", 8 * NANO, "8")]) == 0b1000


def test_a_driver_without_a_known_node_is_forgotten() -> None:
    """Drivers come and go under new names, and each that is kept is gone through for each claim."""
    leftovers = Leftovers()
    leftovers.enter(1, [("gpu", {"memory": 1})])
    leftovers.enter(2, [("gpu", {"memory": 1})])
    leftovers.forget(1)
    assert leftovers.by_driver["gpu"].nodes == 2
    leftovers.forget(2)

    assert leftovers.by_driver == {}


def test_a_pool_without_free_devices_has_nothing() -> None:
    """Its node is known, and has nothing of its driver."""
    leftovers = Leftovers()
    leftovers.enter(1, [])

    assert leftovers.known == 1
    assert leftovers.by_driver == {}


def test_what_is_forgotten_of_a_node_is_forgotten_of_all_that_is_selected_there() -> None:
    """A device that is taken may be any of them."""
    leftovers = LeftoversOf()
    leftovers.every.enter(1, [("gpu", {"memory": 1})])
    leftovers.of_selected("a").enter(1, [("gpu", {"memory": 1})])
    leftovers.forget(1)

    assert leftovers.every.known == leftovers.of_selected("a").known == 0


def test_only_so_many_selections_are_told_apart() -> None:
    """Claims may bring selectors of their own, and each is told of every device that is taken."""
    leftovers = LeftoversOf()
    last = [leftovers.of_selected(number) for number in range(100)][-1]

    assert list(leftovers.selected) == list(range(84, 100))
    assert leftovers.of_selected(99) is last
