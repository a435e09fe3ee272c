"""The search, rule by rule: each test is one row of docs/dra-semantics."""

from typing import Any

import pytest

from dra_operator.allocator import Allocated, Failed, Reason, Unsatisfied

MODEL = "gpu.example.com/model"
READY = {"bindingConditions": ["ready"], "bindingFailureConditions": ["failed"]}


def model(name: str, text: str, **more: Any) -> dict[str, Any]:
    """Return a device with a model."""
    return {"name": name, "attributes": {"model": {"string": text}}, **more}


def shared(name: str, memory: str, **more: Any) -> dict[str, Any]:
    """Return a shareable device with memory."""
    return {"name": name, "capacity": {"memory": {"value": memory}}, "allowMultipleAllocations": True, **more}


def partition(name: str, memory: str, *groups: str, counter_set: str = "set", **more: Any) -> dict[str, Any]:
    """Return a device that takes memory from a counter set."""
    use = {
        "counterSet": counter_set,
        "counters": {"memory": {"value": memory}},
        "compatibilityGroups": list(groups),
    }
    return {"name": name, "consumesCounters": [use], **more}


def counters(memory: str, *names: str) -> list[dict[str, Any]]:
    """Return counter sets with this much memory each."""
    return [{"name": name, "counters": {"memory": {"value": memory}}} for name in names or ("set",)]


def wants(memory: str) -> dict[str, Any]:
    """Return the field of a request that asks for memory."""
    return {"capacity": {"requests": {"memory": memory}}}


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


def test_shares_of_one_device_go_to_different_requests(scene: Any, ask: Any) -> None:
    """A request never gets the same device twice, two requests may."""
    scene.nodes("n1")
    scene.slice("s", shared("a", "10Gi"), nodeName="n1")

    assert scene.picks(scene.claim(ask("x", 1, **wants("4Gi")), ask("y", 1, **wants("6Gi")))) == [
        "x=a",
        "y=a",
    ]
    assert scene.picks(scene.claim(ask("x", 2, **wants("1Gi")))) is None


def test_a_full_device_takes_no_more_shares(scene: Any, ask: Any) -> None:
    """Committed shares count; what they leave can be taken to the last byte."""
    scene.nodes("n1")
    scene.slice("s", shared("a", "10Gi"), nodeName="n1")
    scene.use("other", ask("r", 1, **wants("4Gi")))

    assert scene.picks(scene.claim(ask("r", 1, **wants("7Gi")))) is None
    assert scene.picks(scene.claim(ask("r", 1, **wants("6Gi")))) == ["r=a"]


def test_a_device_held_alone_takes_no_shares(scene: Any, ask: Any) -> None:
    """Also when its driver has made it shareable since."""
    scene.nodes("n1")
    scene.slice("s", "a", nodeName="n1")
    scene.use("other", ask())
    scene.slice("s", shared("a", "10Gi"), nodeName="n1")

    assert scene.picks(scene.claim(ask("r", 1, **wants("1Gi")))) is None


def test_an_impossible_amount_aborts_although_another_device_would_do(scene: Any, ask: Any) -> None:
    """Negative and unrepresentable amounts are errors."""
    scene.nodes("n1")
    scene.slice("s", {"name": "bad", "capacity": {"memory": {"value": "-1"}}}, "good", nodeName="n1")
    decision = scene.decide(scene.claim(ask()))

    assert isinstance(decision, Failed)
    assert decision.reason is Reason.CAPACITY_REQUEST_INVALID


def test_counters_are_charged_once_a_device(scene: Any, ask: Any) -> None:
    """A second share does not pay again, committed or in the same attempt."""
    scene.nodes("n1")
    use = partition("a", "4Gi")["consumesCounters"]
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    scene.slice("s", shared("a", "10Gi", consumesCounters=use), partition("b", "4Gi"), nodeName="n1", count=2)
    both = scene.claim(ask("x", 1, **wants("1Gi")), ask("y", 1, **wants("1Gi")))

    assert scene.picks(both) == ["x=a", "y=a"]
    scene.use("other", ask("r", 1, **wants("1Gi")))
    assert scene.picks(both) == ["x=a", "y=a"]
    assert scene.picks(scene.claim(ask("r", 1, "!device.allowMultipleAllocations"))) is None


def test_a_counter_set_named_twice_is_charged_twice(scene: Any, ask: Any) -> None:
    """No API server admits it, but what is not admitted must not overdraw either."""
    scene.nodes("n1")
    use = {"counterSet": "set", "counters": {"memory": {"value": "3Gi"}}}
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    scene.slice("s", {"name": "a", "consumesCounters": [use, use]}, "b", nodeName="n1", count=2)

    assert scene.picks(scene.claim(ask())) == ["r=b"]


def test_a_counter_set_named_twice_has_to_admit_a_device_twice(scene: Any, ask: Any) -> None:
    """What the device says of its groups the second time may contradict the first."""
    scene.nodes("n1")
    use = {"counterSet": "set", "counters": {}}
    contradictory = [{**use, "compatibilityGroups": ["x"]}, use]
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    scene.slice("s", {"name": "a", "consumesCounters": contradictory}, "b", nodeName="n1", count=2)

    assert scene.picks(scene.claim(ask())) == ["r=b"]


