"""The search, rule by rule of docs/dra-semantics, where upstream's table (test_conformance) has no case of it."""

from typing import Any

import pytest

from dra_operator.allocator.decision import Allocated, Failed, Unsatisfied
from dra_operator.allocator.reasons import Reason

MODEL = "gpu.example.com/model"


def model(name: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a device with a model."""
    return {"name": name, "attributes": {"model": {"string": text}}, **more}


def test_the_first_node_that_fits_wins(scene: Any, ask: Any) -> None:
    """Nodes are asked in the order of their names."""
    scene.nodes("n2", "n1", "n10")
    for node in ("n1", "n2", "n10"):
        scene.slice(node, *("ab" if node != "n1" else "a"), nodeName=node)
    decision = scene.decide(scene.claim(ask("r", 2)))

    assert isinstance(decision, Allocated)
    assert decision.node == "n10"


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


def test_nodes_can_be_restricted(scene: Any, ask: Any) -> None:
    """Only the nodes that are named are asked; unknown ones do not matter."""
    scene.nodes("n1", "n2")
    for node in ("n1", "n2"):
        scene.slice(node, "a", nodeName=node)
    decision = scene.decide(scene.claim(ask()), nodes=["n2", "n9"])

    assert isinstance(decision, Allocated)
    assert decision.node == "n2"
    assert scene.decide(scene.claim(ask()), nodes=[]) == Unsatisfied()


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


def test_all_asks_about_devices_in_use_as_well(scene: Any, ask: Any) -> None:
    """A selector that fails on one of them ends the attempt."""
    scene.nodes("n1")
    fine = {"name": "fine", "attributes": {"kind": {"int": 1}}}
    scene.slice("s", "odd", fine)
    scene.hold("holder", "odd", "pool")
    decision = scene.decide(
        scene.claim(ask("r", 1, 'device.attributes["gpu.example.com"].kind == 1', allocationMode="All"))
    )

    assert isinstance(decision, Failed)
    assert decision.reason is Reason.SELECTOR_FAILED


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


def test_a_selector_that_fails_ends_the_attempt_only_when_it_is_reached(scene: Any, ask: Any) -> None:
    """A missing key is an error, not a no; a device in use is not asked."""
    scene.nodes("n1")
    scene.slice("s", "plain", model("good", "x"), nodeName="n1")
    picky = scene.claim(ask("r", 1, 'device.attributes["gpu.example.com"].model == "x"'))
    failed = scene.decide(picky)
    scene.use("other", ask())

    assert isinstance(failed, Failed)
    assert failed.reason is Reason.SELECTOR_FAILED
    assert "device gpu.example.com/n1/plain" in failed.message
    assert scene.picks(picky) == ["r=good"]


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        pytest.param({"key": "k", "operator": "Exists"}, True, id="exists"),
        pytest.param({"key": "k", "value": "v"}, True, id="equal"),
        pytest.param({"key": "k", "value": "w"}, False, id="another value"),
        pytest.param({"operator": "Exists"}, True, id="any key"),
        pytest.param({"value": "v"}, True, id="any key with this value"),
        pytest.param({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False, id="another effect"),
        pytest.param({"key": "k", "operator": "Like", "value": "v"}, False, id="unknown operator"),
    ],
)
def test_a_taint_needs_a_toleration(scene: Any, ask: Any, toleration: dict[str, str], *, fits: bool) -> None:
    """Key, operator, value and effect must all agree."""
    scene.nodes("n1")
    tainted = {"name": "a", "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}
    scene.slice("s", tainted, nodeName="n1")

    assert (scene.picks(scene.claim(ask("r", tolerations=[toleration]))) is not None) is fits
    assert scene.picks(scene.claim(ask())) is None


def test_a_taint_rule_counts_like_a_taint(scene: Any, ask: Any) -> None:
    """From the moment it is there until it is gone."""
    scene.nodes("n1")
    scene.slice("s", "a", nodeName="n1")
    scene.put(
        "DeviceTaintRule",
        "rule",
        spec={"deviceSelector": {"device": "a"}, "taint": {"key": "k", "effect": "NoExecute"}},
    )
    with_rule = scene.picks(scene.claim(ask()))
    scene.inventory.remove("DeviceTaintRule", "rule")

    assert with_rule is None
    assert scene.picks(scene.claim(ask())) == ["r=a"]


def test_skipping_node_operations_needs_a_node_that_can(scene: Any, ask: Any) -> None:
    """Such devices go to nodes that declare the feature, and the result says what is skipped."""
    scene.nodes("n1")
    scene.put("Node", "n2", status={"declaredFeatures": ["DRAOptionalNodeOperations"]})
    scene.slice("s", "a", skipNodeOperations=["*"])
    decision = scene.decide(scene.claim(ask()))

    assert isinstance(decision, Allocated)
    assert decision.node == "n2"
    assert decision.results[0].devices.results[0].skip_node_operations == ("*",)


def test_derived_attributes_align_what_is_called_differently(scene: Any, ask: Any) -> None:
    """They hide real attributes of that name, for constraints and their own request only."""
    scene.nodes("n1")
    attributes = [{"numa": {"int": number}} for number in (0, 1)]
    scene.slice(
        "s", *({"name": name, "attributes": item} for name, item in zip("ab", attributes, strict=True))
    )
    opposite = {
        "derivedAttributes": [{"name": "d/x", "expression": '1 - device.attributes["gpu.example.com"].numa'}]
    }
    same = {"derivedAttributes": [{"name": "d/x", "expression": 'device.attributes["gpu.example.com"].numa'}]}
    claim = scene.claim(ask("p", 1, **same), ask("q", 1, **opposite), constraints=[{"matchAttribute": "d/x"}])

    assert scene.picks(claim) == ["p=a", "q=b"]


def test_a_derived_attribute_that_fails_ends_the_attempt(scene: Any, ask: Any) -> None:
    """If a constraint asks for it; else it is not even compiled."""
    scene.nodes("n1")
    scene.slice("s", "a")
    broken = {"derivedAttributes": [{"name": "d/x", "expression": 'device.attributes["gpu.example.com"].no'}]}
    failed = scene.decide(scene.claim(ask("r", 1, **broken), constraints=[{"matchAttribute": "d/x"}]))

    assert isinstance(failed, Failed)
    assert failed.reason is Reason.DERIVED_ATTRIBUTE_FAILED
    assert scene.picks(scene.claim(ask("r", 1, **broken))) == ["r=a"]


def test_a_claim_that_asks_for_nothing_is_allocated(scene: Any) -> None:
    """With an empty result, usable everywhere."""
    scene.nodes("n1")
    decision = scene.decide(scene.claim())

    assert isinstance(decision, Allocated)
    assert decision.results[0].devices.results == ()
    assert decision.results[0].node_selector is None


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
