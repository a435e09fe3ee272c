"""Large claims are told so that what matters stands before an Event ends, and claims are named to their owners only."""

from typing import Any

import pytest

from dra_operator.allocator.reasons import Reason
from dra_operator.explain.sentence import holders_text


@pytest.fixture
def gpus(scene: Any) -> Any:
    """A node with four devices of one model."""
    scene.nodes("n1")
    attributes = {"model": {"string": "a100"}}
    scene.slice(
        "n1", *({"name": f"d{number}", "attributes": attributes} for number in range(4)), nodeName="n1"
    )
    return scene


def test_of_many_alternatives_the_last_are_only_named(gpus: Any) -> None:
    """Those before them are told whole, as what comes first is what is wanted most."""
    selector = [
        {"cel": {"expression": f'device.attributes["gpu.example.com"].?model.orValue("") == "{"x" * 90}"'}}
    ]
    items = [
        {"name": f"choice-{number}", "deviceClassName": "gpu", "selectors": selector} for number in range(8)
    ]
    found = gpus.explain(gpus.claim({"name": "r", "firstAvailable": items}))

    assert len(found.message) < 1024
    assert found.message.startswith("request r: choice-0: 4 devices published")
    assert "; nor do these fit: choice-" in found.message
    assert found.message.endswith(", choice-7")


def test_devices_of_other_drivers_are_told_last(gpus: Any, ask: Any) -> None:
    """Of a class of a driver and a model it is the model that is told, however many other drivers there are."""
    for driver in "abc":
        gpus.slice(driver, *(f"d{number}" for number in range(9)), driver=driver, pool="p")
    model = 'device.attributes["gpu.example.com"].model == "h100"'
    gpus.device_class("gpu", f'device.driver == "gpu.example.com" && {model}')
    found = gpus.explain(gpus.claim(ask("r")))

    assert "(model a100 != h100 on 4, driver a !=" in found.message


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        (["team/a"], ("by 1 claim", "a")),
        (["team/b", "team/a"], ("by 2 claims", "a, b")),
        (["team/b", "team/d", "team/a", "team/e", "team/c"], ("by 5 claims", "a, b, c, 2 more")),
        (["other/a"], ("by 1 claim of another namespace", "")),
        (["other/a", "third/a"], ("by 2 claims of other namespaces", "")),
        (["other/z", "team/a"], ("by 2 claims", "a, 1 of another namespace")),
        (["other/y", "other/z", "team/a"], ("by 3 claims", "a, 2 of other namespaces")),
    ],
    ids=["one", "sorted", "many", "of another", "of others", "both", "several of both"],
)
def test_claims_of_the_same_namespace_are_named(claims: list[str], told: tuple[str, str]) -> None:
    """Those of other namespaces are counted, whose names are not for everybody."""
    namespaces_and_names = {tuple(claim.split("/")) for claim in claims}

    assert holders_text(namespaces_and_names, "team") == told  # type: ignore[arg-type]


def test_counters_are_in_use_by_those_whose_devices_draw_on_them(scene: Any, ask: Any) -> None:
    """Wherever in the pool, and by nobody else; one that only shares is named like one that has a device alone."""
    scene.nodes("n1")
    totals = [{"name": f"set{n}", "counters": {"memory": {"value": "40Gi"}}} for n in range(2)]
    scene.slice("c", count=3, sharedCounters=totals)
    for n, name in enumerate("st"):
        draw = [{"counterSet": f"set{n}", "counters": {"memory": {"value": "30Gi"}}}]
        devices = [{"name": f"{kind}{n}", "consumesCounters": draw} for kind in ("full", "part")]
        devices[0]["allowMultipleAllocations"] = True
        scene.slice(name, *devices, count=3)
    scene.hold("first", "full0", "pool")
    scene.hold("second", "full1", "pool")
    found = scene.explain(scene.claim(ask("r", 1, "device.allowMultipleAllocations == false")))

    assert found.reason is Reason.COUNTERS_EXHAUSTED
    assert found.message.endswith(
        "2 without enough left of their counters (set0/memory 10Gi left < 30Gi on 1, "
        "set1/memory 10Gi left < 30Gi on 1; in use by 2 claims: first, second)"
    )


def test_devices_whose_group_differs_from_those_in_use(scene: Any, ask: Any) -> None:
    """They cannot be used beside them."""
    scene.nodes("n1")
    counters = [{"name": "set", "counters": {"memory": {"value": "80Gi"}}}]
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters)
    uses = [
        [{"counterSet": "set", "counters": {"memory": {"value": "1Gi"}}, "compatibilityGroups": [group]}]
        for group in "xy"
    ]
    scene.slice(
        "s",
        {"name": "a", "consumesCounters": uses[0]},
        {"name": "b", "consumesCounters": uses[1]},
        nodeName="n1",
        count=2,
    )
    scene.use("holder", ask())
    found = scene.explain(scene.claim(ask()))

    assert found.reason is Reason.GROUP_INCOMPATIBLE
    assert found.message.endswith(
        "1 in use by 1 claim (holder), 1 incompatible with devices in use "
        "(group y beside group x on 1; in use by 1 claim: holder)"
    )
