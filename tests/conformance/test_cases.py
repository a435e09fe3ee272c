"""Cases: reading, answering and comparing them."""

import pytest

from conformance.cases import CaseError, differences, encoded, outcome
from dra_operator.api.types import Device
from dra_operator.cel import compile_program, prepare_device
from dra_operator.cel.run.meter import Meter

DEVICE = {"driver": "d", "attributes": {"a": {"int": 1}}}


@pytest.mark.parametrize(
    ("case", "ours"),
    [
        ({"expression": "device.attributes['d'].a == 1", "device": DEVICE}, {"match": True}),
        (
            {"expression": "device.driver == 'd'", "device": DEVICE, "maxCost": 3},
            {"match": True, "maxCost": 3},
        ),
        ({"expression": "device.attributes['d'].b", "device": DEVICE}, {"error": "no such key: b"}),
        ({"expression": "1 + 1"}, {"outputType": "int", "valueType": "int", "value": "2", "actualCost": 1}),
    ],
)
def test_a_case_has_this_outcome(case, ours):
    """With a device there is a match or an error, without one a value with type and cost."""
    assert outcome(case) == ours


@pytest.mark.parametrize(
    "case", [{}, {"expression": 1}, {"expression": "true", "device": 1}, {"expression": "1", "env": "x"}]
)
def test_what_is_no_case_is_refused(case):
    """A case that cannot be read says why."""
    with pytest.raises(CaseError):
        outcome(case)


@pytest.mark.parametrize(
    ("case", "ours", "different"),
    [
        ({"expected": {"match": True}}, {"match": True}, ()),
        ({"expected": {"match": True}}, {"match": False}, ("match",)),
        ({"expected": {"error": "x"}}, {"error": "y"}, ()),
        ({"expected": {"error": "x"}}, {"match": True}, ("error",)),
        ({"value": "1", "actualCost": 2}, {"value": "1", "actualCost": 3}, ("actualCost",)),
        ({"value": "1", "actualCost": 2, "costVaries": True}, {"value": "1", "actualCost": 3}, ()),
        ({"expected": {"match": True}, "maxCost": 1}, {"match": True, "maxCost": 2}, ("maxCost",)),
        ({}, {"match": True}, ()),
    ],
)
def test_answers_are_compared_without_their_texts(case, ours, different):
    """Class, value, type and costs count; words do not; a case without an answer has nothing to differ from."""
    assert differences(case, ours) == different


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": 5},
        {"features": ["x"]},
        {"features": {"ConsumableCapacity": []}},
        {"expected": 5},
        {"expected": None},
        {"env": ["stored"]},
        {"kubernetes": 1.37},
        {"device": {"driver": 5}},
        {"device": {"attributes": 5}},
        {"device": {"attributes": {"a": 5}}},
        {"device": {"capacity": {"a": 5}}},
        {"device": []},
    ],
)
def test_a_field_of_a_wrong_type_is_named(wrong):
    """The message says which."""
    with pytest.raises(CaseError, match=next(iter(wrong))):
        outcome({"expression": "true", **wrong})


@pytest.mark.parametrize(
    ("text", "json"),
    [
        ("true", True),
        ("1", "1"),
        ("1u", "1u"),
        ("1.5", "d:1.5"),
        ("'a'", "s:a"),
        ("b'\\xff'", "b:ff"),
        ("null", "null"),
        ("[1, 2]", ["1", "2"]),
        ("{'a': true}", {"s:a": True}),
        ("{true: 1}", {"true": "1"}),
        ("{[true, false]: 1}", {"[true false]": "1"}),
        ("{{'b': [1], 'a': [2]}: 1}", {"map[s:a:[2] s:b:[1]]": "1"}),
        ("type(1)", "type:int"),
        ("optional.none()", {"optional": "none"}),
        ("optional.of(1)", {"optional": "1"}),
        ("duration('90m')", "google.protobuf.Duration:1h30m0s"),
        (
            "timestamp('2020-01-01T00:00:00+01:00')",
            "google.protobuf.Timestamp:2020-01-01 00:00:00 +0100 +0100",
        ),
        ("quantity('1.5G')", "kubernetes.Quantity:1500M"),
        ("ip('::1')", "net.IP:::1"),
    ],
)
def test_a_value_is_written_with_its_type(text, json):
    """Each type has a form of its own."""
    assert encoded(compile_program(text).evaluate(prepare_device("d", Device(name="a")), Meter())) == json
