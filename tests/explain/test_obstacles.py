"""What keeps devices that are selected away."""

from typing import Any

import pytest

from dra_operator.allocator.reasons import Reason

ZONE = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}


def draws(amount: str) -> list[dict[str, Any]]:
    """Return what a device draws on counter `memory` of set `set`."""
    return [{"counterSet": "set", "counters": {"memory": {"value": amount}}}]


def test_a_device_that_draws_more_than_there_is_waits_for_nobody(scene: Any, ask: Any) -> None:
    """Nothing of the counter would have to be freed, so what there is in all is told, and no claim is blamed."""
    scene.nodes("n1")
    scene.slice("c", count=2, sharedCounters=[{"name": "set", "counters": {"memory": {"value": "40Gi"}}}])
    devices = [
        {"name": name, "consumesCounters": draws(amount)} for name, amount in (("a", "10Gi"), ("b", "80Gi"))
    ]
    scene.slice("s", *devices, count=2)
    scene.use("holder", ask())
    found = scene.explain(scene.claim(ask()))

    assert found.reason is Reason.COUNTERS_EXHAUSTED
    assert found.message.endswith(
        "without enough left of their counters (set/memory 40Gi in all < 80Gi on 1)"
    )


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({"n1": "a"}, "node n1 cordoned on 1"),
        ({"n1": "a", "n2": "b"}, "node n1 cordoned on 1"),
        ({"n1": "a", "n2": "a"}, "nodes n1, n2 cordoned on 1"),
        ({"n1": "b"}, 'no usable node matches their node selector "zone In a" on 1'),
    ],
    ids=["one", "one of two", "both", "none"],
)
@pytest.mark.parametrize("where", ["slice", "device"])
def test_nodes_that_match_but_cannot_be_used_are_named(
    scene: Any, ask: Any, nodes: dict[str, str], told: str, where: str
) -> None:
    """They are what has to be repaired."""
    scene.nodes("other")
    for name, zone in nodes.items():
        scene.put("Node", name, labels={"zone": zone}, spec={"unschedulable": True})
    if where == "slice":
        scene.slice("s", "a", nodeSelector=ZONE)
    else:
        scene.slice("s", {"name": "a", "nodeSelector": ZONE}, perDeviceNodeSelection=True)
    found = scene.explain(scene.claim(ask()))

    assert found.reason is Reason.NODE_UNUSABLE
    assert found.message.endswith(f"1 on nodes that cannot be used ({told})")


@pytest.mark.parametrize(
    ("switch", "device"),
    [
        ("device_binding_and_status", {"bindingConditions": ["up"], "bindingFailureConditions": ["down"]}),
        ("partitionable_devices", {"consumesCounters": draws("1Gi")}),
    ],
)
def test_devices_that_use_what_is_switched_off_are_not_left(
    scene_with: Any, ask: Any, switch: str, device: dict[str, Any]
) -> None:
    """Though their slice is seen, and others of it are."""
    scene = scene_with(**{switch: False})
    scene.nodes("n1")
    scene.slice("s", {"name": "a", **device}, "b")
    found = scene.explain(scene.claim(ask("r", 2)))

    assert found.reason is Reason.NOT_ENOUGH_DEVICES
    assert found.message.endswith(
        "1 on nodes that cannot be used (they use a feature that is switched off on 1), 1 left, "
        "at most 1 on one node (n1), 2 requested; it would not fit even if no device were in use or tainted"
    )


@pytest.mark.parametrize(
    ("policy", "requests", "shown"),
    [
        ({}, {}, "30Gi left < 40Gi (all of it, as none is requested)"),
        (
            {"requestPolicy": {"default": "32Gi", "validRange": {"min": "8Gi", "step": "8Gi"}}},
            {},
            "24Gi left < 32Gi (the default, as none is requested)",
        ),
        (
            {"requestPolicy": {"default": "8Gi", "validRange": {"min": "8Gi", "step": "8Gi"}}},
            {"capacity": {"requests": {"memory": "30Gi"}}},
            "24Gi left < 32Gi (30Gi rounded up)",
        ),
    ],
    ids=["all of it", "the default", "rounded up"],
)
def test_an_amount_that_nobody_has_written_is_told_with_its_origin(
    scene: Any, ask: Any, policy: dict[str, Any], requests: dict[str, Any], shown: str
) -> None:
    """Whoever reads the line looks for it in the claim."""
    scene.nodes("n1")
    capacity = {"memory": {"value": "40Gi", **policy}}
    scene.slice("s", {"name": "d", "allowMultipleAllocations": True, "capacity": capacity})
    scene.use("a", ask("r", 1, capacity={"requests": {"memory": "10Gi"}}))
    found = scene.explain(scene.claim(ask("r", 1, **requests)))

    assert found.message.endswith(f"(memory {shown} on 1; in use by 1 claim: a)")
