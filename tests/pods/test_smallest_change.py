"""The smallest change with which claims would fit: by hand for each kind, and at random against all single edits."""

import pytest

from changefuzz import find_differences, make_case
from changefuzz.cluster import DRIVER, Case
from dra_operator.allocator.decision import Allocated
from dra_operator.pods.edits import Kind
from dra_operator.pods.smallest_change import Effort, find_smallest_changes


def device(name, *, taints=(), shared=False, **values):
    """A device: `memory` is a capacity, what else is given an attribute."""
    memory = values.pop("memory", None)
    kinds = {bool: "bool", int: "int", str: "string"}
    attributes = {
        key: {"version": value.removeprefix("v")}
        if str(value).startswith("v")
        else {kinds[type(value)]: value}
        for key, value in values.items()
    }
    body = {"name": name, "attributes": attributes}
    if memory:
        body["capacity"] = {"memory": {"value": memory}}
    if taints:
        body["taints"] = [dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints]
    if shared:
        body["allowMultipleAllocations"] = True
    return body


def slice_of(node, *devices, count=1):
    """A slice of a node."""
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return "ResourceSlice", {"metadata": {"name": node}, "spec": spec}


def request(*expressions, name="gpu", **asked):
    """A request for a device of the class."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return {"name": name, "exactly": {"deviceClassName": "any", "count": 1, "selectors": selectors, **asked}}


def claim(*requests, name="c", constraints=()):
    """A claim."""
    spec = {"devices": {"requests": requests, "constraints": constraints}}
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": spec}


def holder(name, *devices, node="n1", namespace="ns", used=True, memory=""):
    """A claim that holds devices of a node, or shares of them."""
    share = {"shareID": name, "consumedCapacity": {"memory": memory}} if memory else {}
    results = [{"request": "r", "driver": DRIVER, "pool": node, "device": each, **share} for each in devices]
    status = {"allocation": {"devices": {"results": results}}}
    if used:
        status["reservedFor"] = [{"resource": "pods", "name": "p", "uid": "u"}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {}, "status": status}


def case(*slices, asks=(), holders=(), obstacles=(), class_selectors=(), rules=()):
    """A case with one claim, or those given."""
    nodes = [("Node", {"metadata": {"name": body["spec"]["nodeName"]}}) for _, body in slices]
    selectors = [{"cel": {"expression": expression}} for expression in class_selectors]
    device_class = "DeviceClass", {"metadata": {"name": "any"}, "spec": {"selectors": selectors}}
    claims = [body if "metadata" in body else claim(body) for body in asks]
    return Case(
        (*nodes, device_class, *slices, *rules),
        {(body["metadata"]["namespace"], body["metadata"]["name"]): body for body in holders},
        {body["metadata"]["name"]: body for body in claims},
        dict(obstacles),
    )


def text_of(*arguments, **fields):
    """What is said of a case, of each kind that helps."""
    return find_smallest_changes(case(*arguments, **fields).situation(), most=len(Kind)).text


# --- tolerations


def test_one_taint_can_be_tolerated():
    """It is named as kubectl writes those of nodes."""
    slices = slice_of("n1", device("a", taints=[("maintenance", "yes", "NoSchedule")]))

    assert text_of(slices, asks=[request()]) == (
        "; it would fit if request gpu tolerated maintenance=yes:NoSchedule"
    )


def test_a_taint_with_which_pods_go_on_is_tolerated_first():
    """One with NoExecute says that something is wrong."""
    devices = device("a", taints=[("a", "", "NoExecute")]), device("b", taints=[("b", "", "NoSchedule")])

    assert text_of(slice_of("n1", *devices), asks=[request()]) == (
        "; it would fit if request gpu tolerated b:NoSchedule"
    )


def taint_rule(name, key, driver=DRIVER):
    """A rule that taints all devices of a driver."""
    spec = {"deviceSelector": {"driver": driver}, "taint": {"key": key, "effect": "NoSchedule"}}
    return "DeviceTaintRule", {"metadata": {"name": name}, "spec": spec}


def test_rule_that_taints_is_named():
    """Whoever may change it lifts the taint; rules of another taint, or of no device here, are none of it."""
    rules = [
        taint_rule("repair", "k"),
        taint_rule("other", "j", "nic.example.com"),
        taint_rule("none", "k", "x"),
    ]

    assert text_of(slice_of("n1", device("a")), asks=[request()], rules=rules) == (
        "; it would fit if request gpu tolerated k:NoSchedule (set by DeviceTaintRule repair)"
    )


def test_ownership_is_not_to_be_tolerated():
    """A pod that tolerates it would take devices of the operator away from it."""
    taints = [("dra-operator.io/owned", "", "NoSchedule")]

    assert text_of(slice_of("n1", device("a", taints=taints)), asks=[request()]) == (
        "; no single change helps"
    )


# --- selectors

ATTRIBUTES = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


@pytest.mark.parametrize(
    ("expression", "edited"),
    [
        (f"{ATTRIBUTES}.index >= 7", "index in selector #0 were 5"),
        (f"7 == {ATTRIBUTES}.index", "index in selector #0 were 5"),
        (f'{ATTRIBUTES}.model == "h100"', "model in selector #0 were a100"),
        (f"{ATTRIBUTES}.fast == false", "fast in selector #0 were true"),
        (f'{ATTRIBUTES}.firmware.compareTo(semver("3.0.0")) >= 0', "firmware in selector #0 were 2.1.0"),
        (f'{MEMORY}.compareTo(quantity("80Gi")) >= 0', "memory in selector #0 were 40Gi"),
        (f'{MEMORY} == quantity("30Gi")', "memory in selector #0 were 24Gi"),
        ('device.driver == "other"', f"the driver in selector #0 were {DRIVER}"),
        (f'{ATTRIBUTES}.fast && {ATTRIBUTES}.model == "h100"', "model in selector #0 were a100"),
        (f'{ATTRIBUTES}.model in ["h100"]', "selector #0 were dropped"),
        (f'{ATTRIBUTES}.model == "x" || false', "selector #0 were dropped"),
        (f"!{ATTRIBUTES}.fast", "selector #0 were dropped"),
        (f"{ATTRIBUTES}.index == 7 && {ATTRIBUTES}.index == 8", "selector #0 were dropped"),
        (f'{MEMORY}.isGreaterThan(quantity("80Gi"))', "memory in selector #0 were 24Gi"),
    ],
)
def test_one_literal_is_replaced_by_what_devices_have(expression, edited):
    """A number by the nearest that helps, a text by what most devices have; else the selector is dropped."""
    common = {"fast": True, "firmware": "v1.0.0"}
    devices = (
        device("a", model="a100", index=1, memory="40Gi", **{**common, "firmware": "v2.1.0"}),
        device("b", model="a100", index=5, memory="24Gi", **common),
        device("c", model="a30", index=3, memory="24Gi", **common),
    )

    assert text_of(slice_of("n1", *devices), asks=[request(expression)]) == f"; it would fit if {edited}"


def test_selectors_of_classes_are_left_alone():
    """They are not the user's."""
    devices = device("a", model="a100")
    text = text_of(
        slice_of("n1", devices), asks=[request()], class_selectors=[f'{ATTRIBUTES}.model == "h100"']
    )

    assert text == "; no single change helps: no device is in DeviceClass any"


