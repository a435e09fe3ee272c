"""How many devices that draw on counters fit together, against trying all sets of them."""

from collections.abc import Callable
from itertools import combinations
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from dra_operator.allocator.search.packing import Packing
from dra_operator.allocator.search.stock import Stock
from dra_operator.allocator.search.wants import Option, Wants

DRAWS = [(1, 3, 0), (2, 2, 1), (3, 0, 2), (0, 1, 4), (2, 2, 0), (1, 1, 1), (4, 0, 0), (0, 0, 0), (3, 3, 1)]


@pytest.fixture
def packing_of(scene: Any, stock_of: Callable[..., Stock]) -> Callable[..., tuple[Packing, Any]]:
    """Return a packing on a node with these draws on one set, and the situation of requests for a device each."""

    def build(draws: list[tuple[int, ...]], total: tuple[int, ...], claim: Any) -> tuple[Packing, Any]:
        names = "xyz"[: len(total)]
        devices = [
            {
                "name": f"d{number}",
                "consumesCounters": [
                    {
                        "counterSet": "c",
                        "counters": {
                            name: {"value": str(amount)} for name, amount in zip(names, draw, strict=True)
                        },
                    }
                ],
            }
            for number, draw in enumerate(draws)
        ]
        has = {name: {"value": str(amount)} for name, amount in zip(names, total, strict=True)}
        scene.slice("s", *devices, count=2)
        scene.slice("t", count=2, sharedCounters=[{"name": "c", "counters": has}])
        stock = stock_of(claim)
        return Packing(stock), Wants.on(stock.board, stock).first()

    return build


def most(draws: list[tuple[int, ...]], total: tuple[int, ...]) -> int:
    """Return how many draws fit together, by trying all sets."""
    return max(
        number
        for number in range(len(draws) + 1)
        for chosen in combinations(draws, number)
        if all(sum(column) <= has for column, has in zip(zip(*chosen, strict=True), total, strict=False))
    )


@pytest.mark.parametrize("total", [(4, 4, 4), (5, 7, 3), (9, 2, 6), (6, 6, 2), (3, 9, 9)])
def test_no_more_devices_are_wanted_than_fit_together(
    packing_of: Any, scene: Any, ask: Any, total: tuple[int, ...]
) -> None:
    """As many as fit suffice, and one more does not."""
    fitting = most(DRAWS, total)
    packing, now = packing_of(DRAWS, total, scene.claim(*(ask(f"r{number}") for number in range(len(DRAWS)))))

    assert packing.suffices(now.wants[:fitting], now.left, {})
    assert not packing.suffices(now.wants[: fitting + 1], now.left, {})


def suffices(draws: list[tuple[int, ...]], total: tuple[int, ...], number: int) -> bool:
    """Return whether so many of the devices with these draws may fit."""
    stock: Any = SimpleNamespace(
        draws={
            position: {(0, place): amount for place, amount in enumerate(draw) if amount}
            for position, draw in enumerate(draws)
        }
    )
    source: Any = None
    want = (Option((1 << len(draws)) - 1, 1, source),)
    return Packing(stock).suffices((want,) * number, (total,), {})


@pytest.mark.parametrize("seed", range(4))
def test_weights_and_states_leave_no_packing_out(seed: int) -> None:
    """Whatever devices draw, of counters that are scarce or not, alone or with others."""
    random = Random(f"packing {seed}")  # noqa: S311 - a seed makes a run repeatable
    for _ in range(100):
        width, largest = random.randint(1, 4), random.choice([2, 4, 9])
        draws = [(1,) * width] + [
            tuple(random.choice([0, random.randint(0, largest)]) for _ in range(width))
            for _ in range(random.randint(4, 8))
        ]
        total = tuple(random.randint(1, 3 * largest) for _ in range(width))
        fitting = most(draws, total)

        assert suffices(draws, total, fitting), (draws, total)
        assert not suffices(draws, total, fitting + 1), (draws, total)


def test_of_two_choices_that_leave_the_same_the_larger_one_counts() -> None:
    """In whichever order they are come to."""
    draws = list(
        zip(
            (1, 1, 1, 1, 2, 0, 0, 1, 2), (1, 0, 0, 1, 0, 0, 0, 0, 0), (1, 0, 1, 1, 0, 2, 1, 0, 0), strict=True
        )
    )

    assert most(draws, (4, 9, 3)) == 5
    assert suffices(draws, (4, 9, 3), 5)


def test_wants_for_some_of_the_devices_are_counted_by_themselves(
    packing_of: Any, scene: Any, ask: Any
) -> None:
    """Of the devices that two requests are for only one fits, though there are others that nobody asks for."""
    packing, now = packing_of([(3,), (3,), (1,), (1,)], (5,), scene.claim(ask("a"), ask("b"), ask("c")))
    few = now.wants[0][0]._replace(devices=0b11)
    wants = ((few,), (few,), now.wants[2])

    assert packing.suffices(now.wants, now.left, {})
    assert not packing.suffices(wants, now.left, {})


def test_what_is_looked_at_is_counted(packing_of: Any, scene: Any, ask: Any) -> None:
    """Those who pay for it learn how many states there were; weights alone decide without any."""
    packing, now = packing_of([(1,), (1,)], (2,), scene.claim(ask("a"), ask("b")))
    packing.suffices((*now.wants, *now.wants), now.left, {})

    assert packing.states == 0
