"""DeviceTaintRules of Kubernetes 1.33 and 1.34, which also select by class and CEL, as `simulate` applies them."""

import pytest

import factories
from factories import V1, device_class, selectors
from simulation import CLASS, devices, states

GPU = "device.driver == 'gpu.example.com'"
T4 = "device.attributes['gpu.example.com'].model == 't4'"


def rule(**selector):
    """A rule of v1alpha3 that nobody tolerates."""
    return factories.taint_rule("repair", selector, key="repair", version="v1alpha3")


def claim(name, model):
    """A claim for a device of a model, or for one without a model."""
    models = "device.attributes['gpu.example.com'].?model.orValue('')"
    return factories.claim(name, factories.request("gpu", "gpu", f"{models} == '{model}'"))


@pytest.fixture
def tainted(simulate):
    """Return a function that says which of the models are tainted, and what is noted about the rule."""

    def run(*objects):
        published = devices("a100", "t4", "none")
        for device, model in zip(published["spec"]["devices"], ("a100", "t4", ""), strict=True):
            device["attributes"] = {"model": {"string": model}} if model else {}
        claims = [claim("a100", "a100"), claim("t4", "t4"), claim("none", "")]
        result = simulate(CLASS, published, *claims, *objects)
        assert result.exit_code in (0, 1), result.output
        waiting = {name for name, state in states(result).items() if state == "pending"}
        assert all("DeviceTainted" in line for line in result.stdout.splitlines() if " pending " in line)
        notes = [
            line.partition("note: ")[2] for line in result.stderr.splitlines() if "DeviceTaintRule" in line
        ]
        return {name.removeprefix("default/") for name in waiting}, notes

    return run


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"deviceClassName": "t4"}, {"t4"}),
        (
            {"selectors": selectors(GPU, "device.attributes['gpu.example.com'].?model.orValue('') != 't4'")},
            {"a100", "none"},
        ),
        ({"deviceClassName": "gpu", "device": "none"}, {"none"}),
        ({"deviceClassName": "guarded", "selectors": selectors(T4)}, {"t4"}),
        ({"driver": "nic.example.com", "deviceClassName": "gpu"}, set()),
        ({"deviceClassName": "nics"}, set()),
    ],
    ids=[
        "class",
        "expressions",
        "class and device",
        "class and expression",
        "another driver",
        "a class of others",
    ],
)
def test_a_rule_taints_what_class_and_expressions_select(tainted, selector, expected):
    """All that the rule says must hold of a device; a class asks its selectors in order."""
    guarded = device_class("guarded", "has(device.attributes['gpu.example.com'].model)")
    t4 = device_class("t4", "device.attributes['gpu.example.com'].?model.orValue('') == 't4'")
    nics = device_class("nics", "device.driver == 'nic.example.com'")

    assert tainted(guarded, t4, nics, rule(**selector))[0] == expected


def test_a_rule_that_selects_no_device_is_noted_with_its_class(tainted):
    """Nothing is published of that class that the selectors match."""
    notes = tainted(rule(deviceClassName="gpu", selectors=selectors("false")))[1]

    assert notes == [
        'DeviceTaintRule "repair": taints nothing: no published device is of class gpu that its selectors match'
    ]


@pytest.mark.parametrize(
    ("selector", "note"),
    [
        (
            {"deviceClassName": "gpus"},
            (
                'spec.deviceSelector.deviceClassName: device class gpus does not exist; did you mean "gpu"?; '
                "until it does, the rule taints nothing"
            ),
        ),
        (
            {"deviceClassName": "broken"},
            (
                "spec.deviceSelector.deviceClassName: class broken: selector #0 does not compile at column 7: "
                'device has no field "drivr"; did you mean "driver"?; the rule taints nothing'
            ),
        ),
        (
            {"deviceClassName": "gpu", "selectors": selectors("true", "device.driver = 'x'")},
            "spec.deviceSelector.selectors[1] does not compile at column 15: ",
        ),
        (
            {"selectors": [{}]},
            "spec.deviceSelector.selectors[0] is not of a known kind; only cel is; the rule taints nothing",
        ),
    ],
    ids=["class missing", "class broken", "expression broken", "no expression"],
)
def test_a_rule_that_cannot_be_evaluated_taints_nothing_and_is_noted(tainted, selector, note):
    """The field, what is wrong with it and what comes of it; nothing else is said of the rule."""
    broken = device_class("broken", "device.drivr == 'gpu.example.com'")

    waiting, notes = tainted(broken, rule(**selector))

    assert waiting == set()
    assert len(notes) == 1
    assert notes[0].startswith(f'DeviceTaintRule "repair": {note}')


@pytest.mark.parametrize(
    ("selector", "title"),
    [
        ({"selectors": selectors(T4)}, "spec.deviceSelector.selectors[0]"),
        ({"deviceClassName": "t4"}, "spec.deviceSelector.deviceClassName: class t4: selector #1"),
    ],
    ids=["of the rule", "of its class"],
)
def test_a_device_on_which_an_expression_fails_gets_no_taint(tainted, selector, title):
    """Kubernetes goes on with the next device; how many there are, and why, is noted."""
    waiting, notes = tainted(device_class("t4", GPU, T4), rule(**selector))

    assert waiting == {"t4"}
    assert [note for note in notes if title in note] == [
        (
            f'DeviceTaintRule "repair": {title} fails on devices, which are not tainted: '
            "gpu.example.com/node-1/none: no such key: model; this device has no attributes; "
            "guard what not every device has by has(), or by .? and orValue()"
        )
    ]


def test_class_and_expressions_are_no_fields_of_later_versions(simulate):
    """The API server of 1.35 and later does not have them: the rule would taint every device."""
    later = {**rule(deviceClassName="gpu"), "apiVersion": V1}
    result = simulate(CLASS, devices("gpu-0"), later)

    assert result.exit_code == 2
    assert "since Kubernetes 1.35 only driver, pool and device select" in result.stderr