# --- amounts and counts


def test_an_amount_is_lowered_to_the_largest_that_fits():
    """What the device has left."""
    slices = slice_of("n1", device("a", memory="80Gi", shared=True))
    asks = [request(capacity={"requests": {"memory": "60Gi"}})]
    text = text_of(slices, asks=asks, holders=[holder("h", "a", memory="40Gi")])

    assert text == "; it would fit if request gpu asked for memory 40Gi, or if claim h ended"


def test_who_asks_for_all_devices_may_get_them_with_more_and_not_with_less():
    """With 4Gi the smaller device counts, and has not that much left; with 16Gi it does not count."""
    devices = device("a", memory="4Gi", shared=True), device("b", memory="16Gi", shared=True)
    whole = case(
        slice_of("n1", *devices),
        asks=[request(allocationMode="All", count=0, capacity={"requests": {"memory": "20Gi"}})],
        holders=[holder("h", "a", memory="1Gi")],
    )
    found = find_smallest_changes(whole.situation())

    assert [change.text for change in found.changes] == ["request gpu asked for memory 16Gi"]


def test_a_count_is_lowered_to_the_largest_that_fits():
    """Two of four are there."""
    assert text_of(slice_of("n1", device("a"), device("b")), asks=[request(count=4)]) == (
        "; it would fit if request gpu asked for 2 devices"
    )


