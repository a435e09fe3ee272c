"""Bounds that see shares and counters."""

from collections.abc import Callable
from itertools import combinations
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_operator.allocator import Allocated, Limits, SearchMode, Unsatisfied
from dra_operator.allocator.budget import Budget
from dra_operator.allocator.decision import AbortedError
from dra_operator.allocator.search import backtracking
from dra_operator.allocator.search.eligible import Eligibility
from dra_operator.allocator.search.hardest import DevicePick
from dra_operator.allocator.search.lookahead import ALL, Lookahead, Packing, ShareLimits, filled_part
from dra_operator.allocator.search.model import SearchModel, set_up
from dra_operator.allocator.search.remaining import Option, RemainingDemands, RemainingSupply, SearchState
from stepfuzz.hard import Case, ListedCase, LooseCase, OddCase


@pytest.fixture
def guests_of(
    scene: Any, ask: Any, stock_of: Callable[..., RemainingSupply]
) -> Callable[..., tuple[ShareLimits, RemainingSupply, SearchState]]:
    """Return the guests of devices with so much of `m` and `b`, and the situation of requests for so much of both."""

    def build(
        devices: list[tuple[int, int]], amounts: list[tuple[int, int]]
    ) -> tuple[ShareLimits, RemainingSupply, SearchState]:
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
        supply = stock_of(scene.claim(*asked))
        now = RemainingDemands.build(supply.model, supply).first()
        assert now is not None
        return ShareLimits(supply), supply, now

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
    share_limits, _, now = guests_of([(10, 9)], amounts)

    assert share_limits.most(now.demands_left, {}) == {1: together((10, 9), amounts)}


def test_where_two_capacities_are_scarce_it_is_never_less_than_fit(guests_of: Any) -> None:
    """Each capacity by itself serves two, both together only one: the bound stays on the safe side."""
    amounts = [(9, 1), (1, 9), (6, 6), (6, 6)]
    share_limits, _, now = guests_of([(10, 10)], amounts)

    assert share_limits.most(now.demands_left, {})[1] >= together((10, 10), amounts)


def test_shares_in_flight_leave_less_room(guests_of: Any) -> None:
    """Of two wants for 4 of 10 there is place for both, and for one beside a share of 4."""
    share_limits, supply, now = guests_of([(10, 9), (10, 9)], [(4, 1), (4, 1)])
    in_flight, _ = supply.share(0, 0, {})

    assert share_limits.most(now.demands_left, {}) == {0b01: 2, 0b10: 2}
    assert share_limits.most(now.demands_left, in_flight) == {0b01: 1, 0b10: 2}


def test_only_wants_that_are_open_to_a_device_are_its_guests(guests_of: Any) -> None:
    """A want for one device leaves the other to the rest."""
    share_limits, _, now = guests_of([(10, 9), (10, 9)], [(1, 1), (2, 1), (2, 1)])
    (option,) = now.demands_left[0]
    demands_left = ((option._replace(devices=0b01),), *now.demands_left[1:])

    assert share_limits.most(demands_left, {}) == {0b01: 3, 0b10: 2}


def test_a_want_with_alternatives_takes_the_least(guests_of: Any) -> None:
    """Two wants for 6, of which one may be for 4 as well, fit on 10."""
    share_limits, _, now = guests_of([(10, 9)], [(6, 1), (4, 1), (6, 1)])
    either = (*now.demands_left[0], *now.demands_left[1])

    assert share_limits.most((now.demands_left[2], either), {}) == {1: 2}
    assert share_limits.most((now.demands_left[2], now.demands_left[0]), {}) == {1: 1}


@pytest.mark.parametrize("in_flight", [{}, {0: {}}], ids=["yet to be shared", "shared"])
def test_a_device_without_capacity_has_room_for_all(
    scene: Any, ask: Any, stock_of: Callable[..., RemainingSupply], in_flight: Any
) -> None:
    """Shares of it consume nothing."""
    scene.slice("s", {"name": "a", "allowMultipleAllocations": True})
    supply = stock_of(scene.claim(ask("x"), ask("y")))
    now = RemainingDemands.build(supply.model, supply).first()
    assert now is not None

    assert ShareLimits(supply).most(now.demands_left, in_flight) == {1: 2}


DRAWS = [(1, 3, 0), (2, 2, 1), (3, 0, 2), (0, 1, 4), (2, 2, 0), (1, 1, 1), (4, 0, 0), (0, 0, 0), (3, 3, 1)]


