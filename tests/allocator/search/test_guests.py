"""How many wants a shared device has room for, each once, against trying all choices."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

from dra_operator.allocator.search.guests import Guests
from dra_operator.allocator.search.stock import Stock
from dra_operator.allocator.search.wants import Situation, Wants


@pytest.fixture
def guests_of(
    scene: Any, ask: Any, stock_of: Callable[..., Stock]
) -> Callable[..., tuple[Guests, Stock, Situation]]:
    """Return the guests of devices with so much of `m` and `b`, and the situation of requests for so much of both."""

    def build(
        devices: list[tuple[int, int]], amounts: list[tuple[int, int]]
    ) -> tuple[Guests, Stock, Situation]:
        scene.slice(
            "s",
            *(
                {
                    "name": f"d{number}",
                    "allowMultipleAllocations": True,
                    "capacity": {"m": {"value": str(m)}, "b": {"value": str(b)}},
                }
                for number, (m, b) in enumerate(devices)
            ),
        )
        asked = [
            ask(f"r{number}", capacity={"requests": {"m": str(m), "b": str(b)}})
            for number, (m, b) in enumerate(amounts)
        ]
        stock = stock_of(scene.claim(*asked))
        now = Wants.on(stock.board, stock).first()
        assert now is not None
        return Guests(stock), stock, now

    return build


def together(room: tuple[int, int], amounts: list[tuple[int, int]]) -> int:
    """Return how many amounts fit in the room, by trying all choices."""
    return max(
        number
        for number in range(len(amounts) + 1)
        for chosen in combinations(amounts, number)
        if sum(m for m, _ in chosen) <= room[0] and sum(b for _, b in chosen) <= room[1]
    )


@pytest.mark.parametrize(
    "amounts",
    [
        [(5, 1), (5, 1), (1, 1)],
        [(3, 1), (3, 1), (3, 1), (3, 1)],
        [(6, 1), (5, 1), (4, 1), (1, 1), (1, 1)],
        [(1, 4), (1, 4), (1, 4)],
        [(10, 9)],
    ],
)
def test_a_device_serves_those_that_take_least(guests_of: Any, amounts: list[tuple[int, int]]) -> None:
    """Where one capacity is what is scarce, the number is the one that trying finds."""
    guests, _, now = guests_of([(10, 9)], amounts)

    assert guests.most(now.wants, {}) == {1: together((10, 9), amounts)}


def test_where_two_capacities_are_scarce_it_is_never_less_than_fit(guests_of: Any) -> None:
    """Each capacity by itself serves two, both together only one: the bound stays on the safe side."""
    amounts = [(9, 1), (1, 9), (6, 6), (6, 6)]
    guests, _, now = guests_of([(10, 10)], amounts)

    assert guests.most(now.wants, {})[1] >= together((10, 10), amounts)


def test_shares_in_flight_leave_less_room(guests_of: Any) -> None:
    """Of two wants for 4 of 10 there is place for both, and for one beside a share of 4."""
    guests, stock, now = guests_of([(10, 9), (10, 9)], [(4, 1), (4, 1)])
    in_flight, _ = stock.share(0, 0, {})

    assert guests.most(now.wants, {}) == {0b01: 2, 0b10: 2}
    assert guests.most(now.wants, in_flight) == {0b01: 1, 0b10: 2}


def test_only_wants_that_are_open_to_a_device_are_its_guests(guests_of: Any) -> None:
    """A want for one device leaves the other to the rest."""
    guests, _, now = guests_of([(10, 9), (10, 9)], [(1, 1), (2, 1), (2, 1)])
    (option,) = now.wants[0]
    wants = ((option._replace(devices=0b01),), *now.wants[1:])

    assert guests.most(wants, {}) == {0b01: 3, 0b10: 2}


def test_a_want_with_alternatives_takes_the_least(guests_of: Any) -> None:
    """Two wants for 6, of which one may be for 4 as well, fit on 10."""
    guests, _, now = guests_of([(10, 9)], [(6, 1), (4, 1), (6, 1)])
    either = (*now.wants[0], *now.wants[1])

    assert guests.most((now.wants[2], either), {}) == {1: 2}
    assert guests.most((now.wants[2], now.wants[0]), {}) == {1: 1}


@pytest.mark.parametrize("in_flight", [{}, {0: {}}], ids=["yet to be shared", "shared"])
def test_a_device_without_capacity_has_room_for_all(
    scene: Any, ask: Any, stock_of: Callable[..., Stock], in_flight: Any
) -> None:
    """Shares of it consume nothing."""
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True})
    stock = stock_of(scene.claim(ask("x"), ask("y")))
    now = Wants.on(stock.board, stock).first()
    assert now is not None

    assert Guests(stock).most(now.wants, in_flight) == {1: 2}