# --- nodes


@pytest.fixture
def make_node():
    """Write a node."""

    def make(name, *, labels=None, **allocatable):
        return {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {},
            "status": {"allocatable": {"pods": "10", **allocatable}},
        }

    return make


# --- claims that end


def ended(*holders, count=1, devices=("a", "b", "c", "d", "e"), **asked):
    """The claims that end so that a request for some of five devices fits."""
    slices = slice_of("n1", *map(device, devices))
    found = find_smallest_changes(
        case(slices, asks=[request(count=count, **asked)], holders=holders).situation(), most=len(Kind)
    )
    return next((change for change in found.changes if change.kind is Kind.CLAIMS_ENDED), None)


def test_claims_of_other_namespaces_are_not_named():
    """They are counted."""
    others = [holder(name, name, namespace="other") for name in "ab"]

    assert ended(*others, devices="ab").text == "a claim of another namespace ended"
    assert ended(*others, devices="ab", count=2).text == "2 claims of other namespaces ended"
    assert ended(others[0], holder("b", "b"), devices="ab", count=2).text == (
        "claims b and 1 of another namespace ended"
    )


# --- all together


def test_at_most_three_kinds_are_shown_in_their_order():
    """A claim that ends would help as well."""
    devices = (
        device("a", index=1),
        device("b", index=1),
        device("c", index=2),
        device("d", index=2, taints=[("k", "v", "NoSchedule")]),
        device("e", index=2),
    )
    whole = case(
        slice_of("n1", *devices),
        asks=[request(f"{ATTRIBUTES}.index == 2", count=2)],
        holders=[holder("h", "e")],
    )
    shown = (
        "; it would fit if request gpu tolerated k=v:NoSchedule, or if index in selector #0 were 1, "
        "or if request gpu asked for 1 device"
    )

    assert find_smallest_changes(whole.situation()).text == shown
    assert find_smallest_changes(whole.situation(), most=4).text == f"{shown}, or if claim h ended"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slices": 2}, "; no single change helps: a pool is incomplete"),
        ({"class_name": "none"}, "; no single change helps: a DeviceClass does not exist"),
        (
            {"class_selectors": [f'{ATTRIBUTES}.none == "x"']},
            "; no single change helps: a selector fails on a device",
        ),
        ({"class_selectors": ["false"]}, "; no single change helps: no device is in DeviceClass any"),
    ],
    ids=["incomplete pool", "missing class", "selector that fails", "class without devices"],
)
def test_what_no_change_can_mend_is_named(change, said):
    """A pool, a class, a selector of a class."""
    asks = [request(**({"deviceClassName": change["class_name"]} if "class_name" in change else {}))]
    if "slices" in change:
        asks = [request(allocationMode="All", count=0)]
    slices = slice_of("n1", device("a"), count=change.get("slices", 1))

    assert text_of(slices, asks=asks, class_selectors=change.get("class_selectors", ())) == said


def test_nothing_is_said_when_the_effort_does_not_suffice():
    """That no change helps is not known then."""
    whole = case(slice_of("n1", device("a")), asks=[request("false", count=3)])
    found = find_smallest_changes(whole.situation(), Effort(decisions=0))

    assert (found.changes, found.is_complete, found.text) == ((), False, "")


# --- at random


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_whatever_is_named_makes_the_claims_fit_and_is_the_smallest_of_its_kind(first):
    """Each change is applied and decided again; all single edits are tried by the exhaustive search."""
    mendable = 0
    for number in range(first, first + 50):
        whole = make_case(f"suite {number}")
        situation = whole.situation()
        if isinstance(situation.decide(), Allocated):
            continue
        found = find_smallest_changes(situation, most=len(Kind))
        for change in found.changes:
            assert isinstance(change.apply(whole.situation()).decide(), Allocated), (number, change)
        assert find_differences(whole, found) == [], number
        mendable += bool(found.changes)

    assert mendable > 10