def test_counters_come_back_when_a_candidate_is_refused(scene: Any, ask: Any) -> None:
    """A taint is looked at after the counters; what was charged is returned."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    taints = [{"key": "k", "effect": "NoSchedule"}]
    match = {"constraints": [{"matchAttribute": MODEL}]}
    scene.slice(
        "s",
        model("x", "m", consumesCounters=partition("", "1Gi")["consumesCounters"]),
        partition("tainted", "3Gi", taints=taints),
        model("y", "other", consumesCounters=partition("", "3Gi")["consumesCounters"]),
        model("z", "m", consumesCounters=partition("", "3Gi")["consumesCounters"]),
        nodeName="n1",
        count=2,
    )

    assert scene.picks(scene.claim(ask("r", 2), **match)) == ["r=x", "r=z"]


def test_equally_named_pools_of_two_drivers_do_not_share_counters(scene: Any, ask: Any) -> None:
    """Counters belong to driver and pool."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    scene.slice("s", partition("a", "4Gi"), nodeName="n1", count=2)
    for name, extra in (
        ("c2", {"sharedCounters": counters("4Gi")}),
        ("s2", {"devices": [partition("b", "4Gi")]}),
    ):
        pool = {"name": "n1", "generation": 1, "resourceSliceCount": 2}
        scene.put("ResourceSlice", name, spec={"driver": "nic", "pool": pool, "nodeName": "n1", **extra})

    assert scene.picks(scene.claim(ask("r", 2))) == ["r=a", "r=b"]


def test_a_device_on_another_node_uses_the_pools_counters(scene: Any, ask: Any) -> None:
    """Counters are those of the pool, whichever node its devices are on."""
    scene.nodes("n1", "n2")
    scene.slice("c", pool="p", nodeName="n1", count=3, sharedCounters=counters("4Gi"))
    scene.slice("s1", partition("a", "4Gi"), pool="p", nodeName="n1", count=3)
    scene.slice("s2", partition("b", "4Gi"), pool="p", nodeName="n2", count=3)
    scene.use("other", ask())

    assert scene.picks(scene.claim(ask())) is None


def test_a_negative_counter_closes_the_pool_to_counter_users(scene: Any, ask: Any) -> None:
    """As upstream has it, whichever counter is negative; other devices are not concerned."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi", "set", "other"))
    devices = (partition("a", "4Gi"), partition("b", "1Gi", counter_set="other"), "plain")
    scene.slice("s", *devices, nodeName="n1", count=2)
    scene.use("holder", ask())
    scene.slice("c", nodeName="n1", count=2, sharedCounters=[*counters("3Gi"), *counters("4Gi", "other")])

    assert scene.picks(scene.claim(ask())) == ["r=plain"]


def test_counters_of_any_size_are_exact(scene: Any, ask: Any) -> None:
    """Quantities beyond int64 neither overflow nor change what was published."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("20E"))
    scene.slice("s", *(partition(name, "10E") for name in "abc"), nodeName="n1", count=2)

    assert scene.picks(scene.claim(ask("r", 2))) == ["r=a", "r=b"]
    assert scene.picks(scene.claim(ask("r", 3))) is None


@pytest.mark.parametrize(
    ("groups", "fits"),
    [
        pytest.param((("x",), ("x", "y")), True, id="one in common"),
        pytest.param((("x",), ("y",)), False, id="none in common"),
        pytest.param((("x",), ()), False, id="one has none"),
        pytest.param((("m", "v"), ("v", "x"), ("m", "x")), False, id="pairwise is not enough"),
    ],
)
def test_devices_of_a_counter_set_share_a_group(scene: Any, ask: Any, groups: Any, *, fits: bool) -> None:
    """In one attempt as well as beside a committed device."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("40Gi"))
    devices = [partition(f"d{number}", "1Gi", *own) for number, own in enumerate(groups)]
    scene.slice("s", *devices, nodeName="n1", count=2)
    together = scene.picks(scene.claim(ask("r", len(groups))))
    for number in range(len(groups) - 1):
        scene.use(f"holder-{number}", ask())

    assert (together is not None) is fits
    assert (scene.picks(scene.claim(ask())) is not None) is fits


@pytest.mark.parametrize(("node", "admitted"), [("n1", "grouped-1"), ("n2", "plain-2")])
def test_devices_of_the_node_join_a_counter_set_first(scene: Any, ask: Any, node: str, admitted: str) -> None:
    """Where devices in use contradict each other, those of slices for the node decide, whatever the slices' names."""
    scene.nodes("n1", "n2")
    where = {"pool": "p", "count": 3}
    scene.slice("c", allNodes=True, sharedCounters=counters("40Gi"), **where)
    grouped = [partition(f"grouped-{number}", "1Gi", "x") for number in range(2)]
    plain = [partition(f"plain-{number}", "1Gi") for number in range(2)]
    scene.slice("b", *grouped, partition("plain-3", "1Gi"), nodeName="n1", **where)
    scene.slice("a", *plain, partition("plain-2", "1Gi"), nodeName="n2", **where)
    for device, holder in (("grouped-0", "one"), ("plain-0", "two"), ("plain-1", "three")):
        scene.hold(holder, device, pool="p")

    assert scene.picks(scene.claim(ask()), nodes=[node]) == [f"r={admitted}"]


def test_a_device_that_gives_to_a_counter_opens_its_pool(scene: Any, ask: Any) -> None:
    """A negative counter closes its pool to all but a device whose negative amount settles it."""
    scene.nodes("n1")
    scene.slice("c", nodeName="n1", count=2, sharedCounters=counters("4Gi"))
    devices = [partition("taker", "1Gi"), partition("giver", "-8Gi"), partition("held", "10Gi")]
    scene.slice("s", *devices, nodeName="n1", count=2)
    scene.hold("owner", "held", pool="n1")

    assert scene.picks(scene.claim(ask())) == ["r=giver"]
    assert scene.picks(scene.claim(ask("x"), ask("y"))) == ["x=giver", "y=taker"]


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
