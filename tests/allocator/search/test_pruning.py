"""What an exhaustive search with pruning leaves out holds nothing."""

from collections.abc import Iterator
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from conformance.generate import make_scenario
from dra_operator.allocator import Decision, Failed, Limits, SearchMode, Unsatisfied
from dra_operator.allocator.search import chain
from dra_operator.cli.scenarios import load
from stepfuzz.hard import Case, ListedCase, LooseCase, OddCase

_STEPS = 5_000


@pytest.fixture
def at_once() -> Iterator[None]:
    """Search plainly only, and look at the prospects from the start."""
    with (
        patch.object(chain, "_FAILURES_BEFORE_PRUNING", 0),
        patch.object(chain, "has_single_request", lambda _: False),
        patch.object(chain, "is_countable", lambda _: False),
    ):
        yield


def decide(scenario: dict[str, Any], searching: SearchMode) -> Decision:
    """Decide a scenario."""
    loaded = load(scenario)
    loaded.allocator.searching = searching
    loaded.allocator.limits = Limits(_STEPS, None)
    return loaded.allocator.allocate(loaded.claims)


def crowded(number: int) -> dict[str, Any]:
    """Return a generated scenario with the claims of two, which are hard to serve together."""
    one, other = make_scenario(7, number), make_scenario(7, number + 1)
    for claim in other["claims"]:
        claim["metadata"]["name"] += "-too"
    known = {item["metadata"]["name"] for item in one["deviceClasses"]}
    classes = [item for item in other["deviceClasses"] if item["metadata"]["name"] not in known]
    return {
        **one,
        "claims": [*one["claims"], *other["claims"]],
        "deviceClasses": [*one["deviceClasses"], *classes],
    }


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("make", [Case, OddCase, ListedCase, LooseCase])
def test_tight_claims_are_decided_as_without(make: type[Case]) -> None:
    """Pruner leave nothing out where several constraints, alternatives and shares meet."""
    for number in range(150):
        case = make(Random(f"prospects {number}"), most=6)  # noqa: S311 - a seed makes a run repeatable
        plain = case.allocator(SearchMode.PLAIN, Limits(_STEPS, None)).allocate(case.claims)
        if not (isinstance(plain, Failed) and plain.kind == "aborted"):
            ours = case.allocator(SearchMode.COUNTING, Limits(_STEPS, None)).allocate(case.claims)
            assert ours == plain, number


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("block", range(0, 240, 40))
def test_the_answer_stays_the_same(block: int) -> None:
    """Devices, shares and texts of errors are those of the search that leaves nothing out."""
    for number in range(block, block + 40):
        for scenario in (make_scenario(7, number), crowded(number)):
            plain = decide(scenario, SearchMode.PLAIN)
            if isinstance(plain, Failed) and plain.kind == "aborted":
                continue
            assert decide(scenario, SearchMode.COUNTING) == plain, (number, len(scenario["claims"]))


@pytest.fixture
def crowd(scene: Any, ask: Any) -> list[Any]:
    """Claims that have many ways to begin."""
    scene.nodes("n1")
    scene.put("Namespace", "team", labels={"resource.kubernetes.io/admin-access": "true"})
    scene.slice("s", *(f"d{number:02}" for number in range(16)))
    return [scene.claim(ask("r", 3), name=f"c{number}") for number in range(2)]


ADMIN = {"adminAccess": True}
MODEL = "gpu.example.com/model"


@pytest.mark.parametrize(
    ("requests", "constraints"),
    [
        pytest.param([("a", 2, {}), ("b", 1, {"allocationMode": "All", **ADMIN})], [], id="its own devices"),
        pytest.param([("a", 12, {}), ("b", 5, ADMIN)], [], id="more than there are, one way or another"),
        pytest.param([("a", 11, {}), ("b", 1, ADMIN)], [], id="more than are left"),
        pytest.param([("a", 1, ADMIN), ("b", 1, {})], [{"matchAttribute": MODEL}], id="no such attribute"),
    ],
)
def test_a_claim_that_cannot_be_served_is_not_tried_behind_every_way_to_serve_another(
    scene: Any, ask: Any, crowd: list[Any], requests: list[Any], constraints: list[Any]
) -> None:
    """Within a few hundred steps, where trying takes a hundred thousand."""
    last = scene.claim(
        *(ask(name, count, **fields) for name, count, fields in requests),
        name="last",
        constraints=constraints,
    )
    scene.allocator.limits = Limits(600, None)

    scene.allocator.searching = SearchMode.PLAIN
    assert isinstance(scene.decide(*crowd, last), Failed)
    scene.allocator.searching = SearchMode.COUNTING
    assert scene.decide(*crowd, last) == Unsatisfied()


def test_a_thousand_devices_are_not_matched_one_by_one(scene: Any, ask: Any) -> None:
    """Matching goes deeper than the interpreter's stack with as many."""
    scene.nodes("n1")
    scene.slice("s", *(f"d{number}" for number in range(1229)))
    claims = [scene.claim(ask("r", 30), name=f"c{number}") for number in range(41)]
    scene.allocator.limits = Limits(3000, None)

    decision = scene.decide(*claims)

    assert isinstance(decision, Failed)
    assert decision.kind == "aborted"


