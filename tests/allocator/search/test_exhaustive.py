"""The search, rule by rule: each test is one row of docs/dra-semantics. What devices share is in test_state."""

from typing import Any

import pytest

from dra_operator.allocator import Allocated, Failed, Reason, Unsatisfied

MODEL = "gpu.example.com/model"
READY = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}


def model(name: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a device with a model."""
    return {"name": name, "attributes": {"model": {"string": text}}, **more}


def test_devices_are_taken_in_order(scene: Any, ask: Any) -> None:
    """The first ones that are free, in published order."""
    scene.nodes("n1")
    scene.slice("s", "c", "a", "b", nodeName="n1")

    assert scene.picks(scene.claim(ask("x", 2), ask("y"))) == ["x=c", "x=a", "y=b"]


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


def test_an_early_pick_is_undone_when_a_later_request_needs_it(scene: Any, ask: Any) -> None:
    """The first request takes the second device, so that the picky one gets the first."""
    scene.nodes("n1")
    scene.slice("s", model("a", "big"), model("b", "small"), nodeName="n1")
    picky = ask("picky", 1, 'device.attributes["gpu.example.com"].model == "big"')

    assert scene.picks(scene.claim(ask("any"), picky)) == ["any=b", "picky=a"]


def test_a_later_failure_moves_an_earlier_request_to_its_next_alternative(scene: Any, ask: Any) -> None:
    """All alternatives of later requests are tried first."""
    scene.nodes("n1")
    scene.slice("s", "a", "b", nodeName="n1")
    first = {
        "name": "x",
        "firstAvailable": [{"name": n, **ask("", c)["exactly"]} for n, c in (("two", 2), ("one", 1))],
    }

    assert scene.picks(scene.claim(first)) == ["x/two=a", "x/two=b"]
    assert scene.picks(scene.claim(first, ask("y"))) == ["x/one=a", "y=b"]


def test_all_takes_every_matching_device(scene: Any, ask: Any) -> None:
    """And none, if one of them is in use."""
    scene.nodes("n1")
    scene.slice("s", "a", "b", nodeName="n1")
    everything = scene.claim(ask("r", allocationMode="All"))
    before = scene.picks(everything)
    scene.use("other", ask())

    assert before == ["r=a", "r=b"]
    assert scene.decide(everything) == Unsatisfied()


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


def test_all_needs_every_pool_of_the_node_complete(scene: Any, ask: Any) -> None:
    """A pool that is being updated might hold more; one that fits elsewhere does not help."""
    scene.nodes("n1", "n2")
    scene.slice("s", "a", nodeName="n1", count=2)
    scene.slice("t", "b", nodeName="n2")
    decision = scene.decide(scene.claim(ask("r", allocationMode="All")))

    assert isinstance(decision, Failed)
    assert decision.reason is Reason.POOL_INCOMPLETE
    assert scene.picks(scene.claim(ask())) == ["r=b"]


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


def test_an_effect_of_none_keeps_nobody_away(scene: Any, ask: Any) -> None:
    """It is for dry runs; unknown effects are like it."""
    scene.nodes("n1")
    scene.slice(
        "s",
        {"name": "a", "taints": [{"key": "k", "effect": "None"}, {"key": "l", "effect": "New"}]},
        nodeName="n1",
    )

    assert scene.picks(scene.claim(ask())) == ["r=a"]


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


def test_pools_with_binding_conditions_come_last(scene: Any, ask: Any) -> None:
    """A device that is ready now beats one that must first be attached; the conditions go into the result."""
    scene.nodes("n1")
    scene.slice("a", {"name": "late", **READY}, pool="a")
    scene.slice("b", "now", pool="b")
    decision = scene.decide(scene.claim(ask("r", 2)))

    assert isinstance(decision, Allocated)
    now, late = decision.results[0].devices.results
    assert (now.device, late.device) == ("now", "late")
    assert (late.binding_conditions, late.binding_failure_conditions) == (("ready",), ("failed",))


def test_devices_with_binding_conditions_are_invisible_without_the_feature(scene_with: Any, ask: Any) -> None:
    """They could never be bound."""
    scene = scene_with(device_binding_and_status=False)
    scene.nodes("n1")
    scene.slice("a", {"name": "late", **READY})

    assert scene.picks(scene.claim(ask())) is None


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


def test_distinct_compares_with_every_device(scene: Any, ask: Any) -> None:
    """Three of one request, two of them equal, do not pass."""
    scene.nodes("n1")
    scene.slice("s", model("a", "x"), model("b", "y"), model("c", "x"))
    distinct = {"constraints": [{"distinctAttribute": MODEL}]}

    assert scene.picks(scene.claim(ask("r", 3), **distinct)) is None
    assert scene.picks(scene.claim(ask("r", 2), **distinct)) == ["r=a", "r=b"]


def test_a_device_without_the_attribute_satisfies_no_constraint(scene: Any, ask: Any) -> None:
    """Also when it is the only one."""
    scene.nodes("n1")
    scene.slice("s", "a")

    assert scene.picks(scene.claim(ask(), constraints=[{"matchAttribute": MODEL}])) is None


def test_claims_are_allocated_together_or_not_at_all(scene: Any, ask: Any) -> None:
    """One node for all of them."""
    scene.nodes("n1")
    scene.slice("s", "a", "b")
    first, second = scene.claim(ask(), name="first"), scene.claim(ask("r", 2), name="second")

    assert scene.picks(first, scene.claim(ask(), name="second")) == ["r=a", "r=b"]
    assert scene.decide(first, second) == Unsatisfied()


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
