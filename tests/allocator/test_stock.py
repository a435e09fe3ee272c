"""What devices have to give in parts."""

from typing import Any


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