@pytest.mark.usefixtures("at_once")
def test_a_state_that_has_failed_is_not_tried_again(scene: Any, ask: Any) -> None:
    """Whichever three of many alike are taken first, the two shares behind them do not fit."""
    scene.nodes("n1")
    shared = {
        "name": "x",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "3"}},
    }
    scene.slice("s", *(f"d{number:02}" for number in range(20)), shared)
    is_shared = "device.allowMultipleAllocations"
    wide = scene.claim(ask("r", 3, f"!{is_shared}"), name="wide")
    shares = [
        scene.claim(ask("r", 1, is_shared, capacity={"requests": {"memory": "2"}}), name=name)
        for name in ("one", "two")
    ]
    ways = 20 * 19 * 18 // 6
    scene.allocator.limits = Limits(2 * ways, None)

    scene.allocator.searching = SearchMode.PLAIN
    assert isinstance(scene.decide(wide, *shares), Failed)
    scene.allocator.searching = SearchMode.COUNTING
    assert scene.decide(wide, *shares) == Unsatisfied()


def device(
    name: str, *, kind: str = "x", role: str | None = None, cores: int = 0, groups: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return a device of a kind, for requests of a role or for any, which may take cores beside groups."""
    use = {"counterSet": "set", "counters": {"cores": {"value": str(cores)}}, "compatibilityGroups": groups}
    attributes = {"kind": {"string": kind}, **({} if role is None else {"role": {"string": role}})}
    return {"name": name, "attributes": attributes, "consumesCounters": [use] if cores else []}


KIND = "gpu.example.com/kind"
MEMORY = {"capacity": {"requests": {"memory": "3"}}}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "4"}}}
ALIKE = [device("a", kind="y"), device("b"), device("c")]
DIFFERENT = [{"distinctAttribute": KIND, "requests": ["two"]}]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("devices", "requests", "constraints", "expected"),
    [
        pytest.param(ALIKE, [("one", 1, {}), ("two", 2, {})], DIFFERENT, "b a c", id="devices"),
        pytest.param(
            ALIKE, [("one", 1, ADMIN), ("two", 2, ADMIN)], DIFFERENT, "b a c", id="devices of admin access"
        ),
        pytest.param(
            [
                *(device(name, kind=kind, role="one") for name, kind in ("ax", "by")),
                *(device(name, kind=kind, role="two") for name, kind in ("cy", "dy", "ex")),
            ],
            [("one", 1, {}), ("two", 2, {})],
            [{"matchAttribute": KIND}],
            "b c d",
            id="constraints",
        ),
        pytest.param(
            [device("a", role="one", cores=2), device("b", role="one"), device("c", role="two", cores=2)],
            [("one", 1, {}), ("two", 1, {})],
            [],
            "b c",
            id="counters",
        ),
        pytest.param(
            [
                device("a", role="one", cores=1, groups=("p",)),
                device("b", role="one", cores=1, groups=("q",)),
                device("c", role="two", cores=1, groups=("q",)),
            ],
            [("one", 1, {}), ("two", 1, {})],
            [],
            "b c",
            id="groups",
        ),
        pytest.param(
            [{"name": "a", **SHARED}, {**device("b", role="one"), "capacity": {"memory": {"value": "3"}}}],
            [("one", 1, MEMORY), ("two", 1, MEMORY)],
            [],
            "b a",
            id="shares",
        ),
    ],
)
def test_what_a_state_consists_of(
    scene: Any, ask: Any, *, devices: list[Any], requests: list[Any], constraints: list[Any], expected: str
) -> None:
    """The first way to serve a request leaves nothing for the next, and its state is not taken for another one's."""
    scene.nodes("n1")
    scene.put("Namespace", "team", labels={"resource.kubernetes.io/admin-access": "true"})
    scene.slice("s", *devices, count=2)
    scene.slice("t", count=2, sharedCounters=[{"name": "set", "counters": {"cores": {"value": "3"}}}])
    role = 'device.attributes["gpu.example.com"].?role.orValue("{0}") == "{0}"'
    asked = [ask(name, count, role.format(name), **fields) for name, count, fields in requests]

    picks = scene.picks(scene.claim(*asked, constraints=constraints))

    assert [pick.partition("=")[2] for pick in picks or ()] == expected.split()


@pytest.mark.usefixtures("at_once")
def test_an_error_that_trying_meets_is_met(scene: Any, ask: Any) -> None:
    """Behind a request that may end the attempt with an error nothing is left out."""
    scene.nodes("n1")
    odd = {"name": "b", "attributes": {"model": {"int": 1}}}
    fine = {"name": "a", "attributes": {"model": {"string": "x"}}}
    scene.slice("s", fine, odd)
    picky = 'device.attributes["gpu.example.com"].model == "x" || device.attributes["gpu.example.com"].model < "y"'
    claim = scene.claim(ask("one"), ask("two", 1, picky), ask("none", 1, "false"))

    failed = scene.decide(claim)

    assert isinstance(failed, Failed)
    assert failed.kind == "fatal"
