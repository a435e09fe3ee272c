"""What devices have to give in parts."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Limits
from dra_operator.allocator.board import Board, set_up
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.eligible import Eligibility
from dra_operator.allocator.stock import Stock


@pytest.fixture
def stock_of(scene: Any) -> Callable[..., Stock]:
    """Set up the stock of node `n` for a claim; its keys are numbered by request."""

    def build(claim: Any) -> Stock:
        allocator = scene.allocator
        allocator.refresh()
        eligibility = Eligibility(allocator.availability, allocator.candidates)
        plan = allocator.plan(claim)
        view = allocator.availability.views.of_node("n")
        board = set_up(eligibility, [plan], view, Budget(Limits(), lambda: 0.0))
        assert isinstance(board, Board)
        stock = Stock(board)
        for request in plan.requests:
            stock.number_of(request.alternatives[0].key)
        return stock

    scene.nodes("n")
    return build


def test_room_is_what_committed_shares_and_those_in_flight_leave(scene: Any, ask: Any, stock_of: Any) -> None:
    """Of 10, 2 are committed; a share of 3 leaves room for one of 5 and no other of 6."""
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True, "capacity": {"m": {"value": "10"}}})
    scene.use("first", ask("r", capacity={"requests": {"m": "2"}}))
    amounts = ("3", "5", "6")
    stock = stock_of(scene.claim(*(ask(f"r{item}", capacity={"requests": {"m": item}}) for item in amounts)))
    in_flight, full = stock.share(0, 0, {})

    assert stock.room(0, {}) == {"m": 8_000_000_000}
    assert stock.room(0, in_flight) == {"m": 5_000_000_000}
    assert full == 0b100
    assert (stock.slots(0, {}), stock.slots(0, in_flight)) == (2, 1)


def test_devices_that_want_more_than_is_left_are_unfit(scene: Any, ask: Any, stock_of: Any) -> None:
    """With 2 left of a counter, those that take 3 are out of reach, those that take 2 or none are not."""
    takes = (1, 3, 2, 0)
    scene.slice(
        "s",
        *(
            {
                "name": f"d{number}",
                "consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": str(amount)}}}],
            }
            for number, amount in enumerate(takes)
        ),
        count=2,
    )
    scene.slice("t", count=2, sharedCounters=[{"name": "c", "counters": {"m": {"value": "3"}}}])
    stock = stock_of(scene.claim(ask("r")))

    assert stock.unfit(0, ((2_000_000_000,),)) == 0b0010
    assert stock.alike(0, 0b1110, {}) == 0
