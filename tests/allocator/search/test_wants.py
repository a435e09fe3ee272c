"""What a pick leaves for everybody else."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Limits
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.search.board import Board, set_up
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.stock import Stock
from dra_operator.allocator.search.wants import Situation, Wants, least_of, union_of


@pytest.fixture
def wants_of(scene: Any) -> Callable[..., tuple[Wants, Situation]]:
    """Set up the wants of some claims on node `n`, whose devices stand by name."""

    def build(*claims: Any) -> tuple[Wants, Situation]:
        allocator = scene.allocator
        allocator.refresh()
        eligibility = Eligibility(allocator.availability, allocator.candidates)
        plans = [allocator.plan(claim) for claim in claims]
        view = allocator.availability.views.of_node("n")
        board = set_up(eligibility, plans, view, Budget(Limits(), lambda: 0.0))
        assert isinstance(board, Board)
        wants = Wants.on(board, Stock(board))
        now = wants.first()
        assert now is not None
        return wants, now

    scene.nodes("n")
    return build


def test_a_device_picked_is_gone_for_all(scene: Any, ask: Any, wants_of: Any) -> None:
    """For other requests, and for what is missing of its own."""
    scene.slice("s", "a", "b", "c")
    wants, now = wants_of(scene.claim(ask("r", 2), ask("q")))
    after = wants.pick(now, now.wants[0][0], 0b010)

    assert [union_of(want) for want in after.wants] == [0b101, 0b101]
    assert [least_of(want) for want in after.wants] == [1, 1]


def test_a_pick_that_leaves_too_few_names_the_request(scene: Any, ask: Any, wants_of: Any) -> None:
    """The other one, which wants two of three and finds one of the two gone that it can take."""
    scene.slice("s", "a", "b")
    wants, now = wants_of(scene.claim(ask("r")), scene.claim(ask("r", 2), name="other"))

    assert wants.pick(now, now.wants[0][0], 0b01) == 1


def test_a_shared_device_stays_as_long_as_it_has_room(scene: Any, ask: Any, wants_of: Any) -> None:
    """Three of 4 are gone: one more fits, two more do not."""
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True, "capacity": {"m": {"value": "4"}}}, "b")
    amounts = ("3", "1", "2")
    claim = scene.claim(*(ask(f"r{item}", capacity={"requests": {"m": item}}) for item in amounts[:2]))
    wants, now = wants_of(claim, scene.claim(ask("r"), name="whole"))
    after = wants.pick(now, now.wants[0][0], 0b01)

    assert [union_of(want) for want in after.wants] == [0, 0b01, 0b10]


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
        wants, now = wants_of(claim)
        after = wants.pick(now, now.wants[0][0], 0b0001)

        assert [union_of(want) for want in after.wants] == [0, left, 0b1110]


def test_requests_that_a_rule_binds_stay_together(scene: Any, ask: Any, wants_of: Any) -> None:
    """Only as a whole may they change places with others; two rules that bind one request bind all of theirs."""
    scene.slice("s", *({"name": name, "attributes": {"k": {"int": 0}}} for name in "abcde"))
    rules = [
        {"matchAttribute": "gpu.example.com/k", "requests": names}
        for names in (["r", "q"], ["p", "q"], ["o"])
    ]
    wants, _ = wants_of(scene.claim(*map(ask, "rspqo"), constraints=rules))

    assert wants.clusters == ((0, 2, 3), (1,), (4,))


def test_claims_that_have_changed_places_look_alike(scene: Any, ask: Any, wants_of: Any) -> None:
    """What remains is the same whichever of two equal claims was served first."""
    scene.slice("s", "a", "b", "c")
    wants, now = wants_of(scene.claim(ask("r")), scene.claim(ask("r"), name="other"))
    first, second = (wants.pick(now, now.wants[number][0], 0b001) for number in (0, 1))

    assert first != second
    assert wants.key(first) == wants.key(second)


def test_devices_that_everybody_could_exchange_are_equal(scene: Any, ask: Any, wants_of: Any) -> None:
    """Of three free devices of one kind and one of another, two can stand in for the first."""
    kinds = (0, 0, 1, 0)
    devices = [
        {"name": name, "attributes": {"k": {"int": kind}}} for name, kind in zip("abcd", kinds, strict=True)
    ]
    scene.slice("s", *devices)
    selector = 'device.attributes["gpu.example.com"].k == 1'
    wants, now = wants_of(scene.claim(ask("r", 2), ask("q", 1, selector)))

    assert wants.equals(now, 0b0001, 0b1110) == 0b1010
