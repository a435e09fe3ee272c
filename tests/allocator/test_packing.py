"""How many devices that draw on counters fit together, against trying all sets of them."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from dra_operator.allocator.packing import Packing
from dra_operator.allocator.stock import Stock
from dra_operator.allocator.wants import Wants

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
