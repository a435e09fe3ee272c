"""Nodes that are passed over without a search, and that nothing is decided otherwise for it."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_operator.allocator import Allocated, Failed, Searching, Unsatisfied
from dra_operator.allocator.budget import Limits
from dra_operator.allocator.reasons import Reason

UUID = 'device.attributes["gpu.example.com"].uuid'
NODES = 40


@pytest.fixture
def unlike(scene: Any) -> Callable[..., Any]:
    """Nodes with two devices each, the second of them in use; no two devices of all have a value in common."""

    def build(**devices: dict[str, Any]) -> Any:
        names = [f"n{number:02d}" for number in range(NODES)]
        scene.nodes(*names)
        for name in names:
            pair = [{"name": x, "attributes": {"uuid": {"string": f"{name}-{x}"}}} for x in ("free", "used")]
            scene.slice(
                name, *[{**item, **devices.get(f"{name}_{item['name']}", {})} for item in pair], nodeName=name
            )
            scene.hold(f"holder-{name}", "used", name)
        return scene

    return build


def kept(scene: Any, claim: Any) -> list[str]:
    """Return the pools of which an answer is kept after a decision on a claim."""
    scene.decide(claim)
    (key,) = scene.allocator.candidates._keys.values()
    known = key.answers.keys()
    return [
        key[1]
        for key, views in scene.allocator.availability.views.of_pool.items()
        if any(view.serial in known for view in views.values())
    ]


def test_of_nodes_that_are_passed_over_no_answer_is_kept(unlike: Any, ask: Any) -> None:
    """To keep what nobody will ask for takes longer than to find it out."""
    scene = unlike()

    assert 0 < len(kept(scene, scene.claim(ask("r", 1, f'{UUID} == "none"')))) < NODES / 2


def test_a_late_node_that_fits_is_found(unlike: Any, ask: Any) -> None:
    """The first one, as if each had been searched."""
    scene = unlike()
    decision = scene.decide(scene.claim(ask("r", 1, f'{UUID} >= "n33"')))

    assert isinstance(decision, Allocated)
    assert decision.node == "n33"


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("device", ["n30_free", "n30_used"])
@pytest.mark.parametrize(
    "attributes",
    [{"other": {"string": "x"}}, {"uuid": {"string": "x"}, "v": {"version": "one"}}],
    ids=["missing", "unreadable"],
)
def test_an_error_is_met_where_a_search_would_meet_it(
    unlike: Any, ask: Any, attributes: Any, device: str, count: int
) -> None:
    """On a device that could be had, and on no other; whichever search is asked."""
    scene = unlike(**{device: {"attributes": attributes}})
    claim = scene.claim(ask("r", count, f'{UUID} == "none"'))
    found = scene.decide(claim)
    scene.search(Searching.PLAIN)

    assert isinstance(found, Failed if device == "n30_free" else Unsatisfied)
    assert scene.decide(claim) == found


def test_a_device_that_comes_back_is_seen(unlike: Any, ask: Any) -> None:
    """Also on a node that was passed over, of which nothing was kept."""
    scene = unlike()
    claim = scene.claim(ask("r", 1, f'{UUID} == "n37-used"'))
    before = scene.decide(claim)
    scene.ledger.remove("team", "holder-n37")

    assert before == Unsatisfied()
    assert scene.picks(claim) == ["r=used"]


def test_a_second_request_for_all_devices_ends_the_attempt(unlike: Any, ask: Any) -> None:
    """It looks at all devices before the first request is searched for, also where that one has none."""
    scene = unlike(n30_used={"attributes": {}})
    first, every = ask("r", 1, f'{UUID} == "none"'), ask("s", 1, f'{UUID} != ""', allocationMode="All")

    assert isinstance(scene.decide(scene.claim(first, every)), Failed)


def test_a_pool_that_nodes_share_is_asked_about_once(unlike: Any, ask: Any) -> None:
    """What each of many nodes sees of it is kept, though nobody else will ask."""
    scene = unlike()
    names = [f"n{number:02d}" for number in range(NODES)]
    zone = {
        "nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in names[30:]
        ]
    }
    scene.slice(
        "zone",
        *[{"name": f"z{number}", "attributes": {"uuid": {"string": f"z{number}"}}} for number in range(8)],
        nodeSelector=zone,
    )

    assert "pool" in kept(scene, scene.claim(ask("r", 1, f'{UUID} == "none"')))


def test_views_that_are_gone_leave_little_behind(unlike: Any, ask: Any) -> None:
    """A taint that comes and goes makes a new view of a slice each time; what its kinds were is forgotten."""
    scene = unlike()
    kinds = scene.allocator.candidates.selectors.kinds
    kinds.maximum = 1_000
    for turn in range(40):
        for name in [f"n{number:02d}" for number in range(NODES)]:
            taints = [{"key": "k", "effect": "None"}] if turn % 2 else []
            pair = [
                {"name": x, "attributes": {"uuid": {"string": f"{name}-{x}"}}, "taints": taints}
                for x in ("free", "used")
            ]
            scene.slice(name, *pair, nodeName=name)
        scene.decide(scene.claim(ask("r", 1, f'{UUID} == "none-{turn}"')))

    assert len(kinds._of_views) < 300


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [({}, Unsatisfied), ({"v": {"version": "one"}}, Failed)],
    ids=["readable", "unreadable"],
)
def test_a_pool_of_another_driver_is_passed_over_if_it_can_be_read(
    unlike: Any, ask: Any, attributes: Any, outcome: type
) -> None:
    """The class says no to all of its devices; on one that cannot be read it fails, as in a search."""
    scene = unlike()
    for number in range(NODES):
        device = {"name": "nic", "attributes": attributes if number == 30 else {}}
        scene.slice(f"nic-{number}", device, driver="nic.example.com", nodeName=f"n{number:02d}")
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    claim = scene.claim(ask("r", 1, f'{UUID} == "none"'))
    found = scene.decide(claim)
    (key,) = scene.allocator.candidates._keys.values()
    scene.search(Searching.PLAIN)

    assert isinstance(found, outcome)
    assert len(key.answers) < NODES
    assert scene.decide(claim) == found


def test_a_pool_of_a_driver_on_which_the_class_fails_is_not_passed_over(unlike: Any, ask: Any) -> None:
    """A search meets the error, whatever the request asks for."""
    scene = unlike()
    scene.slice("nic", "nic", driver="nic.example.com", nodeName="n30")
    scene.device_class("gpu", '{"gpu.example.com": true}[device.driver]')

    assert isinstance(scene.decide(scene.claim(ask("r", 1, f'{UUID} == "none"'))), Failed)


def test_an_attempt_that_runs_out_of_time_leaves_out_what_was_passed_over(ticking: Any, ask: Any) -> None:
    """Nothing is kept of those nodes but that they said no, and so claims on large clusters come to an end."""
    scene = ticking(Limits(seconds=1.5))
    for number in range(200):
        name = f"n{number:03d}"
        scene.nodes(name)
        scene.slice(name, {"name": "d", "attributes": {"uuid": {"string": name}}}, nodeName=name)
    claim = scene.claim(ask("r", 1, f'{UUID} == "none"'))
    found = [scene.decide(claim) for _ in range(8)]

    assert isinstance(found[0], Failed)
    assert found[0].reason is Reason.SEARCH_ABORTED
    assert found[-1] == Unsatisfied()


def test_a_derived_attribute_fails_where_a_search_would_meet_it(unlike: Any, ask: Any) -> None:
    """On the first device of a node, also where there is no second one."""
    scene = unlike(n30_free={"attributes": {}})
    same = {"derivedAttributes": [{"name": "d/x", "expression": UUID}]}
    claim = scene.claim(ask("r", 2, **same), constraints=[{"matchAttribute": "d/x"}])

    assert isinstance(scene.decide(claim), Failed)


def test_nodes_behind_the_one_that_fits_are_still_asked(unlike: Any, ask: Any) -> None:
    """Only those that were passed over have said no."""
    scene = unlike()

    assert [scene.use(f"late-{number}", ask("r", 1, f'{UUID} >= "n33"')) for number in range(3)] == [
        ["free"]
    ] * 3


def test_devices_that_come_back_everywhere_are_asked_about(unlike: Any, ask: Any) -> None:
    """Also where the answers about what was free before are kept."""
    scene = unlike()
    scene.device_class("gpu", f'{UUID} != "none"')
    claim = scene.claim(ask("r", 1, f'{UUID} == "n37-used"'))
    before = scene.decide(claim)
    for number in range(NODES):
        scene.ledger.remove("team", f"holder-n{number:02d}")

    assert before == Unsatisfied()
    assert scene.picks(claim) == ["r=used"]


def test_a_node_that_sees_a_broken_selector_ends_the_attempt(unlike: Any, ask: Any) -> None:
    """However few devices it has: what else there is for it cannot be told."""
    scene = unlike()
    seen, broken = [
        {
            "nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": operator, "values": ["n30"]}]}
            ]
        }
        for operator in ("NotIn", "Bogus")
    ]
    scene.slice(
        "each",
        *[{"name": name, "nodeSelector": item} for name, item in (("seen", seen), ("broken", broken))],
        pool="each",
        perDeviceNodeSelection=True,
        driver="nic.example.com",
    )
    scene.device_class("gpu", 'device.driver == "gpu.example.com"')
    claim = scene.claim(ask("r", 1, f'{UUID} == "none"'))
    found = scene.decide(claim)

    assert isinstance(found, Failed)
    assert found.reason is Reason.NODE_SELECTOR_INVALID


@pytest.mark.parametrize(("wanted", "asked"), [("none", 4), ("n33", 6)])
def test_nodes_that_would_have_to_skip_operations_are_passed_over(
    scene: Any, ask: Any, searches: Any, wanted: str, asked: int
) -> None:
    """A node with too few devices says no, whatever its kubelet can do; of others each is asked."""
    for number in range(NODES):
        name = f"n{number:02d}"
        scene.put("Node", name, status={"declaredFeatures": ["DRAOptionalNodeOperations"] * (number == 34)})
        uuid = {"uuid": {"string": "n33" if number == 34 else name}}
        scene.slice(name, {"name": "d", "attributes": uuid}, nodeName=name, skipNodeOperations=["*"])
    with searches() as searched:
        decision = scene.decide(scene.claim(ask("r", 1, f'{UUID} == "{wanted}"')))

    assert isinstance(decision, Unsatisfied if wanted == "none" else Allocated)
    assert searched[4:] == ([] if wanted == "none" else ["n33", "n34"])
    assert len(searched) == asked
