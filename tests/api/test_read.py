"""Reading: what comes out, and the one sentence where nothing does."""

import pytest

from dra_operator.api.attributes import UNKNOWN, AttributeValue
from dra_operator.api.core import Node
from dra_operator.api.quantity import parse_quantity
from dra_operator.api.read import ObjectError, read_object
from dra_operator.api.types import ResourceSlice


def body(kind="ResourceSlice", version="v1", **spec):
    """Return an object of the API named n."""
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "n"},
        "spec": spec,
    }


def device(**fields):
    """Return a slice of one device."""
    return body(devices=[{"name": "gpu-0", **fields}])


def test_a_slice_is_read_with_its_values():
    """Attributes carry their type, capacities their exact amount and their text."""
    resource_slice = read_object(
        device(attributes={"type": {"string": "gpu"}}, capacity={"memory": {"value": "64Gi"}})
    )

    (gpu,) = resource_slice.spec.devices
    assert isinstance(resource_slice, ResourceSlice)
    assert gpu.attributes == {"type": AttributeValue("string", "gpu")}
    assert gpu.capacity["memory"].value == parse_quantity("65536Mi")
    assert gpu.capacity["memory"].value.text == "64Gi"


def test_null_is_absent():
    """A null counts as an absent field, in lists, maps and elsewhere."""
    resource_slice = read_object(
        body(
            driver=None,
            pool=None,
            devices=[{"name": "a", "taints": None, "capacity": None, "nodeName": None}],
        )
    )

    assert resource_slice.spec.driver == ""
    assert resource_slice.spec.devices[0].taints == ()
    assert resource_slice.spec.devices[0].capacity == {}


def test_a_null_in_opaque_parameters_stays():
    """Parameters belong to the driver and pass unread, also beside a null that is dropped."""
    opaque = {"driver": "d", "parameters": {"x": None}}
    device_class = read_object(body("DeviceClass", config=[{"opaque": opaque}], extendedResourceName=None))
    claim = read_object(body("ResourceClaim", devices={"config": [{"opaque": opaque, "requests": None}]}))

    assert device_class.spec.config[0].opaque.parameters == {"x": None}
    assert claim.spec.devices.config[0].opaque.parameters == {"x": None}


def test_unknown_fields_are_ignored():
    """A newer API may say more than this reader knows."""
    assert read_object({"kind": "Node", "metadata": {"name": "n", "new": 1}, "newer": {}}) == read_object(
        {"kind": "Node", "metadata": {"name": "n"}}
    )
    assert isinstance(read_object({"kind": "Node"}), Node)


def test_an_attribute_of_a_type_to_come_is_unknown():
    """A union without a known field is read, for the evaluation to refuse."""
    assert read_object(device(attributes={"x": {"matrix": [1]}})).spec.devices[0].attributes["x"] == UNKNOWN


@pytest.mark.parametrize(
    ("wire", "field", "message"),
    [
        (
            device(capacity={"memory": {"value": "12 GB"}}),
            'spec.devices[0].capacity["memory"].value',
            '"12 GB" is not a quantity such as 16Gi or 500m',
        ),
        (
            device(capacity={"memory": "16Gi"}),
            'spec.devices[0].capacity["memory"]',
            '"16Gi" is not an object such as {"value": "16Gi"}',
        ),
        (
            device(consumesCounters=[{"counters": {"slices": 1}}]),
            'spec.devices[0].consumesCounters[0].counters["slices"]',
            '1 is not an object such as {"value": 1}',
        ),
        (device(capacity=["memory"]), "spec.devices[0].capacity", '["memory"] is not an object'),
        (
            device(attributes={"a": {"int": "5"}}),
            'spec.devices[0].attributes["a"]',
            '"5" is not a whole number of 64 bits ("int"): write it without quotes',
        ),
        (
            device(attributes={"a": {"strings": ["x", True]}}),
            'spec.devices[0].attributes["a"]',
            'true is not text ("strings"): write it in quotes',
        ),
        (
            device(attributes={"a": {"version": 1.2}}),
            'spec.devices[0].attributes["a"]',
            '1.2 is not text ("version"): write it in quotes',
        ),
        (
            device(attributes={"a": {"int": 2**63}}),
            'spec.devices[0].attributes["a"]',
            '9223372036854775808 is not a whole number of 64 bits ("int")',
        ),
        (
            device(attributes={"a": {"bools": [True, 1]}}),
            'spec.devices[0].attributes["a"]',
            '1 is not true or false ("bools")',
        ),
        (
            device(attributes={"a": {"strings": "x"}}),
            'spec.devices[0].attributes["a"]',
            '"x" is not a list ("strings")',
        ),
        (
            device(attributes={"a": "h100"}),
            'spec.devices[0].attributes["a"]',
            '"h100" is not an object such as {"string": "h100"}',
        ),
        (body(devices={}), "spec.devices", "{} is not a list"),
        (body(devices=[5]), "spec.devices[0]", "5 is not an object"),
        (body(allNodes="true"), "spec.allNodes", '"true" is not true or false: write it without quotes'),
        (body(allNodes="yes"), "spec.allNodes", '"yes" is not true or false'),
        (body(allNodes=1), "spec.allNodes", "1 is not true or false"),
        (
            body(pool={"generation": "1"}),
            "spec.pool.generation",
            '"1" is not a whole number: write it without quotes',
        ),
        (body(pool={"generation": "one"}), "spec.pool.generation", '"one" is not a whole number'),
        (body(pool={"generation": 1.5}), "spec.pool.generation", "1.5 is not a whole number"),
        (body(driver=7), "spec.driver", "7 is not text: write it in quotes"),
        ({"kind": "ResourceSlice", "metadata": {"name": "n"}, "spec": []}, "spec", "[] is not an object"),
        (
            body(devices=[{"name": "a", "taints": [{"key": {}}]}]),
            "spec.devices[0].taints[0].key",
            "{} is not text",
        ),
    ],
)
def test_a_wrong_value_is_one_clear_sentence(wire, field, message):
    """The error names object, field, value and what is wrong, in one line."""
    with pytest.raises(ObjectError) as caught:
        read_object(wire)

    assert caught.value.field == field
    assert str(caught.value) == f'ResourceSlice "n": {field}: {message}'


@pytest.mark.parametrize(
    ("wire", "field"),
    [
        (
            body(version="v1beta1", devices=[{"name": "a", "basic": {"capacity": {"m": {"value": "x"}}}}]),
            'spec.devices[0].basic.capacity["m"].value',
        ),
        (body(version="v1beta1", devices=[{"name": 1, "basic": {}}]), "spec.devices[0].name"),
        (
            body("ResourceClaim", "v1beta1", devices={"requests": [{"name": "r", "count": "2"}]}),
            "spec.devices.requests[0].count",
        ),
        (
            body(
                "ResourceClaim", "v1beta2", devices={"requests": [{"name": "r", "exactly": {"count": "2"}}]}
            ),
            "spec.devices.requests[0].exactly.count",
        ),
    ],
)
def test_the_field_is_named_as_in_the_version_it_was_written_in(wire, field):
    """Whoever wrote v1beta1 is told where to look in v1beta1."""
    with pytest.raises(ObjectError) as caught:
        read_object(wire)
    assert caught.value.field == field


def test_a_long_value_is_shortened():
    """A message stays one line that fits a screen."""
    with pytest.raises(ObjectError) as caught:
        read_object(body(driver=["x" * 1000]))
    assert len(str(caught.value)) < 150