@pytest.fixture
def packing_of(scene: Any, stock_of: Callable[..., RemainingSupply]) -> Callable[..., tuple[Packing, Any]]:
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
        supply = stock_of(claim)
        return Packing(supply), RemainingDemands.build(supply.model, supply).first()

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

    assert packing.suffices(now.demands_left[:fitting], now.left, {})
    assert not packing.suffices(now.demands_left[: fitting + 1], now.left, {})


def suffices(draws: list[tuple[int, ...]], total: tuple[int, ...], number: int) -> bool:
    """Return whether so many of the devices with these draws may fit."""
    supply: Any = SimpleNamespace(
        draws={
            position: {(0, place): amount for place, amount in enumerate(draw) if amount}
            for position, draw in enumerate(draws)
        }
    )
    source: Any = None
    demand = (Option((1 << len(draws)) - 1, 1, source),)
    return Packing(supply).suffices((demand,) * number, (total,), {})


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
    few = now.demands_left[0][0]._replace(devices=0b11)
    demands_left = ((few,), (few,), now.demands_left[2])

    assert packing.suffices(now.demands_left, now.left, {})
    assert not packing.suffices(demands_left, now.left, {})


def test_what_is_looked_at_is_counted(packing_of: Any, scene: Any, ask: Any) -> None:
    """Those who pay for it learn how many states there were; weights alone decide without any."""
    packing, now = packing_of([(1,), (1,)], (2,), scene.claim(ask("a"), ask("b")))
    packing.suffices((*now.demands_left, *now.demands_left), now.left, {})

    assert packing.states == 0


@given(st.integers(1, 60), st.lists(st.integers(0, 60), max_size=20))
def test_parts_of_what_fits_never_exceed_a_device(room: int, amounts: list[int]) -> None:
    """The law that makes it a bound: amounts within the room have parts within one device."""
    fitting: list[int] = []
    for amount in amounts:
        if sum(fitting) + amount <= room:
            fitting.append(amount)

    assert sum(filled_part(amount, room) for amount in fitting) <= ALL


def test_more_than_there_is_fills_a_device() -> None:
    """One that has no room for an amount can only be had as a whole."""
    assert filled_part(101, 100) == ALL


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


def board_of(case: Case) -> SearchModel | None:
    """Return the board of a case, if the search that begins with the hardest could be asked about it."""
    allocator = case.allocator(SearchMode.COUNTING, Limits())
    allocator.refresh()
    plans = [allocator.plan(claim) for claim in case.claims]
    if not backtracking.is_countable(plans):
        return None
    eligibility = Eligibility(allocator.availability, allocator.candidates)
    view = allocator.availability.views.of_node("n")
    model = set_up(eligibility, plans, view, Budget(Limits(), lambda: 0.0))
    return model if isinstance(model, SearchModel) and not model.shareable & model.counted else None


def solved_in_order(model: SearchModel) -> list[DevicePick]:
    """Return the first solution as the backtracking search finds it alone, or nothing if it finds none soon."""
    budget = Budget(Limits(5000, None, None), lambda: 0.0)
    try:
        with patch.object(backtracking, "_TRIES_BEFORE_HARDEST", 1_000_000):
            path = backtracking._Search(model, budget).solve()
    except AbortedError:
        return []
    picks: list[DevicePick] = []
    while isinstance(path, tuple) and path:
        request, place, position, path = path
        picks.append(DevicePick(request, place, 1 << position))
    return picks


def go(model: SearchModel, picks: list[DevicePick]) -> str:
    """Return which bound says no where some picks of a solution are made, if any does."""
    supply = RemainingSupply(model)
    demands_left = RemainingDemands.build(model, supply)
    now = demands_left.first()
    outlook = Lookahead(model, supply)
    for request, place, bit in picks:
        now = now and outlook.narrowed(now)
        if now is None:
            return "narrowed"
        if outlook.is_hopeless(now):
            return "hopeless"
        option = next(item for item in now.demands_left[request] if item.source.place == place)
        after = demands_left.pick(now, option, bit)
        if not isinstance(after, SearchState) or not option.devices & bit:
            return "picked"
        now = after
    return ""


@pytest.mark.parametrize("make", [Case, OddCase, ListedCase, LooseCase])
def test_no_bound_says_no_on_the_way_to_a_solution(make: type[Case]) -> None:
    """In whichever order its devices are picked."""
    solved = 0
    for number in range(250):
        random = Random(f"way {number}")  # noqa: S311 - a seed makes a run repeatable
        model = board_of(make(random, most=9))
        picks = [] if model is None else solved_in_order(model)
        if model is not None and picks:
            solved += 1
            for _ in range(4):
                assert not go(model, random.sample(picks, len(picks))), number

    assert solved > 30
