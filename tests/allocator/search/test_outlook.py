"""Claims that a bound of the outlook decides, where trying would take for ever; and that none says no in vain."""

from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from dra_operator.allocator import Allocated, Limits, Searching, Unsatisfied
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.search import window
from dra_operator.allocator.search.board import Board, set_up
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.hardest import Picked
from dra_operator.allocator.search.outlook import Outlook
from dra_operator.allocator.search.stock import Stock
from dra_operator.allocator.search.wants import Situation, Wants
from stepfuzz.hard import Case, ListedCase, LooseCase, OddCase

FEW = Limits(steps=None, seconds=None, tries=200)


@pytest.fixture
def tight(ticking: Any) -> Any:
    """A cluster of one node whose searches are given up soon."""
    scene = ticking(FEW)
    scene.nodes("n")
    return scene


def shareable(name: str, memory: int, **fields: Any) -> dict[str, Any]:
    """Return a device that can be shared."""
    return {
        "name": name,
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": str(memory)}},
        **fields,
    }


def part(name: str, **counters: int) -> dict[str, Any]:
    """Return a device that draws on counter sets, one card each: `memory` of card `a` as `a=3`."""
    uses = [
        {"counterSet": card, "counters": {"memory": {"value": str(amount)}}}
        for card, amount in counters.items()
    ]
    return {"name": name, "consumesCounters": uses}


@pytest.mark.parametrize(
    ("amounts", "fits"),
    [
        pytest.param(["3"] * 24, True, id="three each of eight"),
        pytest.param(["3"] * 25, False, id="one more than places"),
        pytest.param(["4"] * 16, True, id="two each of eight"),
        pytest.param(["4"] * 17, False, id="one more than two each"),
        pytest.param(["6"] * 8 + ["4"] * 8, True, id="pairs that fill a device"),
        pytest.param(["6"] * 8 + ["5"], False, id="no room beside the large ones"),
        pytest.param(["6"] * 4 + ["5"] * 8 + ["1"] * 16, True, id="by volume nothing is left"),
        pytest.param(["6"] * 4 + ["5"] * 8 + ["1"] * 17, False, id="more than the volume"),
    ],
)
def test_shares_are_counted_by_the_part_they_fill(
    tight: Any, ask: Any, amounts: list[str], *, fits: bool
) -> None:
    """Shares out of eight times 10."""
    tight.slice("s", *(shareable(f"d{number}", 10) for number in range(8)))
    requests = [
        ask(f"r{number}", capacity={"requests": {"m": amount}}) for number, amount in enumerate(amounts)
    ]

    assert isinstance(tight.decide(tight.claim(*requests)), Allocated if fits else Unsatisfied)


@pytest.mark.parametrize(("count", "fits"), [(6, True), (7, False)])
def test_counters_of_several_sets_are_added_up(tight: Any, ask: Any, count: int, *, fits: bool) -> None:
    """Each of 16 parts takes 1 of two cards, and four cards have 3 each: 12 in all."""
    cards = "abcd"
    parts = [
        part(f"p{number:02}", **{cards[number % 4]: 1, cards[(number + 1) % 4]: 1}) for number in range(16)
    ]
    sets = [{"name": card, "counters": {"memory": {"value": "3"}}} for card in cards]
    tight.slice("s", *parts, count=2)
    tight.slice("t", count=2, sharedCounters=sets)
    requests = [ask(f"r{number}") for number in range(count)]

    assert isinstance(tight.decide(tight.claim(*requests)), Allocated if fits else Unsatisfied)


def test_alternatives_that_all_need_more_than_there_is(tight: Any) -> None:
    """Twelve requests for one device of three or two of two do not fit on eleven devices."""
    devices = [{"name": f"d{number:02}", "attributes": {"kind": {"int": number % 2}}} for number in range(11)]
    tight.slice("s", *devices)
    selector = 'device.attributes["gpu.example.com"].kind == {}'
    options = [
        {
            "name": f"s{kind}",
            "deviceClassName": "gpu",
            "count": 1 + kind,
            "selectors": [{"cel": {"expression": selector.format(kind)}}],
        }
        for kind in (0, 1)
    ]
    requests = [{"name": f"r{number}", "firstAvailable": options} for number in range(12)]

    assert tight.decide(tight.claim(*requests)) == Unsatisfied()


def test_requests_for_the_same_few_values_cannot_all_differ(tight: Any, ask: Any) -> None:
    """Nine requests are for devices of eight rails, though others of the claim could have those of eight more."""
    devices = [
        {
            "name": f"d{number:02}",
            "attributes": {"rail": {"int": number % 16}, "kind": {"int": number % 16 // 8}},
        }
        for number in range(48)
    ]
    tight.slice("s", *devices)
    selector = 'device.attributes["gpu.example.com"].kind == {}'
    kinds = [0] * 9 + [1] * 4
    requests = [ask(f"r{number:02}", 1, selector.format(kind)) for number, kind in enumerate(kinds)]
    claim = tight.claim(*requests, constraints=[{"distinctAttribute": "gpu.example.com/rail"}])

    assert tight.decide(claim) == Unsatisfied()


def board_of(case: Case) -> Board | None:
    """Return the board of a case, if the search that begins with the hardest could be asked about it."""
    allocator = case.allocator(Searching.COUNTING, Limits())
    allocator.refresh()
    plans = [allocator.plan(claim) for claim in case.claims]
    if not window.is_countable(plans):
        return None
    eligibility = Eligibility(allocator.availability, allocator.candidates)
    view = allocator.availability.views.of_node("n")
    board = set_up(eligibility, plans, view, Budget(Limits(), lambda: 0.0))
    return board if isinstance(board, Board) and not board.shareable & board.counted else None


def solved_in_order(board: Board) -> list[Picked]:
    """Return the first solution as the window search finds it alone, or nothing if it finds none soon."""
    budget = Budget(Limits(5000, None, None), lambda: 0.0)
    try:
        with patch.object(window, "_TRIES_BEFORE_HARDEST", 1_000_000):
            path = window._Window(board, budget).solve()
    except AbortedError:
        return []
    picks: list[Picked] = []
    while isinstance(path, tuple) and path:
        request, place, position, path = path
        picks.append(Picked(request, place, 1 << position))
    return picks


def go(board: Board, picks: list[Picked]) -> str:
    """Return which bound says no where some picks of a solution are made, if any does."""
    stock = Stock(board)
    wants = Wants.on(board, stock)
    now = wants.first()
    outlook = Outlook(board, stock)
    for request, place, bit in picks:
        now = now and outlook.narrowed(now)
        if now is None:
            return "narrowed"
        if outlook.is_hopeless(now):
            return "hopeless"
        option = next(item for item in now.wants[request] if item.source.place == place)
        after = wants.pick(now, option, bit)
        if not isinstance(after, Situation) or not option.devices & bit:
            return "picked"
        now = after
    return ""


@pytest.mark.parametrize("make", [Case, OddCase, ListedCase, LooseCase])
def test_no_bound_says_no_on_the_way_to_a_solution(make: type[Case]) -> None:
    """In whichever order its devices are picked."""
    solved = 0
    for number in range(250):
        random = Random(f"way {number}")  # noqa: S311 - a seed makes a run repeatable
        board = board_of(make(random, most=9))
        picks = [] if board is None else solved_in_order(board)
        if board is not None and picks:
            solved += 1
            for _ in range(4):
                assert not go(board, random.sample(picks, len(picks))), number

    assert solved > 30
