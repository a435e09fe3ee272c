"""Nodes that are kept for others are left out, and nothing is decided otherwise for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dra_operator.allocator import Allocated, Allocator, Failed, Searching, Unsatisfied
from dra_operator.allocator.matching.candidates import Candidates
from dra_operator.allocator.nodes import openings
from dra_operator.api.defaults import apply_defaults
from dra_operator.api.read import read_object
from dra_operator.inventory import Inventory
from dra_operator.ledger import Ledger

DRIVER = "gpu.example.com"
NODES = [f"n{number:02d}" for number in range(12)]
KIND = f'device.attributes["{DRIVER}"].kind == "x"'
KEYS = count()


def taint(team: str, effect: str = "NoSchedule") -> dict[str, str]:
    """Return the taint of what is kept for a team."""
    return {"key": "team", "value": team, "effect": effect}


def tolerated(*teams: str) -> list[dict[str, str]]:
    """Return tolerations for the taints of these teams, and one that nobody else has."""
    return [
        {"key": f"own-{next(KEYS)}", "operator": "Exists"},
        *({"key": "team", "operator": "Equal", "value": team} for team in teams),
    ]


@contextmanager
def looked_at() -> Iterator[list[str]]:
    """Record the pools of which something is found out."""
    pools: list[str] = []
    find = Candidates.find

    def recorded(candidates: Candidates, key: Any, view: Any, *rest: Any) -> Any:
        pools.append(view.key[1])
        return find(candidates, key, view, *rest)

    with patch.object(Candidates, "find", recorded):
        yield pools


@pytest.fixture
def kept(scene: Any, ask: Any) -> Callable[..., Any]:
    """Nodes with two devices each, the last one kept for team b, all others for team a, as two claims have seen."""

    def build(**devices: Any) -> Any:
        scene.nodes(*NODES)
        for node in NODES:
            team = "b" if node == NODES[-1] else "a"
            pair = [
                {"name": f"{node}-{n}", "taints": [taint(team)], **devices.get(node, {})} for n in range(2)
            ]
            scene.slice(node, *pair, nodeName=node)
        for _ in range(2):
            assert scene.decide(scene.claim(ask(tolerations=tolerated()))) == Unsatisfied()
        return scene

    return build


@pytest.mark.parametrize(
    "tolerations",
    [
        tolerated("b"),
        [{"key": "team", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
        [{"operator": "Equal", "value": "b"}],
        [{"key": "team", "operator": "Equal", "value": "b", "effect": "NoExecute"}, *tolerated("b", "c")],
    ],
)
def test_only_the_nodes_of_the_team_are_looked_at(kept: Any, ask: Any, tolerations: Any) -> None:
    """By whichever toleration, that no claim before had."""
    scene = kept()
    with looked_at() as pools:
        decision = scene.decide(scene.claim(ask(tolerations=tolerations)))

    assert isinstance(decision, Allocated)
    assert decision.node == NODES[-1]
    assert pools == [NODES[-1]]


def test_devices_of_other_drivers_hide_no_node(kept: Any, scene: Any, ask: Any) -> None:
    """What the class takes none of is passed over, and the node is known to be kept all the same."""
    scene.device_class("gpu", f'device.driver == "{DRIVER}"')
    for node in NODES:
        scene.slice(f"{node}-other", "x", nodeName=node, pool=f"{node}-other", driver="a.example.com")
    kept()
    with looked_at() as pools:
        decision = scene.decide(scene.claim(ask(tolerations=tolerated("b"))))

    assert isinstance(decision, Allocated)
    assert decision.node == NODES[-1]
    assert {pool.removesuffix("-other") for pool in pools} == {NODES[-1]}


@pytest.mark.parametrize("tolerations", [[{"operator": "Exists"}], [{"key": "team", "operator": "Exists"}]])
def test_who_tolerates_all_gets_the_first_node(kept: Any, ask: Any, tolerations: Any) -> None:
    """Without a value, and without a key."""
    scene = kept()

    assert scene.picks(scene.claim(ask(tolerations=tolerations))) == ["r=n00-0"]


def test_nobody_is_looked_for_who_tolerates_nothing_there(kept: Any, ask: Any) -> None:
    """An effect that the taints have not helps no more than another key."""
    scene = kept()
    wrong = [{"key": "team", "operator": "Exists", "effect": "NoExecute"}]
    with looked_at() as pools:
        found = [scene.decide(scene.claim(ask(tolerations=item))) for item in (tolerated(), wrong)]

    assert found == [Unsatisfied()] * 2
    assert pools == []


def test_nodes_with_too_few_devices_for_anybody_are_left_out(kept: Any, ask: Any) -> None:
    """Whatever is tolerated; for one device less they are looked at."""
    scene = kept()
    for _ in range(2):
        scene.decide(scene.claim(ask("r", 3, tolerations=tolerated("a", "b"))))
    with looked_at() as pools:
        three, four, two = [
            scene.decide(scene.claim(ask("r", number, tolerations=tolerated("a", "b"))))
            for number in (3, 4, 2)
        ]

    assert (three, four) == (Unsatisfied(), Unsatisfied())
    assert isinstance(two, Allocated)
    assert pools == [NODES[0]]


def test_a_node_is_left_out_only_if_no_alternative_fits(kept: Any) -> None:
    """The second one may tolerate what the first does not."""
    scene = kept()

    def alternatives(team: str) -> Any:
        wanted = {"deviceClassName": "gpu", "count": 1}
        parts = [{"name": "one", **wanted, "tolerations": tolerated("c")}]
        parts += [{"name": "two", **wanted, "tolerations": tolerated(team)}]
        return scene.claim({"name": "r", "firstAvailable": parts})

    assert scene.picks(alternatives("b")) == [f"r/two={NODES[-1]}-0"]
    assert scene.picks(alternatives("d")) is None


def test_a_rule_that_goes_opens_a_node(kept: Any, ask: Any) -> None:
    """Another rule closes it again."""
    scene = kept()
    scene.slice("n04", "free", nodeName="n04")
    selector = {"pool": "n04"}
    scene.put("DeviceTaintRule", "rule", spec={"deviceSelector": selector, "taint": taint("c", "NoExecute")})
    found = [scene.picks(scene.claim(ask(tolerations=tolerated(team)))) for team in ("", "c")]
    scene.put("DeviceTaintRule", "rule", spec={"deviceSelector": selector, "taint": taint("c", "None")})
    found.append(scene.picks(scene.claim(ask(tolerations=tolerated()))))
    scene.put("DeviceTaintRule", "rule", spec={"deviceSelector": selector, "taint": taint("d")})
    found += [scene.picks(scene.claim(ask(tolerations=tolerated(team)))) for team in ("c", "d")]

    assert found == [None, ["r=free"], ["r=free"], None, ["r=free"]]


def test_a_device_that_comes_back_opens_its_node(scene: Any, ask: Any) -> None:
    """To a team of which there was none before, and to who needs more."""
    scene.nodes("m", "n")
    scene.slice("m", {"name": "c", "taints": [taint("c")]}, nodeName="m")
    scene.slice(
        "n", {"name": "a", "taints": [taint("a")]}, {"name": "b", "taints": [taint("b")]}, nodeName="n"
    )
    scene.hold("holder", "b", "n")
    for number, teams in ((1, "b"), (1, "b"), (2, "ab")):
        scene.decide(scene.claim(ask("r", number, tolerations=tolerated(*teams))))
    scene.ledger.remove("team", "holder")

    assert scene.picks(scene.claim(ask(tolerations=tolerated("b")))) == ["r=b"]
    assert scene.picks(scene.claim(ask("r", 2, tolerations=tolerated("a", "b")))) == ["r=a", "r=b"]


def test_an_error_is_met_behind_a_barrier(kept: Any, ask: Any) -> None:
    """A selector is asked about a device before its taints are."""
    scene = kept(**{node: {"attributes": {"kind": {"string": "x"}}} for node in NODES if node != "n07"})
    found = [scene.decide(scene.claim(ask("r", 1, KIND, tolerations=tolerated()))) for _ in range(4)]

    assert all(isinstance(item, Failed) for item in found)


def test_a_node_that_is_new_is_looked_at(kept: Any, ask: Any) -> None:
    """Nodes that come before it by name have other numbers then."""
    scene = kept()
    scene.nodes("n00-new")
    scene.slice("new", "free", nodeName="n00-new")

    assert scene.picks(scene.claim(ask(tolerations=tolerated()))) == ["r=free"]
    assert scene.picks(scene.claim(ask(tolerations=tolerated("b"), count=2)), nodes=["n11"]) == [
        "r=n11-0",
        "r=n11-1",
    ]


def test_little_is_noted_where_each_device_has_a_taint_of_its_own(kept: Any, ask: Any) -> None:
    """All is forgotten when it is too much, and who fits is found."""
    devices = {node: {"taints": [taint(node), taint("z", "NoExecute")]} for node in NODES}
    with patch.object(openings, "_MAX_KINDS", 5):
        scene = kept(**devices)
        found = [scene.picks(scene.claim(ask(tolerations=tolerated(node, "z")))) for node in NODES]
        (opening,) = scene.allocator._walk._openings.memory._known.values()

        assert sum(map(len, opening.barred.values())) == opening.kinds <= 5
    assert found == [[f"r={node}-0"] for node in NODES]


def test_a_node_with_more_kinds_than_are_kept_is_looked_at(scene: Any, ask: Any) -> None:
    """What is behind so many different barriers is not noted, and who fits is found."""
    scene.nodes("n")
    scene.slice("n", *[{"name": team, "taints": [taint(team)]} for team in "abc"], nodeName="n")
    with patch.object(openings, "_MAX_KINDS", 2):
        for _ in range(3):
            assert scene.picks(scene.claim(ask(tolerations=tolerated("d")))) is None
        (opening,) = scene.allocator._walk._openings.memory._known.values()

    assert opening.kinds == 0
    assert scene.picks(scene.claim(ask(tolerations=tolerated("c")))) == ["r=c"]


def test_each_slice_of_a_pool_counts(scene: Any, ask: Any) -> None:
    """The devices of the second one stand behind those of the first, all of which are in use."""
    scene.nodes("n")
    scene.slice("n-0", {"name": "a", "taints": [taint("a")]}, nodeName="n", count=2)
    listed = [{"name": team, "taints": [taint(team)]} for team in "bc"]
    scene.slice("n-1", *listed, nodeName="n", count=2)
    scene.hold("holder", "a", "n")
    for _ in range(3):
        assert scene.picks(scene.claim(ask(tolerations=tolerated("a")))) is None
    with looked_at() as pools:
        assert scene.picks(scene.claim(ask(tolerations=tolerated("d")))) is None

    assert pools == []
    assert scene.picks(scene.claim(ask(tolerations=tolerated("b")))) == ["r=b"]
    assert scene.picks(scene.claim(ask(tolerations=tolerated("c")))) == ["r=c"]


def test_who_asks_for_less_of_a_device_looks_for_himself(scene: Any, ask: Any) -> None:
    """What has too little for one amount may have enough for another; these are too fine to be weighed."""
    scene.nodes("n")
    scene.slice("n", {"name": "a", "capacity": {"memory": {"value": "2"}}}, nodeName="n")

    def asked(amount: str) -> Any:
        return scene.claim(ask(tolerations=tolerated(), capacity={"requests": {"memory": amount}}))

    assert [scene.picks(asked("4000001u")) for _ in range(3)] == [None] * 3
    assert scene.picks(asked("1000001u")) == ["r=a"]


def test_who_asks_for_all_devices_meets_what_ends_his_attempt(scene: Any, ask: Any) -> None:
    """Though the only device that there is, is kept for another."""
    scene.nodes("n")
    scene.slice("n", {"name": "b", "taints": [taint("b")]}, nodeName="n")
    scene.slice("half", "c", nodeName="n", pool="half", count=2)
    for _ in range(3):
        assert scene.picks(scene.claim(ask(tolerations=tolerated()))) is None
    request = ask(tolerations=tolerated())
    del request["exactly"]["count"]
    request["exactly"]["allocationMode"] = "All"

    assert isinstance(scene.decide(scene.claim(request)), Failed)


def test_no_taint_closes_a_node_where_their_feature_is_switched_off(scene_with: Any, ask: Any) -> None:
    """It has too few devices for some claims, and enough for others."""
    scene = scene_with(device_taints=False)
    scene.nodes("n")
    scene.slice("n", {"name": "a", "taints": [taint("a")]}, nodeName="n")
    for _ in range(3):
        assert scene.picks(scene.claim(ask("r", 2, tolerations=tolerated()))) is None

    assert scene.picks(scene.claim(ask(tolerations=tolerated()))) == ["r=a"]


# --- the same as without


TEAMS = st.sampled_from("abc")
TAINTS = st.lists(
    st.builds(taint, TEAMS, st.sampled_from(["NoSchedule", "NoSchedule", "NoExecute", "None"])), max_size=2
)
TOLERATION = st.one_of(
    st.builds(
        lambda team, effect: {"key": "team", "operator": "Equal", "value": team, "effect": effect},
        TEAMS,
        st.sampled_from(["", "", "NoSchedule", "NoExecute"]),
    ),
    st.sampled_from([{"operator": "Exists", "effect": "NoExecute"}, {"key": "team", "operator": "Exists"}]),
    st.builds(lambda team: {"operator": "Equal", "value": team}, TEAMS),
)
POOLS = ["all", *NODES[:5]]
DEVICES = st.lists(st.tuples(TAINTS, st.sampled_from("xxy ")), max_size=3)
PARTS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([[], [], [], [KIND]]), st.lists(TOLERATION, max_size=2)),
    min_size=1,
    max_size=2,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), PARTS),
        st.tuples(st.just("ask"), PARTS),
        st.tuples(st.just("free"), st.integers(0, 30)),
        st.tuples(st.just("rule"), st.tuples(st.sampled_from(POOLS), TAINTS)),
        st.tuples(st.just("publish"), st.tuples(st.sampled_from(POOLS), DEVICES)),
    ),
    max_size=30,
)


def published(pool: str, devices: Any) -> dict[str, Any]:
    """Return the slice of a pool: of a node, or of all of them."""
    listed = [
        {
            "name": f"d{number}",
            "taints": taints,
            "attributes": {} if kind == " " else {"kind": {"string": kind}},
        }
        for number, (taints, kind) in enumerate(devices)
    ]
    where: dict[str, Any] = {"allNodes": True} if pool == "all" else {"nodeName": pool}
    head = {"name": pool, "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": pool}, "spec": {"driver": DRIVER, "pool": head, "devices": listed, **where}}


def asked_for(parts: Any) -> Any:
    """Return a claim with these alternatives, each with a toleration of its own beside those that are given."""
    wanted = [
        {
            "deviceClassName": "gpu",
            "count": number,
            "selectors": [{"cel": {"expression": item}} for item in expressions],
            "tolerations": [*tolerations, *tolerated()],
        }
        for number, expressions, tolerations in parts
    ]
    request: dict[str, Any] = {"name": "r", "exactly": wanted[0]}
    if len(wanted) > 1:
        request = {
            "name": "r",
            "firstAvailable": [{"name": f"s{n}", **item} for n, item in enumerate(wanted)],
        }
    body = {"metadata": {"name": "claim", "namespace": "team"}, "spec": {"devices": {"requests": [request]}}}
    return apply_defaults(read_object(body, "ResourceClaim"))


@settings(max_examples=150)
@given(st.lists(DEVICES, min_size=len(POOLS), max_size=len(POOLS)), STEPS)
def test_what_is_left_out_changes_no_decision(pools: Any, steps: Any) -> None:
    """Taints of slices and of rules, in pools of one node and of all, whatever comes back or changes in between."""
    inventory, ledger = Inventory(), Ledger()
    counting, plain = (
        Allocator(inventory, ledger, clock=lambda: 0.0, share_ids=lambda: "id", searching=searching)
        for searching in (Searching.COUNTING, Searching.PLAIN)
    )

    def put(kind: str, body: dict[str, Any]) -> None:
        inventory.put(apply_defaults(read_object(body, kind)))

    put("DeviceClass", {"metadata": {"name": "gpu"}, "spec": {}})
    for node in NODES[:5]:
        put("Node", {"metadata": {"name": node}})
    for pool, devices in zip(POOLS, pools, strict=True):
        put("ResourceSlice", published(pool, devices))
    for number, (step, what) in enumerate(steps):
        match step:
            case "ask":
                claim = asked_for(what)
                decision = counting.allocate([claim])
                assert decision == plain.allocate([claim])
                if isinstance(decision, Allocated):
                    ledger.assume("team", f"c{number}", decision.results[0])
            case "free":
                ledger.remove("team", f"c{what}")
            case "rule":
                pool, taints = what
                inventory.remove("DeviceTaintRule", pool)
                if taints:
                    spec = {"deviceSelector": {"pool": pool}, "taint": taints[0]}
                    put("DeviceTaintRule", {"metadata": {"name": pool}, "spec": spec})
            case _:
                put("ResourceSlice", published(*what))
