"""The search, rule by rule of docs/dra-semantics, where upstream's table (test_conformance) has no case of it."""

from typing import Any

import pytest

from dra_operator.allocator.decision import Failed, Unsatisfied
from dra_operator.allocator.reasons import Reason

MODEL = "gpu.example.com/model"


def model(name: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a device with a model."""
    return {"name": name, "attributes": {"model": {"string": text}}, **more}


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": {"unschedulable": True}},
        {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
    ],
)
def test_nodes_that_cannot_be_used_are_left_out(scene: Any, ask: Any, fields: Any) -> None:
    """Cordoned nodes and those that are not ready get nothing."""
    scene.put("Node", "n1", **fields)
    scene.slice("s", "a", nodeName="n1")

    assert scene.decide(scene.claim(ask())) == Unsatisfied()


def test_all_with_a_conflicting_constraint_is_an_error(scene: Any, ask: Any) -> None:
    """Unlike a request for a number, it cannot try other devices."""
    scene.nodes("n1")
    scene.slice("s", model("a", "x"), model("b", "y"), nodeName="n1")
    decision = scene.decide(
        scene.claim(ask("r", allocationMode="All"), constraints=[{"matchAttribute": MODEL}])
    )

    assert isinstance(decision, Failed)
    assert (decision.kind, decision.reason) == ("fatal", Reason.CONSTRAINT_CONFLICT)
    assert decision.message == (
        f"request r: asks for all devices, but constraint #0 (matchAttribute {MODEL}) "
        "does not admit device gpu.example.com/n1/b beside those before it"
    )


def test_all_with_a_device_that_lacks_what_a_constraint_compares_is_an_error(scene: Any, ask: Any) -> None:
    """It would satisfy the constraint beside no other."""
    scene.nodes("n1")
    scene.slice("s", "a", nodeName="n1")
    decision = scene.decide(
        scene.claim(ask("r", allocationMode="All"), constraints=[{"distinctAttribute": MODEL}])
    )

    assert isinstance(decision, Failed)
    assert decision.message.endswith(
        f"(distinctAttribute {MODEL}) does not admit device gpu.example.com/n1/a, which lacks the attribute"
    )


@pytest.mark.parametrize(
    ("counts", "culprit"),
    [
        pytest.param([33], "r0", id="one"),
        pytest.param([20, 13], "r1", id="sum"),
        pytest.param([1, 2**63 - 1], "r1", id="huge"),
    ],
)
def test_more_than_32_devices_are_an_error_before_any_search(
    scene: Any, ask: Any, counts: list[int], culprit: str
) -> None:
    """The limit of one claim, named with the request that crosses it, also where nothing is free."""
    scene.nodes("n1")
    decision = scene.decide(scene.claim(*(ask(f"r{number}", count) for number, count in enumerate(counts))))

    assert isinstance(decision, Failed)
    assert (decision.reason, decision.request) == (Reason.TOO_MANY_DEVICES, culprit)


def test_many_requests_do_not_exhaust_the_interpreters_stack(scene: Any, ask: Any) -> None:
    """The search has a stack of its own."""
    scene.nodes("n1")
    scene.slice("s", *(f"d{number}" for number in range(1200)))
    claims = [scene.claim(ask("r", 30), name=f"c{number}") for number in range(40)]

    assert len(scene.picks(*claims) or ()) == 1200


def test_a_selector_of_two_terms_is_an_error_before_a_device_of_this_node(scene: Any, ask: Any) -> None:
    """Devices are looked at in order up to the first that ties the claim to its node; those before it count."""
    term = {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}
    anywhere = {"name": "a", "nodeSelector": {"nodeSelectorTerms": [term, term]}}
    here = {"name": "b", "nodeName": "n1"}
    scene.nodes("n1")
    scene.slice("s", anywhere, here, perDeviceNodeSelection=True)

    assert isinstance(scene.decide(scene.claim(ask("r", 2))), Failed)
