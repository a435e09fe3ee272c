"""Selectors of the library: Kubernetes' answer about a device, or an error that says what to do."""

import pytest

from dra_operator.questions.selectors import SelectorError, selector
from factories import GPU

DEVICE = {
    "name": "gpu-0",
    "attributes": {"model": {"string": "h100"}, "index": {"int": 3}},
    "capacity": {"memory": {"value": "80Gi"}},
}
MODEL = f'device.attributes["{GPU}"].model == "h100"'


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param(MODEL, True, id="an attribute with the value asked for"),
        pytest.param(MODEL.replace("h100", "a100"), False, id="an attribute with another value"),
        pytest.param(f'device.driver == "{GPU}"', True, id="the driver"),
        pytest.param(
            f'device.capacity["{GPU}"].memory.isGreaterThan(quantity("40Gi"))', True, id="a capacity"
        ),
        pytest.param("device.allowMultipleAllocations", False, id="a device that is not shared"),
        pytest.param(
            f'has(device.attributes["{GPU}"].uuid)', False, id="a guarded attribute that is missing"
        ),
    ],
)
def test_a_selector_answers_about_a_device_of_a_slice(expression, expected):
    """A device is asked as it stands in a ResourceSlice, beside the driver of the slice."""
    assert selector(expression).matches(DEVICE, driver=GPU) is expected


def test_a_selector_that_does_not_compile_says_where():
    """Text, line and column of what does not compile, with what was probably meant."""
    with pytest.raises(
        SelectorError, match=r'does not compile at column 21: .*did you mean "matches"'
    ) as caught:
        selector('device.driver.matchs("gpu.*")')

    assert (caught.value.stage, caught.value.line, caught.value.column) == ("compile", 1, 21)


def test_a_selector_that_fails_on_a_device_is_no_answer():
    """What Kubernetes treats as an error is no "no match": it names the key and what the device has."""
    with pytest.raises(SelectorError, match="fails: no such key: modle; this device has model") as caught:
        selector(MODEL.replace("model", "modle")).matches(DEVICE, driver=GPU)

    assert (caught.value.stage, caught.value.message) == ("runtime", "no such key: modle")


@pytest.mark.parametrize(
    ("device", "driver", "text"),
    [
        pytest.param({}, None, "Device: driver: .* is missing", id="no driver"),
        pytest.param("gpu-0", GPU, 'Device: "gpu-0" is not an object', id="a name alone"),
        pytest.param(
            {"name": "a", "capacity": {"memory": {"value": "80GB"}}},
            GPU,
            'Device "a": capacity\\["memory"\\].value: "80GB"',
            id="a capacity that is no quantity",
        ),
        pytest.param(
            {"name": "a", "basic": {"attributes": []}},
            GPU,
            'Device "a": basic.attributes: \\[\\] is not an object',
            id="attributes of v1beta1 that are a list",
        ),
    ],
)
def test_what_is_no_device_is_named_with_field_and_value(device, driver, text):
    """A device that no slice could have is a ValueError with the device, the field and the value."""
    with pytest.raises(ValueError, match=text):
        selector(MODEL).matches(device, driver=driver)


def test_a_selector_that_is_too_long_is_refused():
    """The API server admits 10 KiB, and says so of longer ones before they are compiled."""
    with pytest.raises(ValueError, match="10,240 that the API server admits"):
        selector(f'device.driver == "{"a" * 10_240}"')
