"""Claims that trying would not decide in a lifetime, and what the fast searches leave to the exhaustive one."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from dra_operator.allocator import Failed, Limits, Reason, SearchMode, Unsatisfied
from dra_operator.allocator.search import backtracking
from dra_operator.allocator.search.backtracking import BacktrackingSearch
from dra_operator.allocator.search.exhaustive import ExhaustiveSearch
from dra_operator.api.names import ADMIN_ACCESS_LABEL


def device(name: str, **attributes: Any) -> dict[str, Any]:
    """Return a device with attributes of kind int."""
    return {"name": name, "attributes": {key: {"int": value} for key, value in attributes.items()}}


def test_a_later_request_without_candidates_ends_the_search(counted_only: Any, ask: Any) -> None:
    """Half of 48 devices, and one that does not exist: C(48, 24) ways to try, none tried."""
    counted_only.slice("s", *[device(f"d{number:02}") for number in range(48)])
    claim = counted_only.claim(ask("many", 24), ask("none", 1, "false"))

    assert counted_only.decide(claim) == Unsatisfied()


def test_more_devices_than_distinct_values_end_the_search(counted_only: Any, ask: Any) -> None:
    """Thirteen devices cannot have thirteen of twelve values."""
    counted_only.slice("s", *[device(f"d{number:02}", rail=number % 12) for number in range(48)])
    requests = [ask(f"r{number}") for number in range(13)]
    claim = counted_only.claim(*requests, constraints=[{"distinctAttribute": "gpu.example.com/rail"}])

    assert counted_only.decide(claim) == Unsatisfied()


def test_without_consumable_capacity_a_device_is_had_once(scene_with: Any, ask: Any) -> None:
    """That it could be shared says nothing then: two requests have two devices."""
    scene = scene_with(consumable_capacity=False)
    scene.nodes("n")
    scene.slice("s", *[{"name": name, "allowMultipleAllocations": True} for name in "ab"], nodeName="n")

    assert scene.picks(scene.claim(ask("p"), ask("q"))) == ["p=a", "q=b"]


def test_no_value_with_room_for_all_requests_ends_the_search(counted_only: Any, ask: Any) -> None:
    """Each root has devices enough for either request, none for both."""
    counted_only.slice("s", *[device(f"d{number:02}", root=number % 4) for number in range(64)])
    claim = counted_only.claim(
        ask("a", 8), ask("b", 9), constraints=[{"matchAttribute": "gpu.example.com/root"}]
    )

    assert counted_only.decide(claim) == Unsatisfied()


@pytest.fixture(params=[1024, 8], ids=["small", "large"])
def board_size(request: Any) -> Iterator[None]:
    """Let a board of 30 devices be one that the search for the hardest cases takes, or one too large for it."""
    with patch.object(backtracking, "_MOST_DEVICES", request.param):
        yield


@pytest.mark.parametrize("more", [0, 1], ids=["equal", "different"])
def test_more_devices_than_there_are_tries_may_no_longer_fit(counted_only: Any, ask: Any, more: int) -> None:
    """Of 1,280 ports any one fits what is left, and no two do: the second request gets what comes after ports."""
    ports = [
        {
            **device(f"p{number:04}", port=1),
            "consumesCounters": [
                {"counterSet": "set", "counters": {"n": {"value": str(9_000 + more * number)}}}
            ],
        }
        for number in range(1280)
    ]
    total = {"name": "set", "counters": {"n": {"value": "12000"}}}
    counted_only.slice("c", sharedCounters=[total], count=11)
    for first in range(0, 1280, 128):
        counted_only.slice(f"s{first:04}", *ports[first : first + 128], count=11)
    counted_only.slice("t", device("card", port=0), pool="rest")
    is_port, is_card = [f'device.attributes["gpu.example.com"].port == {value}' for value in (1, 0)]
    port, card = ask("port", 1, is_port)["exactly"], ask("card", 1, is_card)["exactly"]
    either = {"name": "b", "firstAvailable": [{"name": "port", **port}, {"name": "card", **card}]}

    assert counted_only.picks(counted_only.claim(ask("a", 1, is_port), either)) == ["a=p0000", "b/card=card"]
    assert counted_only.decide(counted_only.claim(ask("a", 2, is_port))) == Unsatisfied()


@pytest.mark.usefixtures("board_size")
def test_claims_for_more_pairs_than_there_are_end_the_search(counted_only: Any, ask: Any) -> None:
    """Sixteen claims for a pair each do not fit on fifteen pairs."""
    counted_only.slice("s", *[device(f"d{number:02}", pair=number // 2) for number in range(30)])
    constraint = {"matchAttribute": "gpu.example.com/pair"}
    claims = [
        counted_only.claim(ask("r", 2), name=f"c{number}", constraints=[constraint]) for number in range(16)
    ]

    assert counted_only.decide(*claims) == Unsatisfied()


@pytest.mark.usefixtures("board_size")
def test_claims_for_more_pairs_than_triples_have_room_for_end_the_search(counted_only: Any, ask: Any) -> None:
    """Eleven pairs do not fit in ten triples, each of which has room for one."""
    counted_only.slice("s", *[device(f"d{number:02}", triple=number // 3) for number in range(30)])
    constraint = {"matchAttribute": "gpu.example.com/triple"}
    claims = [
        counted_only.claim(ask("r", 2), name=f"c{number}", constraints=[constraint]) for number in range(11)
    ]

    assert counted_only.decide(*claims) == Unsatisfied()


def test_a_search_that_is_given_up_is_no_answer(ticking: Any, ask: Any) -> None:
    """Thirteen shares of 3 do not fit in four times 10, but with too few tries nobody knows."""
    scene = ticking(Limits(steps=None, seconds=None, tries=20))
    scene.nodes("n")
    shareable = {"allowMultipleAllocations": True, "capacity": {"m": {"value": "10"}}}
    scene.slice("s", *({"name": f"d{number}", **shareable} for number in range(4)))
    decision = scene.decide(
        scene.claim(*(ask(f"r{number}", capacity={"requests": {"m": "3"}}) for number in range(13)))
    )

    assert isinstance(decision, Failed)
    assert (decision.kind, decision.message) == (
        "aborted",
        "the search was given up after 20 tries on one node",
    )


def test_tries_are_counted_for_each_node(ticking: Any, ask: Any) -> None:
    """Many nodes that each take a few tries are no reason to give up."""
    scene = ticking(Limits(steps=None, seconds=None, tries=60))
    scene.nodes(*(f"n{number:02}" for number in range(30)))
    constraint = {"matchAttribute": "gpu.example.com/triple"}
    for number in range(30):
        devices = [device(f"d{place}", triple=place // 3) for place in range(6)]
        scene.slice(f"s{number:02}", *devices, nodeName=f"n{number:02}")
    claims = [scene.claim(ask("r", 2), name=f"c{number}", constraints=[constraint]) for number in range(3)]

    assert scene.decide(*claims) == Unsatisfied()


def test_half_of_many_devices_beside_all_of_a_kind_that_is_not_free(counted_only: Any, ask: Any) -> None:
    """All of a kind are one choice, all or none: with one of them in use there is nothing to try."""
    selector = 'device.attributes["gpu.example.com"].kind == 1'
    counted_only.slice("s", *[device(f"d{number:02}", kind=number // 40) for number in range(48)])
    counted_only.hold("other", "d41", "pool")
    claim = counted_only.claim(ask("many", 20), ask("all", 1, selector, allocationMode="All"))

    assert counted_only.decide(claim) == Unsatisfied()


def test_all_devices_of_a_kind_beside_others(counted_only: Any, ask: Any) -> None:
    """A request that comes first leaves those alone that a later one needs, all of them."""
    selector = 'device.attributes["gpu.example.com"].kind == 0'
    counted_only.slice("s", *[device(f"d{number}", kind=number // 2) for number in range(4)])
    requests = [ask("two", 2), ask("all", 1, selector, allocationMode="All")]

    assert counted_only.picks(counted_only.claim(*requests)) == ["two=d2", "two=d3", "all=d0", "all=d1"]


@pytest.mark.parametrize(
    "unfit",
    [
        pytest.param({"taints": [{"key": "k", "effect": "NoSchedule"}]}, id="tainted"),
        pytest.param(
            {"consumesCounters": [{"counterSet": "set", "counters": {"n": {"value": "2"}}}]}, id="counters"
        ),
        pytest.param({"allowMultipleAllocations": True, "capacity": {"m": {"value": "1"}}}, id="full"),
        pytest.param({}, id="in use"),
    ],
)
@pytest.mark.parametrize("beside", [(), ("a",)], ids=["alone", "beside another"])
def test_all_devices_are_all_or_none(
    counted_only: Any, ask: Any, unfit: dict[str, Any], beside: tuple[str, ...]
) -> None:
    """One device that cannot be had, for whatever reason, and the claim gets none."""
    total = {"name": "set", "counters": {"n": {"value": "1"}}}
    counted_only.slice("c", sharedCounters=[total], pool="pool", count=2)
    counted_only.slice("s", *beside, {"name": "b", **unfit}, pool="pool", count=2)
    if "capacity" in unfit:
        counted_only.use("user", ask("r", 1, "device.allowMultipleAllocations"))
    elif not unfit:
        counted_only.hold("user", "b", "pool")
    decision = counted_only.decide(counted_only.claim(ask("r", allocationMode="All")))

    assert decision == Unsatisfied()


@pytest.mark.parametrize(
    "fields",
    [{"allocationMode": "All"}, {"allocationMode": "All", "adminAccess": True}, {"adminAccess": True}],
)
def test_a_claim_with_one_request_needs_no_board(counted_only: Any, ask: Any, fields: dict[str, Any]) -> None:
    """The single-request search decides it."""
    counted_only.put("Namespace", "team", labels={ADMIN_ACCESS_LABEL: "true"})
    counted_only.slice("s", "a")
    with patch.object(BacktrackingSearch, "search", side_effect=AssertionError("a board was made")):
        assert counted_only.picks(counted_only.claim(ask("r", **fields))) == ["r=a"]


@pytest.mark.parametrize(("count", "found"), [(2, ["d1", "d2"]), (3, ["d1", "d2", "d4"]), (4, None)])
def test_devices_that_differ_are_the_lowest_of_each_value(
    counted_only: Any, ask: Any, count: int, found: list[str] | None
) -> None:
    """Of three rails two have a second device, one is in use and one has no rail; no board is needed to tell."""
    devices = [device(f"d{number}", rail=rail) for number, rail in enumerate([1, 1, 0, 1, 2, 0])]
    counted_only.slice("s", *devices, "without")
    counted_only.hold("other", "d0", "pool")
    claim = counted_only.claim(ask("r", count), constraints=[{"distinctAttribute": "gpu.example.com/rail"}])
    with patch.object(BacktrackingSearch, "search", side_effect=AssertionError("a board was made")):
        assert counted_only.picks(claim) == (found and [f"r={name}" for name in found])


@pytest.mark.parametrize("searching", SearchMode)
@pytest.mark.parametrize("failing_first", [False, True])
def test_no_error_comes_from_behind_a_request_with_too_few_devices(
    scene: Any, ask: Any, searching: SearchMode, *, failing_first: bool
) -> None:
    """A request is looked at when those before it have devices: only then can its selector end the attempt."""
    scene.nodes("n")
    scene.slice("s", "a", "b")
    scene.allocator.searching = searching
    many, failing = ask("many", 3), ask("failing", 1, 'device.attributes["x"].y')
    decision = scene.decide(scene.claim(*([failing, many] if failing_first else [many, failing])))

    assert isinstance(decision, Failed) if failing_first else decision == Unsatisfied()


def test_what_is_behind_a_request_with_too_few_devices_needs_no_plain_search(
    counted_only: Any, ask: Any
) -> None:
    """Its selector fails on each device, and its constraint is about a list: neither is looked at."""
    listed = {"attributes": {"rails": {"strings": ["a", "b"]}}}
    counted_only.slice("s", {"name": "a", **listed}, {"name": "b", **listed})
    failing = ask("failing", 1, 'device.attributes["x"].y')
    claim = counted_only.claim(
        ask("many", 3), failing, constraints=[{"matchAttribute": "gpu.example.com/rails"}]
    )

    assert counted_only.decide(claim) == Unsatisfied()


@pytest.mark.parametrize("searching", SearchMode)
@pytest.mark.parametrize(
    ("first", "last", "constraints"),
    [
        pytest.param(
            {"count": 3},
            {"allocationMode": "All", "selectors": [{"cel": {"expression": 'device.attributes["x"].y'}}]},
            [],
            id="all devices are looked up before the search",
        ),
        pytest.param(
            {"derivedAttributes": [{"name": "z.example.com/z", "expression": 'device.attributes["x"].y'}]},
            {"count": 3},
            [{"matchAttribute": "z.example.com/z"}],
            id="the first request derives",
        ),
    ],
)
def test_an_error_before_a_request_with_too_few_devices_ends_the_attempt(
    scene: Any,
    ask: Any,
    searching: SearchMode,
    *,
    first: dict[str, Any],
    last: dict[str, Any],
    constraints: list[dict[str, Any]],
) -> None:
    """What upstream looks at earlier can fail, whoever lacks devices."""
    scene.nodes("n")
    scene.slice("s", "a", "b")
    scene.allocator.searching = searching
    bound = [{**item, "requests": ["first"]} for item in constraints]
    decision = scene.decide(scene.claim(ask("first", **first), ask("last", **last), constraints=bound))

    assert isinstance(decision, Failed)


def test_room_that_comes_back_in_a_shared_device_is_seen(counted_only: Any, ask: Any) -> None:
    """What was found out about a shared device is forgotten when a share of it goes or comes."""
    counted_only.slice(
        "s", {"name": "a", "allowMultipleAllocations": True, "capacity": {"m": {"value": "10"}}}
    )
    sharing = [ask(f"r{number}", capacity={"requests": {"m": "4"}}) for number in range(2)]
    claim = counted_only.claim(*sharing)
    seen = [counted_only.picks(claim)]
    counted_only.use("user", ask("r", capacity={"requests": {"m": "7"}}))
    seen.append(counted_only.picks(claim))
    counted_only.ledger.withdraw("team", "user")
    seen.append(counted_only.picks(claim))
    counted_only.use("user", ask("r", capacity={"requests": {"m": "1"}}))
    seen.append(counted_only.picks(claim))

    assert seen == [["r0=a", "r1=a"], None, ["r0=a", "r1=a"], ["r0=a", "r1=a"]]


def test_all_devices_of_several_pools_in_order(counted_only: Any, ask: Any) -> None:
    """Pools by name, devices as published, those of other kinds left out."""
    counted_only.slice("t", "c", {"name": "other", "allowMultipleAllocations": True}, pool="p2")
    counted_only.slice("s", "b", "a", pool="p1")
    claim = counted_only.claim(ask("r", 1, "!device.allowMultipleAllocations", allocationMode="All"))

    assert counted_only.picks(claim) == ["r=b", "r=a", "r=c"]


def test_all_devices_that_draw_on_the_same_counters(counted_only: Any, ask: Any) -> None:
    """Each would fit alone; both do only if there is enough for two."""
    uses = {"consumesCounters": [{"counterSet": "set", "counters": {"n": {"value": "1"}}}]}
    counted_only.slice("s", {"name": "a", **uses}, {"name": "b", **uses}, pool="pool", count=2)
    counted_only.slice("t", "c", pool="without")
    claim = counted_only.claim(ask("r", allocationMode="All"))
    picks = {}
    for total in ("1", "2"):
        counters = {"name": "set", "counters": {"n": {"value": total}}}
        counted_only.slice("c", sharedCounters=[counters], pool="pool", count=2)
        picks[total] = counted_only.picks(claim)

    assert picks == {"1": None, "2": ["r=a", "r=b", "r=c"]}


def test_the_lowest_devices_are_given_up_for_a_later_request(counted_only: Any, ask: Any) -> None:
    """Two at once, as long as the request behind them can do without; else the first two that leave it one."""
    counted_only.slice("s", *[device(name, index=number) for number, name in enumerate("abcd")])
    index = 'device.attributes["gpu.example.com"].index'
    any_two, one = ask("any", 2), {of: ask("one", 1, f"{index} in {of}") for of in ("[3]", "[1]", "[0, 1]")}

    assert {of: counted_only.picks(counted_only.claim(any_two, request)) for of, request in one.items()} == {
        "[3]": ["any=a", "any=b", "one=d"],
        "[1]": ["any=a", "any=c", "one=b"],
        "[0, 1]": ["any=a", "any=c", "one=b"],
    }


@pytest.mark.parametrize("before", [[], ["one"]], ids=["alone", "as an alternative"])
def test_a_pool_that_is_not_complete_ends_a_claim_for_all_devices(scene: Any, before: list[str]) -> None:
    """Upstream looks up all devices before it tries any alternative, even if the first would do."""
    scene.nodes("n")
    scene.slice("s", "a", pool="whole")
    scene.slice("t", "b", pool="part", count=2)
    alternatives = [
        *({"name": name, "deviceClassName": "gpu", "count": 1} for name in before),
        {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
    ]
    decision = scene.decide(scene.claim({"name": "r", "firstAvailable": alternatives}))

    assert isinstance(decision, Failed)
    assert decision.reason is Reason.POOL_INCOMPLETE


def test_a_claim_for_all_devices_behind_another(counted_only: Any, ask: Any) -> None:
    """Claims decided together are counted together, in whatever mode they ask."""
    selector = 'device.attributes["gpu.example.com"].kind == 1'
    counted_only.slice("s", *[device(f"d{number}", kind=number // 2) for number in range(4)])
    claims = [
        counted_only.claim(ask("one"), name="x"),
        counted_only.claim(ask("all", 1, selector, allocationMode="All"), name="y"),
    ]

    assert counted_only.picks(*claims) == ["one=d0", "all=d2", "all=d3"]


def test_all_devices_are_asked_about_in_use_or_not(scene: Any, ask: Any) -> None:
    """The selector fails on a device that is in use: upstream ends the attempt there."""
    scene.nodes("n")
    scene.slice("s", device("a"), device("b", kind=1))
    scene.hold("other", "a", "pool")
    selector = 'device.attributes["gpu.example.com"].kind == 1'
    decision = scene.decide(scene.claim(ask("all", 1, selector, allocationMode="All")))

    assert isinstance(decision, Failed)
    assert decision.reason is Reason.SELECTOR_FAILED


@pytest.mark.parametrize("devices", [0, 33])
def test_all_devices_are_at_least_one_and_at_most_so_many(scene: Any, ask: Any, devices: int) -> None:
    """None is no answer; more than a claim can have is an error, which the exhaustive search words."""
    scene.nodes("n")
    scene.slice("s", *[device(f"d{number:02}") for number in range(devices)])
    decision = scene.decide(scene.claim(ask("r", allocationMode="All")))

    if devices:
        assert isinstance(decision, Failed)
        assert decision.message == "request r: 33 devices are more than the 32 that a claim can have"
    else:
        assert decision == Unsatisfied()


@pytest.mark.parametrize(
    ("fields", "devices"),
    [
        pytest.param(
            {"allocationMode": "All", "selectors": [{"cel": {"expression": 'device.attributes["x"].y'}}]},
            [{"name": "a"}],
            id="all devices, one of which fails",
        ),
        pytest.param(
            {"selectors": [{"cel": {"expression": 'device.attributes["x"].y'}}]},
            [{"name": "a"}],
            id="a failing selector",
        ),
    ],
)
def test_what_could_end_with_an_error_is_left_to_the_plain_search(
    scene: Any, ask: Any, fields: dict[str, Any], devices: list[dict[str, Any]]
) -> None:
    """The exhaustive search knows which device upstream looks at, and so which error comes first, if any."""
    scene.nodes("n")
    scene.slice("s", *devices)
    with patch.object(ExhaustiveSearch, "run", autospec=True, side_effect=ExhaustiveSearch.run) as asked:
        scene.decide(scene.claim(ask("r", **fields)))

    assert asked.call_count == 1
