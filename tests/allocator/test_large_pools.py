"""Pools of many slices: the first devices may be all that a claim needs, and nothing is decided otherwise for it."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dra_operator.allocator import SearchMode
from dra_operator.allocator.budget import Budget, Limits
from dra_operator.allocator.search import eligible

DRIVER = "gpu.example.com"
SLICES = 5
IS_FAST = f'device.attributes["{DRIVER}"].fast'
MATCH = {"matchAttribute": f"{DRIVER}/switch"}
DIFFER = {"distinctAttribute": f"{DRIVER}/switch"}


def port(
    number: int, *, fast: bool | None = True, switch: int = 0, shared: str | None = "10"
) -> dict[str, Any]:
    """Return a device; `shared` is how much there is to share of it. Where `fast` is None nobody can ask about it."""
    device: dict[str, Any] = {
        "name": f"p{number:02d}",
        "attributes": {"switch": {"int": switch}, **({} if fast is None else {"fast": {"bool": fast}})},
    }
    if shared is not None:
        device |= {"allowMultipleAllocations": True, "capacity": {"rate": _capacity(shared)}}
    return device


def _capacity(amount: str) -> dict[str, Any]:
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    return {"value": amount, "requestPolicy": policy}


def put(scene: Any, devices: Sequence[dict[str, Any]]) -> None:
    """Publish devices to all nodes, as evenly in slices as can be."""
    for number in range(SLICES):
        scene.slice(f"s{number}", *devices[number::SLICES], count=SLICES)


def part(amount: int) -> dict[str, Any]:
    """Return the field of a request that asks for an amount."""
    return {"capacity": {"requests": {"rate": str(amount)}}}


@pytest.mark.parametrize(
    ("names", "count", "constraints"),
    [(["a"], 1, []), (["a"], 2, [MATCH]), (["a"], 2, [DIFFER]), (["a", "b"], 1, [MATCH]), (["a"], 2, [])],
)
def test_devices_behind_those_that_are_taken_do_not_matter(
    counted_only: Any, ask: Any, names: list[str], count: int, constraints: list[Any]
) -> None:
    """Not even one at which an attempt ends with an error: no search comes as far as that."""
    put(
        counted_only,
        [port(number, fast=None if number == 9 else True, switch=number // 10) for number in range(20)],
    )
    claim = counted_only.claim(
        *[ask(name, count, IS_FAST, **part(3)) for name in names], constraints=constraints
    )

    picks = counted_only.picks(claim)

    assert picks is not None
    assert {pick.partition("=")[2] for pick in picks} <= {"p00", "p05", "p10", "p15"}


def test_a_claim_that_the_first_devices_do_not_serve_gets_others(counted_only: Any, ask: Any) -> None:
    """Those of another switch, where the first one has a device too few."""
    put(counted_only, [port(number, switch=int(number > 0)) for number in range(20)])
    claims = [
        counted_only.claim(ask("a", 2, **part(3)), constraints=[MATCH]),
        counted_only.claim(ask("a", 1, **part(6)), ask("b", 1, **part(6)), constraints=[MATCH]),
    ]

    assert [counted_only.picks(claim) for claim in claims] == [["a=p05", "a=p10"], ["a=p05", "b=p10"]]


_Ports = st.lists(
    st.tuples(
        st.sampled_from([True, True, True, True, False, False, None]),
        st.integers(0, 3),
        st.sampled_from(["10", "10", "6", None]),
    ),
    min_size=SLICES,
    max_size=12 * SLICES,
)
_Requests = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.booleans(),
        st.none() | st.integers(1, 9),
        st.sampled_from([{}, {}, {}, {}, {"adminAccess": True}, {"allocationMode": "All"}]),
    ),
    min_size=1,
    max_size=3,
)
_Claims = st.lists(
    st.tuples(_Requests, st.sampled_from([[], [MATCH], [DIFFER], [MATCH, DIFFER]])), min_size=1, max_size=8
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ports=_Ports, claims=_Claims, dropped=st.sets(st.integers(0, 7)))
def test_large_pools_are_decided_as_the_plain_search_decides(
    ask: Any, scene_with: Any, ports: Any, claims: Any, dropped: set[int]
) -> None:
    """One claim after the other, some of which give back what they have."""
    scene = scene_with()
    scene.nodes("n", "o")
    scene.put("Namespace", "team", labels={"resource.kubernetes.io/admin-access": "true"})
    put(scene, [port(n, fast=f, switch=s, shared=a) for n, (f, s, a) in enumerate(ports)])
    for number, (requests, constraints) in enumerate(claims):
        asked = [
            ask(
                f"r{place}",
                count,
                *([IS_FAST] if fast else []),
                **mode,
                **({} if amount is None else part(amount)),
            )
            for place, (count, fast, amount, mode) in enumerate(requests)
        ]
        claim = scene.claim(*asked, name=f"c{number}", constraints=constraints)
        decision = scene.decide(claim)
        scene.search(SearchMode.PLAIN)
        plain = scene.decide(claim)
        scene.allocator.searching = SearchMode.COUNTING
        if _devices(decision) is None:
            assert decision == plain
        else:
            assert _devices(decision) == _devices(plain)
            scene.ledger.assume("team", f"c{number}", decision.results[0])
        if number in dropped:
            scene.ledger.withdraw("team", f"c{number}")


def _devices(decision: Any) -> list[tuple[str, str]] | None:
    if not hasattr(decision, "results"):
        return None
    return [(item.request, item.device) for item in decision.results[0].devices.results]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rooms=st.lists(st.tuples(st.integers(5, 9), st.none() | st.integers(5, 9)), min_size=12, max_size=30),
    uses=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 4)), min_size=1, max_size=25),
    asked=st.integers(1, 9),
)
def test_what_is_left_of_shared_devices_is_what_each_of_them_says(
    ask: Any, scene_with: Any, rooms: Any, uses: Any, asked: int
) -> None:
    """However many capacities they have, and while shares come and go."""
    scene = scene_with()
    scene.nodes("n")
    devices = []
    for number, (rate, memory) in enumerate(rooms):
        device = port(number, shared=str(rate))
        device["capacity"] |= {} if memory is None else {"memory": _capacity(str(memory))}
        devices.append(device)
    scene.slice("s", *devices)
    claim = scene.claim(ask("r", 1, **part(asked)))
    budget = Budget(Limits(), lambda: 0.0)
    for number, (amount, given_back) in enumerate(uses):
        decision = scene.decide(scene.claim(ask("r", 1, **part(amount)), name=f"c{number}"))
        if _devices(decision) is not None:
            scene.ledger.assume("team", f"c{number}", decision.results[0])
        scene.ledger.withdraw("team", f"c{number - given_back}")
        scene.allocator.refresh()
        view = scene.allocator.availability.views.of_node("n")
        (_, pool), (item,) = view.row[0], scene.allocator.plan(claim).requests[0].alternatives
        eligibility = scene.allocator._counting.fast[0].__self__.eligibility
        wanted = eligibility.candidates_of(item, pool, budget)
        found = []
        for few in (0, 1000):
            scene.allocator.availability.states[pool.serial].with_room.clear()
            with patch.object(eligible, "FEW_DEVICES", few):
                found.append(eligibility.judge(item.key, pool, wanted))
        assert found[0] == found[1]


def test_an_amount_of_its_own_is_asked_of_the_first_devices_alone(scene: Any, ask: Any) -> None:
    """Of a pool too large to be weighed nothing else is asked first, either, as mostly these have enough."""
    scene.nodes("n0", "n1")
    put(scene, [port(number) for number in range(200)])
    claim = scene.claim(ask("r", 1, IS_FAST, **part(3)))

    assert scene.picks(claim) == ["r=p00"]
    key = scene.allocator.plan(claim).requests[0].alternatives[0].key
    (answers,) = key.answers.values()
    assert answers.unknown.bit_count() == 160
