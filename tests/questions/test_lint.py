"""Lint of selectors: what is said of those of classes, claims and templates, and that it is so."""

from itertools import count

import pytest

import naive_lint
from dra_operator.allocator.decision import Decider
from dra_operator.questions.answers import UNFINISHED, Conclusion
from dra_operator.questions.cluster import Cluster
from dra_operator.questions.lint import find_lintable, lint_objects
from factories import GPU, claim, device_class, manifest, request, resource_slice, selectors

ATTRIBUTES = f'device.attributes["{GPU}"]'


def device(name="gpu-0", memory="80Gi", **attributes):
    """A device with some attributes, each written as in a slice."""
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}


def two_kinds():
    """A slice of a device with a model, and one without."""
    return resource_slice("s", [device("gpu-0", model={"string": "h100"}), device("gpu-1", memory="40Gi")])


def lint(*objects):
    """Return what there is to say of all selectors of some objects."""
    cluster = Cluster.load(objects)
    return lint_objects(cluster, find_lintable(cluster))


def found_in(report, rule):
    """Return the messages of a rule."""
    return [finding.message for finding in report.findings if finding.rule == rule]


@pytest.mark.parametrize("seed", range(60))
def test_counts_and_rules_are_those_of_a_reader_that_asks_each_device(seed):
    """What is matched, fails, and names nothing that is there follows from the manifests alone, a device at a time."""
    slices, chosen, asked, of_class, of_request = naive_lint.objects_of(seed)
    report = lint(*slices, chosen, claim("c", asked))

    devices = naive_lint.published(slices)
    assert report.devices == len(devices)
    left = devices
    for item, parts in zip(report.selectors, (*of_class, *of_request), strict=True):
        matched, failed, rest, rules, of_failures = naive_lint.read_selector(parts, left)
        if naive_lint.names_unknown_driver(parts, devices):
            rules.add("UnknownName")
        assert (item.asked, item.found, item.failed) == (len(left), matched, failed)
        found = [
            finding
            for finding in report.findings
            if (finding.kind, finding.field) == (item.kind, item.field)
            and not finding.message.startswith("fails on a device without")
        ]
        failures = [finding.rule for finding in found if finding.message.startswith("fails on")]
        assert {finding.rule for finding in found} - set(failures) == rules
        assert len(failures) == bool(of_failures)
        assert of_failures.issuperset(failures)
        left = rest


