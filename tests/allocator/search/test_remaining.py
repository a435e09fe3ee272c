"""What is left of demand and supply after picks."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Limits
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.model import SearchModel, set_up
from dra_operator.allocator.search.remaining import (
    RemainingDemands,
    RemainingSupply,
    SearchState,
    least_of,
    union_of,
)


def test_room_is_what_committed_shares_and_those_in_flight_leave(scene: Any, ask: Any, stock_of: Any) -> None:
    """Of 10, 2 are committed; a share of 3 leaves room for one of 5 and no other of 6."""
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True, "capacity": {"m": {"value": "10"}}})
    scene.use("first", ask("r", capacity={"requests": {"m": "2"}}))
    amounts = ("3", "5", "6")
    supply = stock_of(scene.claim(*(ask(f"r{item}", capacity={"requests": {"m": item}}) for item in amounts)))
    in_flight, full = supply.share(0, 0, {})

    assert supply.room(0, {}) == {"m": 8_000_000_000}
    assert supply.room(0, in_flight) == {"m": 5_000_000_000}
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
    supply = stock_of(scene.claim(ask("r")))

    assert supply.unfit(0, ((2_000_000_000,),)) == 0b0010
    assert supply.alike(0, 0b1110, {}) == 0
    assert supply.draws == {0: {(0, 0): 10**9}, 1: {(0, 0): 3 * 10**9}, 2: {(0, 0): 2 * 10**9}, 3: {}}


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
    supply = stock_of(claim)
    in_flight, _ = supply.share(0, 9, {})

    assert [supply.alike(position, 0b1_0101, {}) for position in (0, 2, 4)] == [0b101, 0b101, 0b10000]
    assert supply.alike(1, 0b10_1010, {}) == 0b10_1010
    assert [supply.alike(position, 0b11_0100_0000, {}) for position in (6, 8, 9)] == [0b11_0100_0000] * 3
    assert supply.alike(6, 0b11_0100_0000, in_flight) == 0b01_0100_0000
    assert supply.alike(9, 0b11_0100_0000, in_flight) == 0b10_0000_0000
    assert supply.keys == range(1)


@pytest.fixture
def wants_of(scene: Any) -> Callable[..., tuple[RemainingDemands, SearchState]]:
    """Set up the wants of some claims on node `n`, whose devices stand by name."""

    def build(*claims: Any) -> tuple[RemainingDemands, SearchState]:
        allocator = scene.allocator
        allocator.refresh()
        eligibility = Eligibility(allocator.availability, allocator.candidates)
        plans = [allocator.plan(claim) for claim in claims]
        view = allocator.availability.views.of_node("n")
        model = set_up(eligibility, plans, view, Budget(Limits(), lambda: 0.0))
        assert isinstance(model, SearchModel)
        demands_left = RemainingDemands.build(model, RemainingSupply(model))
        now = demands_left.first()
        assert now is not None
        return demands_left, now

    scene.nodes("n")
    return build


def test_a_device_picked_is_gone_for_all(scene: Any, ask: Any, wants_of: Any) -> None:
    """For other requests, and for what is missing of its own."""
    scene.slice("s", "a", "b", "c")
    demands_left, now = wants_of(scene.claim(ask("r", 2), ask("q")))
    after = demands_left.pick(now, now.demands_left[0][0], 0b010)

    assert [union_of(demand) for demand in after.demands_left] == [0b101, 0b101]
    assert [least_of(demand) for demand in after.demands_left] == [1, 1]


def test_a_pick_that_leaves_too_few_names_the_request(scene: Any, ask: Any, wants_of: Any) -> None:
    """The other one, which wants two of three and finds one of the two gone that it can take."""
    scene.slice("s", "a", "b")
    demands_left, now = wants_of(scene.claim(ask("r")), scene.claim(ask("r", 2), name="other"))

    assert demands_left.pick(now, now.demands_left[0][0], 0b01) == 1


def test_a_shared_device_stays_as_long_as_it_has_room(scene: Any, ask: Any, wants_of: Any) -> None:
    """Three of 4 are gone: one more fits, two more do not."""
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True, "capacity": {"m": {"value": "4"}}}, "b")
    amounts = ("3", "1", "2")
    claim = scene.claim(*(ask(f"r{item}", capacity={"requests": {"m": item}}) for item in amounts[:2]))
    demands_left, now = wants_of(claim, scene.claim(ask("r"), name="whole"))
    after = demands_left.pick(now, now.demands_left[0][0], 0b01)

    assert [union_of(demand) for demand in after.demands_left] == [0, 0b01, 0b10]


def test_a_matching_rule_leaves_its_group_and_a_distinct_one_the_others(
    scene: Any, ask: Any, wants_of: Any
) -> None:
    """Requests that no rule binds keep all."""
    devices = [
        {"name": name, "attributes": {"k": {"int": value}}}
        for name, value in zip("abcd", (0, 0, 1, 1), strict=True)
    ]
    scene.slice("s", *devices)
    bound = {"requests": ["r", "q"]}
    for rule, left in (("matchAttribute", 0b0010), ("distinctAttribute", 0b1100)):
        claim = scene.claim(
            ask("r"), ask("q"), ask("free"), constraints=[{rule: "gpu.example.com/k", **bound}]
        )
        demands_left, now = wants_of(claim)
        after = demands_left.pick(now, now.demands_left[0][0], 0b0001)

        assert [union_of(demand) for demand in after.demands_left] == [0, left, 0b1110]


def test_requests_that_a_rule_binds_stay_together(scene: Any, ask: Any, wants_of: Any) -> None:
    """Only as a whole may they change places with others; two rules that bind one request bind all of theirs."""
    scene.slice("s", *({"name": name, "attributes": {"k": {"int": 0}}} for name in "abcde"))
    rules = [
        {"matchAttribute": "gpu.example.com/k", "requests": names}
        for names in (["r", "q"], ["p", "q"], ["o"])
    ]
    demands_left, _ = wants_of(scene.claim(*map(ask, "rspqo"), constraints=rules))

    assert demands_left.clusters == ((0, 2, 3), (1,), (4,))


def test_claims_that_have_changed_places_look_alike(scene: Any, ask: Any, wants_of: Any) -> None:
    """What remains is the same whichever of two equal claims was served first."""
    scene.slice("s", "a", "b", "c")
    demands_left, now = wants_of(scene.claim(ask("r")), scene.claim(ask("r"), name="other"))
    first, second = (demands_left.pick(now, now.demands_left[number][0], 0b001) for number in (0, 1))

    assert first != second
    assert demands_left.key(first) == demands_left.key(second)


def test_devices_that_everybody_could_exchange_are_equal(scene: Any, ask: Any, wants_of: Any) -> None:
    """Of three free devices of one kind and one of another, two can stand in for the first."""
    kinds = (0, 0, 1, 0)
    devices = [
        {"name": name, "attributes": {"k": {"int": kind}}} for name, kind in zip("abcd", kinds, strict=True)
    ]
    scene.slice("s", *devices)
    selector = 'device.attributes["gpu.example.com"].k == 1'
    demands_left, now = wants_of(scene.claim(ask("r", 2), ask("q", 1, selector)))

    assert demands_left.equals(now, 0b0001, 0b1110) == 0b1010
