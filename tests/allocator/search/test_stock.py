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
    assert stock.draws == {0: {(0, 0): 10**9}, 1: {(0, 0): 3 * 10**9}, 2: {(0, 0): 2 * 10**9}, 3: {}}


def test_devices_are_alike_by_what_they_draw_and_by_the_room_they_have(
    scene: Any, ask: Any, stock_of: Any
) -> None:
    """Whoever draws on nothing and is not shared is like all others that are left to be compared."""

    def draws(much: str) -> dict[str, Any]:
        return {"consumesCounters": [{"counterSet": "c", "counters": {"m": {"value": much}}}]}

    shared = {"allowMultipleAllocations": True, "capacity": {"m": {"value": "10"}}}
    fields: list[dict[str, Any]] = [
        draws("1"),
        {},
        draws("1"),
        {},
        draws("2"),
        {},
        shared,
        {},
        shared,
        shared,
    ]
    listed = [
        {"name": f"d{number}", "capacity": shared["capacity"], **item} for number, item in enumerate(fields)
    ]
    scene.slice("s", *listed, count=2)
    scene.slice("t", count=2, sharedCounters=[{"name": "c", "counters": {"m": {"value": "3"}}}])
    claim = scene.claim(ask("r", capacity={"requests": {"m": "2"}}))
    stock = stock_of(claim)
    in_flight, _ = stock.share(0, 9, {})

    assert [stock.alike(position, 0b1_0101, {}) for position in (0, 2, 4)] == [0b101, 0b101, 0b10000]
    assert stock.alike(1, 0b10_1010, {}) == 0b10_1010
    assert [stock.alike(position, 0b11_0100_0000, {}) for position in (6, 8, 9)] == [0b11_0100_0000] * 3
    assert stock.alike(6, 0b11_0100_0000, in_flight) == 0b01_0100_0000
    assert stock.alike(9, 0b11_0100_0000, in_flight) == 0b10_0000_0000
    assert stock.keys == range(1)