@pytest.mark.parametrize("seed", range(60))
def test_a_class_that_takes_every_driver_is_told_what_fails_elsewhere(seed):
    """A selector that fails on a bare device of a driver nobody means has a warning, unless it fails already."""
    slices, chosen, *_ = naive_lint.objects_of(seed)
    report = lint(*slices, chosen)

    foreign = "driver.invalid", {"name": "x", "attributes": {}, "capacity": {}}
    expected = None
    if not any(item.failed for item in report.selectors):
        for item in report.selectors:
            answer = naive_lint.answer(item.expression, *foreign)
            if answer is not True:
                expected = item.field if str(answer).startswith("no such key") else None
                break
    told = [item.field for item in report.findings if item.message.startswith("fails on a device without")]
    assert told == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("expression", "rule", "text"),
    [
        pytest.param(
            f'{ATTRIBUTES}.modle == "h100"',
            "UnknownName",
            f'none of 2 devices has attribute {GPU}/modle; did you mean "{GPU}/model"?',
            id="a misspelt attribute",
        ),
        pytest.param(
            f"has({ATTRIBUTES}.memory)",
            "UnknownName",
            f'none of 2 devices has attribute {GPU}/memory: write device.capacity["{GPU}"].memory',
            id="a capacity that is read as an attribute",
        ),
        pytest.param(
            f'{ATTRIBUTES}.model == "h100"',
            "UnguardedAttribute",
            f"fails on 1 of 2 devices: {GPU}/node-1/gpu-1: no such key: model; this device has memory (capacity); "
            "guard what not every device has by has(), or by .? and orValue()",
            id="an attribute that a device lacks",
        ),
        pytest.param(
            f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("100Gi"))',
            "MatchesNone",
            "matches none of 2 devices (memory 40Gi <= 100Gi on 1, memory 80Gi <= 100Gi on 1)",
            id="an amount that no device has",
        ),
        pytest.param(
            f'{ATTRIBUTES}.?model.orValue("") == "H100"',
            "MatchesNone",
            f'matches none of 2 devices (model h100 != H100 on 1, no {GPU}/model on 1); for model "H100", did you mean '
            '"h100"?',
            id="a value in another case",
        ),
        pytest.param(
            'device.driver == "gpu.exmaple.com"',
            "UnknownName",
            f'no device of driver gpu.exmaple.com is published; did you mean "{GPU}"?',
            id="a misspelt driver",
        ),
        pytest.param(
            f'has({ATTRIBUTES}.model) || device.driver == "{GPU}"',
            "MatchesAll",
            "matches all 2 devices, so it excludes none",
            id="what is true of every device",
        ),
        pytest.param(
            f"{ATTRIBUTES}.?model.orValue(0) == 1",
            "MatchesNone",
            f'matches none of 2 devices (model string "h100" != int 1 on 1, no {GPU}/model on 1)',
            id="a text that is compared with a number",
        ),
        pytest.param(
            f"has({ATTRIBUTES}.model) && {ATTRIBUTES}.model < 1",
            "Invalid",
            f'fails on 1 of 2 devices: {GPU}/node-1/gpu-0: no such overload; here model is string "h100"',
            id="a text where an operator takes numbers",
        ),
        pytest.param(
            'device.driver.matchs("gpu.*")',
            "Invalid",
            'does not compile at column 21: no such function "matchs"; did you mean "matches"?',
            id="what does not compile",
        ),
        pytest.param(
            f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("40GB"))',
            "Invalid",
            'fails wherever this is evaluated: quantity("40GB") is no quantity; write one as quantity("10G") or '
            'quantity("10Gi")',
            id="a quantity that is none",
        ),
        pytest.param(
            f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("1Gi"))',
            "UnguardedAttribute",
            "fails on a device without memory, and it takes those of any driver: begin with "
            f'device.driver == "{GPU}" &&',
            id="what other drivers' devices lack",
        ),
    ],
)
def test_a_selector_of_a_class_is_told_what_is_wrong(expression, rule, text):
    """Each rule has one sentence with the value, the number of devices and what to do."""
    report = lint(two_kinds(), device_class("gpu", expression))

    assert text in found_in(report, rule)
    assert {finding.field for finding in report.findings} == {"spec.selectors[0].cel.expression"}


def test_a_request_for_a_class_that_does_not_exist_names_the_near_one():
    """The field is that of the class, and the class that was probably meant is told."""
    report = lint(
        two_kinds(), device_class("gpu.example.com"), claim("c", request("gpu", "gpu.exmaple.com", "true"))
    )

    assert str(report.findings[0]) == (
        'ResourceClaim "default/c": spec.devices.requests[0].exactly.deviceClassName: device class gpu.exmaple.com '
        'does not exist; did you mean "gpu.example.com"?'
    )


def test_selectors_of_alternatives_are_told_by_their_names():
    """A request with alternatives has a report for each, named as results name them."""
    alternatives = [
        {"name": "large", "deviceClassName": "gpu", "selectors": selectors("true")},
        {"name": "small", "deviceClassName": "gpu", "selectors": selectors("false")},
    ]
    spec = {"devices": {"requests": [{"name": "gpu", "firstAvailable": alternatives}]}}
    template = manifest("ResourceClaimTemplate", "t", {"spec": spec}, namespace="team-a")

    report = lint(two_kinds(), device_class(), template)

    assert [
        (item.request, item.field, item.found) for item in report.selectors if item.kind != "DeviceClass"
    ] == [
        ("gpu/large", "spec.spec.devices.requests[0].firstAvailable[0].selectors[0].cel.expression", 2),
        ("gpu/small", "spec.spec.devices.requests[0].firstAvailable[1].selectors[0].cel.expression", 0),
    ]


def test_without_devices_only_the_text_is_judged():
    """Where nothing is published, nothing is said of what a selector matches."""
    report = lint(device_class("gpu", f'{ATTRIBUTES}.model == "h100"', "device.driver.matchs(1)"))

    assert report.devices == 0
    assert {finding.rule for finding in report.findings} == {"Invalid"}


@pytest.mark.parametrize(
    ("expression", "rules", "text", "numbers"),
    [
        pytest.param(f"{ATTRIBUTES}.model", set(), "", (1, 0, 1), id="what all selected devices have"),
        pytest.param(
            f"{ATTRIBUTES}.numa",
            {"UnguardedAttribute", "UnknownName"},
            "fails on 1 of 1 device: gpu.example.com/node-1/gpu-0: no such key: numa",
            (1, 1, 0),
            id="what one of them lacks",
        ),
        pytest.param(
            f'{ATTRIBUTES}.?modle.orValue("none")',
            {"UnknownName"},
            f'none of 1 device has attribute {GPU}/modle; did you mean "{GPU}/model"?',
            (1, 0, 1),
            id="a misspelt attribute that is guarded",
        ),
        pytest.param(
            f"{ATTRIBUTES}.model + 1", {"Invalid"}, "fails on 1 of 1 device", (1, 1, 0), id="another type"
        ),
        pytest.param(
            f"{ATTRIBUTES}.model ==",
            {"Invalid"},
            "the expression ends too early",
            (1, 1, 0),
            id="what does not compile",
        ),
    ],
)
def test_a_derived_attribute_is_asked_about_the_devices_that_its_request_selects(
    expression, rules, text, numbers
):
    """The second device has no model, and the selector leaves it out before."""
    asked = request(
        "gpu",
        "gpu",
        f"has({ATTRIBUTES}.model)",
        derivedAttributes=[{"name": "x.com/y", "expression": expression}],
    )
    constraints = [{"matchAttribute": "x.com/y"}]
    report = lint(two_kinds(), device_class("gpu"), claim("c", asked, constraints=constraints, uid="taken"))

    (told,) = report.derived_attributes
    assert (told.request, told.attribute) == ("gpu", "x.com/y")
    assert (told.asked, told.failed, told.found) == numbers
    findings = [each for each in report.findings if each.field.endswith(".derivedAttributes[0].expression")]
    assert {each.rule for each in findings} == rules
    assert not rules or text in findings[0].message


def test_an_expression_above_the_limit_of_cost_is_told():
    """Also one in a class that was stored when there was no limit."""
    every = "device.attributes"
    costly = f"{every}.all(a, {every}.all(b, {every}[b].all(c, a + a + b != c)))"
    stored = device_class("gpu", costly)
    stored["metadata"]["uid"] = "1"

    assert found_in(lint(two_kinds(), stored), "Invalid") == [
        "can cost 1,417,411, more than the 1,000,000 that the API server admits: write it more simply"
    ]


def test_what_takes_too_long_makes_the_answer_partial():
    """Lint ends in the time that a claim has, says for which object that was too short, and knows what it reads."""
    state = Cluster.load([two_kinds(), device_class("gpu", f"has({ATTRIBUTES}.model)")])
    state.allocators[Decider.KUBE_SCHEDULER].clock = count(step=60).__next__

    report = state.lint()

    assert report.partial == (f"DeviceClass gpu: spec: {UNFINISHED}",)
    assert (report.findings, report.conclusion) == ((), Conclusion.CANNOT_SAY)
    assert [(item.asked, item.reads) for item in report.selectors] == [(0, (f"attributes/{GPU}/model",))]
